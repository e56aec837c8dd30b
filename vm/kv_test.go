package vm_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// decoders are those of testdata/decoders, with the number of tokens that their caches get
// room for.
var decoders = map[string]int64{"gpt2": 32, "gpt2-eager": 24, "llama": 40, "llama-23": 40, "t5": 40, "whisper": 32}

// vocabulary is the number of tokens that they know.
const vocabulary = 61

func openDecoder(t testing.TB, name string) *graph.Model {
	t.Helper()
	f, err := onnx.Open(filepath.Join("../testdata/decoders", name+".onnx"), onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f.Model
}

// spoken returns the inputs of a decoder for a token: the token, all that is not known yet
// as it always is, and masks that show all tokens. Caches are left out.
func spoken(t testing.TB, inputs []graph.Tensor, k *plan.KV, token int) map[string]vm.Value {
	t.Helper()
	values := map[string]vm.Value{}
	for _, in := range inputs {
		var v vm.Value
		var err error
		switch {
		case strings.HasPrefix(in.Name, "past_"):
			continue
		case k != nil && in.Name == k.Index:
			v = vm.Int64s([]int64{int64(token) * k.New}, 1)
		case in.Name == "input_ids":
			v = vm.Int64s([]int64{rand.New(rand.NewPCG(uint64(token), 3)).Int64N(vocabulary)}, 1, 1)
		case strings.Contains(in.Name, "mask"):
			v, err = vm.Filled(in, 1)
		default:
			v, err = vm.Random(in, uint64(len(in.Name))+uint64(in.Name[len(in.Name)-1]))
		}
		if err != nil {
			t.Fatal(err)
		}
		values[in.Name] = v
	}
	return values
}

// Decoders as PyTorch exports them give, token by token, the same scores with caches of a
// fixed capacity as with caches that grow, whatever an earlier text left in the caches.
func TestKVCapacity(t *testing.T) {
	for name, capacity := range decoders {
		t.Run(name, func(t *testing.T) {
			const tokens = 12
			var want []vm.Value
			past := map[string]vm.Value{}
			for i := range tokens {
				p, _ := plannedModel(t, openDecoder(t, name), passes.Options{Dims: map[string]int64{"past": int64(i)}, Effort: schedule.EffortFast})
				in := spoken(t, p.Inputs(), nil, i)
				for _, x := range p.Inputs() {
					if strings.HasPrefix(x.Name, "past_") && i == 0 {
						v, err := vm.Filled(x, 0)
						if err != nil {
							t.Fatal(err)
						}
						past[x.Name] = v
					}
				}
				maps.Copy(in, past)
				s := newSession(t, p, vm.Options{})
				out, err := s.Run(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				for x, v := range out {
					if strings.HasPrefix(x, "present_") {
						past["past_"+strings.TrimPrefix(x, "present_")] = v.Clone()
					}
				}
				want = append(want, out["logits"].Clone())
			}

			p, described := plannedModel(t, openDecoder(t, name), passes.Options{KVCapacity: capacity})
			k := p.KV()
			if k == nil || k.Capacity != capacity || k.New != 1 || k.Dimension != "past" || len(k.Caches) != 4 || len(p.Caches()) != 4 {
				t.Fatalf("caches: %+v", k)
			}
			for _, b := range described.Buffers {
				if b.Kind == plan.KindCache && b.Pool != plan.Resident {
					t.Errorf("cache %v lies in pool %s", b.Tensors, b.Pool)
				}
			}
			s := newSession(t, p, vm.Options{Poison: true})
			equal := 0
			for text := range 2 { // the second finds what the first left
				for i := range tokens {
					out, err := s.Run(t.Context(), spoken(t, p.Inputs(), k, i))
					if err != nil {
						t.Fatal(err)
					}
					nearly(t, out, map[string]vm.Value{"logits": want[i]}, 2e-6)
					if bytes.Equal(out["logits"].Data, want[i].Data) {
						equal++
					}
				}
				t.Logf("text %d: %d of %d scores have the same bits", text, equal, tokens)
				equal = 0
			}
			runs := []map[string]vm.Value{spoken(t, p.Inputs(), k, 0), spoken(t, p.Inputs(), k, 1), spoken(t, p.Inputs(), k, 2)}
			if check, err := p.CheckRun(t.Context(), runs, vm.Options{Poison: true}); err != nil || !check.Identical() {
				t.Errorf("planned and apart: %+v, %v", check, err)
			}
			last := spoken(t, p.Inputs(), k, int(capacity))
			if _, err := s.Run(t.Context(), last); err == nil {
				t.Error("a token behind the last place was accepted")
			}
			verified(t, name, capacity)
		})
	}
}

// verified checks the file and the plan of a rewritten decoder beside its source.
func verified(t *testing.T, name string, capacity int64) {
	t.Helper()
	r, err := passes.Optimize(t.Context(), openDecoder(t, name), passes.Options{KVCapacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	image, err := onnx.Encode(r.Model)
	if err != nil {
		t.Fatal(err)
	}
	b, err := image.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse("planned.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	r.Plan.Model = plan.SourceOf(m)
	report, err := verify.Plan(m, r.Plan, verify.Options{Source: openDecoder(t, name)})
	if err != nil || !report.Valid {
		t.Errorf("%v %+v", err, report)
	}
}
