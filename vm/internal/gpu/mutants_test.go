package gpu_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
	"github.com/onnxmem/onnxmem/vm/internal/mutate"
)

// differsBy lists operators whose results on a device and on the host may differ where a
// real is infinite, no number or huge, and why.
var differsBy = map[*regexp.Regexp]string{
	regexp.MustCompile(`Conv|MatMul|Gemm`):              "a product of 0, for padding, and an infinite weight",
	regexp.MustCompile(`Normalization|Lp|ReduceL2|LRN`): "means of infinite elements, and squares beyond float32",
	regexp.MustCompile(`Attention`):                     "keys that are masked are left out, and not multiplied by 0",
	regexp.MustCompile(`Reduce|Softmax|CumSum|Einsum`):  "sums beyond float32",
	regexp.MustCompile(`Resize|Upsample`):               "elements without a weight are left out, or multiplied by 0",
	regexp.MustCompile(`^(DFT|STFT)_`):                  "a quarter turn of an infinite number multiplies it by 0, or exchanges its parts",
	regexp.MustCompile(`RNN|GRU|LSTM`):                  "states beyond float32",
	regexp.MustCompile(`^com.microsoft.QLinear`):        "scales for which no element is a number of 8 bits",
}

// TestMutants: whatever is done to the cases' shapes, dtypes, attributes and elements,
// indices included, a session on a device gives the results of one on the host, or is refused
// as that is. No kernel touches memory that is not its own, on which the fake ends the
// process. ONNXMEM_MUTANTS=REGEXP#FIRST+COUNT chooses cases, and mutants of each.
func TestMutants(t *testing.T) {
	if os.Getenv("ONNXMEM_TEST_GPU") != "" {
		t.Skip("a GPU hides what the fake finds")
	}
	seeds, err := gpu.Seeds()
	if err != nil {
		t.Fatal(err)
	}
	for _, libraries := range []bool{false, true} {
		t.Run(map[bool]string{false: "own kernels", true: "libraries"}[libraries], func(t *testing.T) {
			f := fake.Use(t)
			f.Strict(true)
			t.Cleanup(func() { f.Strict(false) })
			if libraries {
				f.UseBLAS(t)
				f.UseDNN(t)
			}
			d, err := cuda.Open("cuda")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			counts := map[string]int{}
			for _, of := range seeds {
				first, count := uint64(0), uint64(1)
				switch chosen := os.Getenv("ONNXMEM_MUTANTS"); {
				case chosen != "":
					var is bool
					if first, count, is = ask(t, chosen, of.Name); !is {
						continue
					}
				case libraries && !product.MatchString(of.Name), (libraries || of.Generated) && !sweep.On():
					continue
				case sweep.On() && !of.Generated:
					count = 3
				}
				s := seed(t, &of)
				check(t, s.Sound(), true, d, counts)
				for n := first; n < first+count; n++ {
					c, err := s.Mutant(n)
					if err != nil {
						t.Fatal(err)
					}
					check(t, c, n%2 == 0, d, counts)
				}
			}
			t.Log(counts)
		})
	}
}

// mostWork bounds the floating-point operations of a mutant that runs on a device. A mutant of
// 6e10, by a padding of 65535, took 130 s in the fake: five sixths of the test.
const mostWork = 1 << 32

// product is what cuBLAS and cuDNN may compute.
var product = regexp.MustCompile(`MatMul|Gemm|Einsum|Conv`)

// ask reads a choice of mutants.
func ask(t *testing.T, chosen, name string) (first, count uint64, is bool) {
	t.Helper()
	of, numbers, _ := strings.Cut(chosen, "#")
	from, many, _ := strings.Cut(numbers, "+")
	first, _ = strconv.ParseUint(from, 10, 64)
	if count, _ = strconv.ParseUint(many, 10, 64); count == 0 {
		count = 1
	}
	is, err := regexp.MatchString(of, name)
	if err != nil {
		t.Fatal(err)
	}
	return first, count, is
}

// seed is a case for mutants.
func seed(t *testing.T, of *gpu.Seed) *mutate.Seed {
	t.Helper()
	var inputs []vm.Value
	for _, x := range of.Inputs {
		inputs = append(inputs, vm.Value{Type: x.Type, Shape: x.Shape, Data: slices.Clone(unsafe.Slice((*byte)(x.At), x.Bytes()))})
	}
	s, err := mutate.NewSeed(of.Name, of.Model, inputs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// check runs a model on the host and on a device, in one arena or, if apart, with each tensor
// in memory of its own and poison around it.
func check(t *testing.T, c *mutate.Case, apart bool, d *cuda.Device, counts map[string]int) {
	t.Helper()
	opt := vm.Options{Workers: 1, MemoryLimit: 1 << 29, Separate: apart, Poison: apart}
	steps := 1
	if sweep.On() || os.Getenv("ONNXMEM_MUTANTS") != "" {
		steps = 3 // the last one is replayed
	}
	host := mutate.RunWith(c, opt, steps)
	counts[string(host.Stage)]++
	if testing.Verbose() { // the fake may end the process
		fmt.Println(c.Name, c.Edits, host.Stage, host.Refusal)
	}
	if host.Stage != mutate.Started && host.Stage != mutate.Ran {
		return // no session was made
	}
	if host.Work > mostWork {
		counts["too much work for the fake"]++
		return
	}
	opt.Device = d
	device := mutate.RunWith(c, opt, steps)
	if device.Stage == mutate.Ran && device.OnHost == 0 {
		counts["all on the device"]++
	}
	what := mutate.Differ(host, device)
	if what == "" {
		return
	}
	if host.Stage == mutate.Ran && device.Stage == mutate.Ran {
		wrong := mutate.Wrong(c, vm.Options{Workers: 1, Device: d})
		if wrong == "" || excused(c) {
			return // the host rounds otherwise
		}
		what += "; against the evaluator: " + wrong
	}
	t.Errorf("%s: %v: %s", c.Name, c.Edits, what)
}

// wild is an edit by which a real is infinite, no number or huge.
var wild = regexp.MustCompile(`Inf|NaN|\de\+`)

// excused reports whether a mutant's results on the host and on a device may differ.
func excused(c *mutate.Case) bool {
	edits := strings.Join(c.Edits, "; ")
	for of := range differsBy {
		if of.MatchString(c.Name) && wild.MatchString(edits) {
			return true
		}
	}
	// Queries, keys and values of the packed form are rounded to 16 bits, too.
	return strings.HasPrefix(c.Name, "com.microsoft.Attention") && strings.Contains(edits, "float16")
}
