package vm_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// onDevice opens the device that tests run on: the fake, or, with ONNXMEM_TEST_GPU, the
// GPU of this machine. The fake is nil then.
func onDevice(t testing.TB) (*cuda.Device, *fake.Fake) {
	t.Helper()
	var f *fake.Fake
	if os.Getenv("ONNXMEM_TEST_GPU") == "" {
		f = fake.Use(t)
		t.Cleanup(func() {
			f.Mode("lazy")
			f.Strict(false)
			f.FailAllocation(0)
			f.SkipWait(0)
		})
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
	return d, f
}

// modes are the orders of work in which results must be the same bits.
var modes = []string{"eager", "lazy", "random:1", "random:2", "random:3", "random:4", "random:5"}

// smallNetwork is a built-in network that the fake runs in a second.
type smallNetwork struct {
	name string
	set  map[string]string
	dims map[string]int64
}

var (
	smallImage  = map[string]string{"width": "0.25", "size": "32", "classes": "10"}
	smallLayers = map[string]string{"vocab": "50", "positions": "16", "layers": "2", "hidden": "32", "heads": "4", "ff": "64"}
)

var smallNetworks = []smallNetwork{
	{"resnet18", smallImage, map[string]int64{"batch": 2}},
	{"mobilenet_v2", smallImage, map[string]int64{"batch": 2}},
	{"googlenet", map[string]string{"width": "0.25", "size": "32", "classes": "10"}, map[string]int64{"batch": 1}},
	{"vit_b_16", map[string]string{"size": "32", "patch": "8", "classes": "10", "layers": "2", "hidden": "32", "heads": "4", "ff": "64"}, map[string]int64{"batch": 2}},
	{"bert", smallLayers, map[string]int64{"batch": 2, "sequence": 8}},
	{"transformer", smallLayers, map[string]int64{"batch": 1, "source": 6, "target": 5}},
}

// file writes the network.
func (n *smallNetwork) file(t testing.TB) string {
	t.Helper()
	m, err := models.Build(n.name, models.Options{Set: n.set, Dims: n.dims})
	if err != nil {
		t.Fatal(err)
	}
	return write(t, m, n.name+".onnx")
}

// write writes a model into a folder of its own and returns its path.
func write(t testing.TB, m *graph.Model, name string) string {
	t.Helper()
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := im.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	return path
}

// inputsOf returns values for the inputs of a program that have none.
func inputsOf(p *vm.Program) map[string]vm.Value {
	inputs := map[string]vm.Value{}
	for _, in := range p.Inputs() {
		shape := make([]graph.Dim, len(in.Type.Shape))
		copy(shape, in.Type.Shape)
		switch {
		case in.Name == "learning_rate":
			inputs[in.Name] = vm.Float32s([]float32{0.01})
		case in.Type.Elem == graph.Int64:
			n := 1
			dims := []int{}
			for _, d := range shape {
				n *= int(d)
				dims = append(dims, int(d))
			}
			list := make([]int64, n)
			for i := range list {
				list[i] = int64(i % 2)
			}
			inputs[in.Name] = vm.Int64s(list, dims...)
		case in.Type.Elem == graph.Bool:
			inputs[in.Name] = vm.Value{Type: graph.Bool, Shape: []int{}, Data: []byte{1}}
		default:
			inputs[in.Name] = ramp(shape)
		}
	}
	return inputs
}

// runSteps runs a new session some times and returns clones of the last outputs.
func runSteps(t testing.TB, p *vm.Program, opt vm.Options, load *graph.Model, steps int) (map[string]vm.Value, *vm.Session) {
	t.Helper()
	all, s := everyStep(t, p, opt, load, steps)
	return all[steps-1], s
}

// everyStep runs a new session some times and returns clones of the outputs of each step.
func everyStep(t testing.TB, p *vm.Program, opt vm.Options, load *graph.Model, steps int) ([]map[string]vm.Value, *vm.Session) {
	t.Helper()
	s := newSession(t, p, opt)
	if load != nil {
		if err := s.Load(load); err != nil {
			t.Fatal(err)
		}
	}
	var all []map[string]vm.Value
	for range steps {
		out, err := s.Run(t.Context(), inputsOf(p))
		if err != nil {
			t.Fatal(err)
		}
		clones := map[string]vm.Value{}
		for name, v := range out {
			clones[name] = v.Clone()
		}
		all = append(all, clones)
	}
	return all, s
}

// nudgedStep runs a step on the CPU with inputs that differ in the last bit of each float32.
func nudgedStep(t testing.TB, p *vm.Program, load *graph.Model) map[string]vm.Value {
	t.Helper()
	s := newSession(t, p, vm.Options{})
	if err := s.Load(load); err != nil {
		t.Fatal(err)
	}
	inputs := inputsOf(p)
	for name, v := range inputs {
		if v.Type == graph.Float32 && len(v.Shape) > 0 {
			v = v.Clone()
			for i := 0; i < len(v.Data); i += 4 {
				v.Data[i] ^= 1
			}
			inputs[name] = v
		}
	}
	out, err := s.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	return maps.Clone(out)
}

// nearly compares outputs within a part of their largest element.
func nearly(t testing.TB, got, want map[string]vm.Value, part float64) {
	t.Helper()
	nearlyAs(t, got, want, nil, part)
}

// nearlyAs is nearly, and allows for four times as much as moved differs from what is wanted:
// that is what rounding may do.
func nearlyAs(t testing.TB, got, want, moved map[string]vm.Value, part float64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		size := 0.0
		list, _ := want[name].Reals()
		for _, v := range list {
			size = max(size, v, -v)
		}
		bar := part * max(size, 1e-4)
		if near, known := moved[name]; known {
			list, _ := near.Reals()
			exact, _ := want[name].Reals()
			for i, v := range list {
				bar = max(bar, 4*math.Abs(v-exact[i]))
			}
		}
		if err := compare(got[name], want[name], 0, bar); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDeviceNetworks: networks give the CPU's results on the device, and the same bits with
// every tensor apart and in every order of work, while no device memory is touched by the
// host.
func TestDeviceNetworks(t *testing.T) {
	d, f := onDevice(t)
	for _, n := range smallNetworks {
		t.Run(n.name, func(t *testing.T) {
			p, _ := program(t, n.file(t), passes.Options{})
			checkOnDevice(t, p, d, f, nil, 1)
		})
	}
}

// TestDeviceTraining: so do training steps.
func TestDeviceTraining(t *testing.T) {
	d, f := onDevice(t)
	optimizers := []string{"sgd", "momentum", "adamw"}
	for i, n := range smallNetworks {
		optimizer := optimizers[i%len(optimizers)]
		t.Run(n.name+"-"+optimizer, func(t *testing.T) {
			if n.name != "resnet18" {
				sweepOnFake(t, f)
			}
			p, r := program(t, n.file(t), passes.Options{Train: &autodiff.Options{Optimizer: optimizer}})
			checkOnDevice(t, p, d, f, r.Step.Params, 3)
		})
	}
}

func checkOnDevice(t *testing.T, p *vm.Program, d *cuda.Device, f *fake.Fake, load *graph.Model, steps int) {
	t.Helper()
	part := 2e-5
	if f == nil {
		part = 2e-4 // cuDNN may convolve by Winograd
	}
	if load != nil {
		// Every node is right by itself. Normalization over few elements enlarges what
		// rounding does to gradients.
		part = 5e-2
		checkNodes(t, p, d, load)
	}
	var moved map[string]vm.Value
	// One step: differences of rounding grow from step to step.
	want, _ := runSteps(t, p, vm.Options{}, load, 1)
	maps.DeleteFunc(want, func(name string, _ vm.Value) bool {
		// An adaptive step divides a gradient by its size, even one that is only rounding.
		_, adaptive := want[strings.TrimSuffix(name, ".new")+".adam_m.new"]
		return adaptive
	})
	if load != nil {
		moved = nudgedStep(t, p, load)
	}
	got, s := everyStep(t, p, vm.Options{Device: d, NoReplay: true}, load, steps)
	if n := calledByMachine(s); cudaMachine && n != p.Nodes() {
		t.Errorf("gorgonia's CUDA machine called %d nodes of %d", n, p.Nodes())
	}
	nearlyAs(t, got[0], want, moved, part)
	apart, s := everyStep(t, p, vm.Options{Device: d, NoReplay: steps == 1, Separate: true}, load, steps)
	if u := s.DeviceUse(); u.FallbackNodes > 0 {
		t.Logf("on the CPU: %d nodes (%v)", u.FallbackNodes, u.FallbackOps)
	}
	for i := range got {
		sameBits(t, fmt.Sprintf("apart, step %d", i), apart[i], got[i])
	}
	if steps > 1 {
		replayed, s := everyStep(t, p, vm.Options{Device: d}, load, steps)
		for i := range got {
			sameBits(t, fmt.Sprintf("replayed, step %d", i), replayed[i], got[i])
		}
		if u := s.DeviceUse(); u.FallbackNodes == 0 && u.ReplayedSteps != steps-2 {
			t.Errorf("%d of %d steps were replayed, expected all after the second", u.ReplayedSteps, steps)
		}
	}
	if f == nil {
		return
	}
	orders := modes
	if steps > 1 && !cudaMachine {
		// Streams and events order the same work in both builds: of training steps, make
		// test-cuda tries all orders.
		orders = []string{"eager", "random:1"}
	}
	strict := "lazy" // only one: the pages are opened for every kernel
	if steps > 1 {
		strict = "eager"
	}
	for _, mode := range orders {
		f.Mode(mode)
		f.Strict(mode == strict)
		again, _ := runSteps(t, p, vm.Options{Device: d}, load, 1)
		sameBits(t, mode, again, got[0])
	}
	f.Mode("lazy")
	f.Strict(false)
	if n := f.Counters().FloatAtomics; n > 0 {
		t.Errorf("%d atomic sums of reals, whose order depends on timing", n)
	}
}

// checkNodes holds each node of a step on the device against the plain evaluator, which
// gets the same inputs.
func checkNodes(t *testing.T, p *vm.Program, d *cuda.Device, load *graph.Model) {
	t.Helper()
	inputs := inputsOf(p)
	params, err := vm.OpenInitializers(load)
	if err != nil {
		t.Fatal(err)
	}
	defer params.Close()
	maps.Copy(inputs, params.Values)
	found, err := p.CheckReference(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	if found.Wrong > 0 || found.Compared == 0 {
		t.Errorf("%d of %d nodes are wrong: %v", found.Wrong, found.Compared, found.First)
	}
}

func sameBits(t testing.TB, what string, got, want map[string]vm.Value) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !bytes.Equal(got[name].Data, want[name].Data) {
			t.Errorf("%s: %s has other bits", what, name)
		}
	}
}

// TestDevicePoison: poisoned runs of inference and training find nothing and give the same
// bits.
func TestDevicePoison(t *testing.T) {
	d, _ := onDevice(t)
	p, r := trained(t, classifier(t))
	runs := []map[string]vm.Value{batch(), batch()}
	params, err := vm.OpenInitializers(r.Step.Params)
	if err != nil {
		t.Fatal(err)
	}
	defer params.Close()
	maps.Copy(runs[0], params.Values)
	check, err := p.CheckRun(t.Context(), runs, vm.Options{Device: d, Poison: true})
	if err != nil || !check.Identical() || check.Runs != 2 {
		t.Errorf("%+v, %v", check, err)
	}
}

// TestDeviceMemory: everything is allocated when the session is made, each allocation that
// fails is a clean error that leaves nothing behind, and Close frees all.
func TestDeviceMemory(t *testing.T) {
	d, f := onDevice(t)
	if f == nil {
		t.Skip("a GPU does not count its allocations")
	}
	p, r := trained(t, classifier(t))
	empty := f.Counters()
	s, err := p.NewSession(vm.Options{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Load(r.Step.Params); err != nil {
		t.Fatal(err)
	}
	made := f.Counters()
	advance(t, s, 4)
	if ran := f.Counters(); ran.Allocations != made.Allocations || ran.Pinned != made.Pinned {
		t.Errorf("%d allocations during the runs", ran.Allocations-made.Allocations)
	}
	u := s.DeviceUse()
	if sum := u.ArenaBytes + u.ResidentBytes + u.ConstantBytes + u.ScratchBytes; uint64(sum) > made.LiveBytes-empty.LiveBytes || u.ArenaBytes != s.Memory().ArenaBytes {
		t.Errorf("the session says %+v, the driver %d bytes", u, made.LiveBytes-empty.LiveBytes)
	}
	// By the fake driver's account, a block takes what it has. A few words of the kernels' own
	// are in none of the parts.
	m := u.Measured
	if m.ArenaBytes != max(u.ArenaBytes, 256) || m.ScratchBytes < u.ScratchBytes || m.ResidentBytes+m.ConstantBytes < u.ResidentBytes+u.ConstantBytes || m.KernelBytes == 0 || m.GraphBytes == 0 {
		t.Errorf("measured %+v of %+v", m, u)
	}
	if parts := m.ArenaBytes + m.ResidentBytes + m.ConstantBytes + m.ScratchBytes + m.KernelBytes + m.LibraryBytes + m.GraphBytes; u.TakenBytes < parts || u.TakenBytes > parts+4096 {
		t.Errorf("%d bytes are taken, %d by the parts: %+v", u.TakenBytes, parts, m)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= int(made.Allocations-empty.Allocations); n++ {
		f.FailAllocation(n)
		_, err := p.NewSession(vm.Options{Device: d})
		if !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("allocation %d fails: %v", n, err)
		}
		f.FailAllocation(0)
		if left := f.Counters(); left.LiveBytes != empty.LiveBytes {
			t.Errorf("allocation %d fails: %d bytes are left behind", n, left.LiveBytes-empty.LiveBytes)
		}
	}
}

// TestDeviceLimit: a limit is one on device memory, and no allocation beyond it is made.
func TestDeviceLimit(t *testing.T) {
	d, f := onDevice(t)
	p, r := program(t, smallNetworks[0].file(t), passes.Options{})
	needs := r.Plan.Pools[0].Bytes + r.Plan.Pools[1].Bytes
	var limit *vm.LimitError
	if _, err := p.NewSession(vm.Options{Device: d, MemoryLimit: needs / 2}); !errors.As(err, &limit) {
		t.Errorf("half of what the plan needs: %v", err)
	}
	s, err := p.NewSession(vm.Options{Device: d, MemoryLimit: 2 * needs})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if f == nil {
		return
	}
	f.Memory(needs / 2)
	defer f.Memory(8 << 30)
	q, _ := program(t, smallNetworks[0].file(t), passes.Options{})
	if _, err := q.NewSession(vm.Options{Device: d}); !errors.As(err, &limit) || !limit.Free {
		t.Errorf("a device with half of what the plan needs: %v", err)
	}
}

// TestDeviceStates: parameters and states stay on the device from step to step, and can be
// saved from there, set, and trained on with another learning rate, with and without
// replay. One recording serves all learning rates.
func TestDeviceStates(t *testing.T) {
	d, f := onDevice(t)
	p, r := trained(t, classifier(t))
	var saves [2][]byte
	for k, opt := range []vm.Options{{Device: d}, {Device: d, NoReplay: true}} {
		if f != nil {
			f.ResetCounters()
		}
		s := newSession(t, p, opt)
		if err := s.Load(r.Step.Params); err != nil {
			t.Fatal(err)
		}
		advance(t, s, 4)
		path := filepath.Join(t.TempDir(), "params.onnx")
		if err := s.Save(path); err != nil {
			t.Fatal(err)
		}
		again := newSession(t, p, opt)
		if err := again.Load(open(t, path).Model); err != nil {
			t.Fatal(err)
		}
		for _, x := range []*vm.Session{s, again} {
			inputs := batch()
			inputs["learning_rate"] = vm.Float32s([]float32{0.5})
			if _, err := x.Run(t.Context(), inputs); err != nil {
				t.Fatal(err)
			}
			if err := x.Save(path); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if saves[k] != nil && !bytes.Equal(saves[k], b) {
				t.Error("a session that goes on from saved parameters takes another step")
			}
			saves[k] = b
		}
		recordings, replayed := 1, 3
		if opt.NoReplay {
			recordings, replayed = 0, 0
		}
		if u := s.DeviceUse(); u.ReplayedSteps != replayed {
			t.Errorf("%d replayed steps of 5, expected %d: %+v", u.ReplayedSteps, replayed, u)
		}
		if f != nil && int(f.Counters().Captures) != recordings {
			t.Errorf("%d recordings, expected %d", f.Counters().Captures, recordings)
		}
	}
	if !bytes.Equal(saves[0], saves[1]) {
		t.Error("replayed steps give other bits")
	}
}

// TestDeviceBodies: bodies of If, Loop and Scan, and local functions, run on the device.
func TestDeviceBodies(t *testing.T) {
	d, f := onDevice(t)
	for _, name := range []string{"calls", "bodies", "loops"} {
		t.Run(name, func(t *testing.T) {
			p, _ := program(t, filepath.Join("..", "testdata", "functions", name+".onnx"), passes.Options{})
			checkOnDevice(t, p, d, f, nil, 2)
		})
	}
}

// TestDeviceProfile: every node has a time of the device's clock.
func TestDeviceProfile(t *testing.T) {
	d, _ := onDevice(t)
	p, _ := program(t, smallNetworks[0].file(t), passes.Options{})
	s := newSession(t, p, vm.Options{Device: d})
	profile := s.Profile()
	for range 3 {
		if _, err := s.Run(t.Context(), inputsOf(p)); err != nil {
			t.Fatal(err)
		}
	}
	costs := profile.Costs()
	if len(costs) == 0 {
		t.Error("no times")
	}
	var b bytes.Buffer
	if err := profile.Write(&b); err != nil || b.Len() == 0 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	if n := s.DeviceUse().ReplayedSteps; n > 0 {
		t.Errorf("%d steps were replayed, whose nodes have no times", n)
	}
}

// TestDeviceNodeTests: ONNX's operator tests of the repository pass on the device. Those that
// ONNX Runtime does not pass either, such as those of random numbers, are only listed.
func TestDeviceNodeTests(t *testing.T) {
	d, f := onDevice(t)
	sweepOnFake(t, f)
	passed := 0
	for _, k := range repositoryNodeTests(t) {
		err := k.run(vm.Options{Device: d})
		switch {
		case err == nil:
			passed++
		case errors.Is(err, errUnclaimed):
		case k.runtime != "" && k.runtime != "pass":
			t.Logf("%s (ONNX Runtime: %s): %v", k.name, k.runtime, err)
		default:
			t.Errorf("%s: %v", k.name, err)
		}
	}
	t.Logf("%d pass", passed)
	if passed == 0 {
		t.Error("no test passes")
	}
}

// TestDeviceTensorScatter: ONNX's operator tests of TensorScatter pass, and the device does
// all of them.
func TestDeviceTensorScatter(t *testing.T) {
	d, _ := onDevice(t)
	ran := 0
	for _, k := range readNodeTests(t) {
		m, err := onnx.Parse(k.name, k.files["model.onnx"])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "TensorScatter" }) {
			continue
		}
		ran++
		p, err := k.program(passes.FoldExact)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.runIn(p, vm.Options{Device: d}); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		if u := newSession(t, p, vm.Options{Device: d}).DeviceUse(); u.FallbackNodes > 0 {
			t.Errorf("%s: on the CPU: %d nodes (%v)", k.name, u.FallbackNodes, u.FallbackOps)
		}
	}
	if ran == 0 {
		t.Error("no test has TensorScatter")
	}
}

// repositoryNodeTests reads the operator tests in testdata, or, with ONNXMEM_ALL_NODE_TESTS,
// all of them.
func repositoryNodeTests(t testing.TB) (list []*nodeTest) {
	t.Helper()
	if os.Getenv("ONNXMEM_ALL_NODE_TESTS") != "" {
		return readNodeTests(t)
	}
	folders, err := filepath.Glob(filepath.Join("..", "testdata", "nodes", "*"))
	if err != nil || len(folders) == 0 {
		t.Fatal("no operator tests", err)
	}
	for _, folder := range folders {
		k := &nodeTest{name: filepath.Base(folder), files: map[string][]byte{}}
		files, _ := filepath.Glob(filepath.Join(folder, "test_data_set_0", "*.pb"))
		for _, path := range append(files, filepath.Join(folder, "model.onnx")) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			k.files[filepath.Base(path)] = b
		}
		list = append(list, k)
	}
	return list
}

// TestDeviceRefuses: what a device cannot do is a clear error.
func TestDeviceRefuses(t *testing.T) {
	d, _ := onDevice(t)
	p, _ := trained(t, classifier(t))
	if _, err := p.NewSession(vm.Options{Device: d, Guard: vm.GuardEnd}); err == nil {
		t.Error("guarded pages on a device: no error")
	}
	for _, name := range []string{"cuda:7", "cuda:GPU-none", "rocm"} {
		if other, err := cuda.Open(name); err == nil {
			t.Errorf("%s opens as %s", name, other.Name())
		}
	}
	if _, err := cuda.Open(fmt.Sprintf("cuda:%d", 0)); err != nil {
		t.Error(err)
	}
}

// TestDeviceCompiled: a session counts the sources of its kernels while they are compiled, and
// another one of the same program finds them there.
func TestDeviceCompiled(t *testing.T) {
	d, _ := onDevice(t)
	var seen []int
	all := 0
	d.Compiled = func(done, sources int) { seen, all = append(seen, done), sources }
	p, _ := trained(t, classifier(t))
	for range 2 {
		s, err := p.NewSession(vm.Options{Device: d})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	want := make([]int, all)
	for i := range want {
		want[i] = i + 1
	}
	if all == 0 || !slices.Equal(seen, want) {
		t.Errorf("%d sources: counted %v, expected each number once", all, seen)
	}
}
