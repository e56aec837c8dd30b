package vm_test

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// chain is x, a = Exp(x), b = Sigmoid(a), c = Add(a, b), y = Tanh(c): a is still live
// when b is computed.
func chain(t testing.TB) string { return chainOf(t, "Exp", "Sigmoid", "Tanh") }

// chainOf is chain with three other operators.
func chainOf(t testing.TB, first, second, last string) string {
	n := newNet()
	n.input("x", 4, 64)
	n.node(first, "a", "x")
	n.node(second, "b", "a")
	n.node("Add", "c", "a", "b")
	n.node(last, "y", "c")
	n.output("y", 4, 64)
	path := filepath.Join(t.TempDir(), "chain.onnx")
	n.write(t, path)
	return path
}

// planned plans a model with every tensor in its own buffer.
func planned(t testing.TB, path string) (*vm.Program, *plan.Plan) {
	t.Helper()
	p, r := program(t, path, passes.Options{NoInplace: true})
	return p, r.Plan
}

func bufferOf(t testing.TB, p *plan.Plan, name string) *plan.Buffer {
	t.Helper()
	for i := range p.Buffers {
		if len(p.Buffers[i].Tensors) > 0 && p.Buffers[i].Tensors[0] == name {
			return &p.Buffers[i]
		}
	}
	t.Fatalf("no buffer of %q", name)
	return nil
}

// CheckRun detects a wrong plan and names the node. New would refuse the plan, so the test
// changes it afterwards.
func TestCheckRunFindsWrongPlans(t *testing.T) { findsWrongPlans(t, nil, chain(t)) }

// TestDeviceFindsWrongPlans: so does a check on a device. No two of the nodes are one kernel
// there, which would leave their tensors out of the arena.
func TestDeviceFindsWrongPlans(t *testing.T) {
	d, _ := onDevice(t)
	findsWrongPlans(t, d, chainOf(t, "Softmax", "LpNormalization", "Softmax"))
}

func findsWrongPlans(t *testing.T, d *cuda.Device, path string) {
	inputs := []map[string]vm.Value{{"x": ramp([]graph.Dim{4, 64})}}
	for _, c := range []struct {
		name   string
		spoil  func(p *plan.Plan)
		poison bool
		node   string // whose result differs
		stray  string // what the error says
	}{
		{name: "sound", spoil: func(*plan.Plan) {}},
		{name: "sound, poisoned", spoil: func(*plan.Plan) {}, poison: true},
		{name: "two live tensors in one place", node: `node "c"`, spoil: func(p *plan.Plan) {
			bufferOf(t, p, "b").Offset = bufferOf(t, p, "a").Offset
		}},
		{name: "a tensor dies before its last reader", poison: true, node: `node "c"`, spoil: func(p *plan.Plan) {
			bufferOf(t, p, "a").Last = 1
		}},
		{name: "a buffer is smaller than its tensor", poison: true, stray: `node "c" \(Add\).*stray write at step 2: byte \d+ of the arena, which holds nothing at that step`, spoil: func(p *plan.Plan) {
			bufferOf(t, p, "c").Bytes = 64
		}},
		{name: "a tensor is made before its buffer lives", poison: true, stray: `node "b" \(\w+\).*stray write at step 1: byte \d+ .*\(tensor "b" has it at steps 2-2\)`, spoil: func(p *plan.Plan) {
			b := bufferOf(t, p, "b")
			b.First = 2
			b.Offset = p.Pools[0].Bytes // unused by other buffers
			p.Pools[0].Bytes += b.Bytes
		}},
		{name: "and long before, so that the node is not the last that ran", poison: true, stray: `node "b" \(\w+\).*stray write at step 1: byte \d+ .*\(tensor "b" has it at steps 3-3\)`, spoil: func(p *plan.Plan) {
			b := bufferOf(t, p, "b")
			b.First, b.Last = 3, 3
			b.Offset = p.Pools[0].Bytes
			p.Pools[0].Bytes += b.Bytes
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm.UncheckedLowering(t)
			program, p := planned(t, path)
			c.spoil(p)
			found, err := program.CheckRun(t.Context(), inputs, vm.Options{Poison: c.poison, Device: d})
			switch {
			case c.stray != "":
				if !errors.Is(err, store.ErrStray) || !regexp.MustCompile(c.stray).MatchString(err.Error()) {
					t.Errorf("got %v, want %q", err, c.stray)
				}
			case err != nil:
				t.Fatal(err)
			case found.Identical() != (c.node == ""):
				t.Errorf("identical: %v", found.Identical())
			case c.node != "" && (found.First == nil || !strings.Contains(found.First.Error(), c.node)):
				t.Errorf("the first is %v, want %s", found.First, c.node)
			}
		})
	}
}

// Plans, operators and inputs that do not fit are refused before anything runs.
func TestRefusals(t *testing.T) {
	n := newNet()
	n.input("x", 4, 64)
	n.node("Mystery", "y", "x")
	n.output("y", 4, 64)
	mystery := filepath.Join(t.TempDir(), "mystery.onnx")
	n.g.Nodes[0].Domain = "com.acme"
	n.write(t, mystery)
	path := chain(t)
	program, p := planned(t, path)
	x := ramp([]graph.Dim{4, 64})
	s := newSession(t, program, vm.Options{})
	run := func(in map[string]vm.Value) error {
		_, err := s.Run(t.Context(), in)
		return err
	}
	for _, c := range []struct {
		name string
		err  func() error
		want string
	}{
		{"a plan of another model", func() error {
			_, err := vm.New(open(t, classifier(t)).Model, p)
			return err
		}, `classifier\.onnx: the plan does not fit the model: `},
		{"a plan that is wrong", func() error {
			q := *p
			q.Buffers = append([]plan.Buffer(nil), p.Buffers...)
			bufferOf(t, &q, "b").Offset = bufferOf(t, &q, "a").Offset
			_, err := vm.New(open(t, path).Model, &q)
			return err
		}, `chain\.onnx: the plan does not fit the model: .*overlap`},
		{"an operator without a kernel", func() error {
			program, _ := planned(t, mystery)
			_, err := program.NewSession(vm.Options{})
			return err
		}, `mystery\.onnx: node "y" \(Mystery, com\.acme\): no kernel for this operator`},
		{"an input of a dtype that the operator is not defined for", func() error {
			n := newNet()
			n.input("boxes", 1, 6, 4)
			n.input("scores", 1, 1, 6)
			n.input("most", 1) // float32, not int64
			n.node("NonMaxSuppression", "y", "boxes", "scores", "most")
			n.g.Tensors[n.tensor("y")].Output = true
			n.g.Outputs = append(n.g.Outputs, n.tensor("y"))
			path := filepath.Join(t.TempDir(), "nms.onnx")
			n.write(t, path)
			program, _ := planned(t, path)
			_, err := program.NewSession(vm.Options{})
			return err
		}, `nms\.onnx: node "y" \(NonMaxSuppression\): input 2 "most" has elements of type float32, expected int64`},
		{"no value", func() error { return run(nil) }, `chain\.onnx: tensor "x": no value given: expected float32\[4,64\]`},
		{"another shape", func() error { return run(map[string]vm.Value{"x": ramp([]graph.Dim{4, 65})}) }, `chain\.onnx: tensor "x": is float32\[4,65\], expected float32\[4,64\]`},
		{"another rank", func() error { return run(map[string]vm.Value{"x": ramp([]graph.Dim{256})}) }, `tensor "x": is float32\[256\], expected`},
		{"another dtype", func() error {
			return run(map[string]vm.Value{"x": {Type: graph.Int32, Shape: x.Shape, Data: x.Data}})
		}, `tensor "x": is int32\[4,64\], expected float32\[4,64\]`},
		{"too few bytes", func() error {
			return run(map[string]vm.Value{"x": {Type: graph.Float32, Shape: x.Shape, Data: x.Data[4:]}})
		}, `tensor "x": has 1020 bytes of elements, expected 1024`},
		{"an unknown input", func() error { return run(map[string]vm.Value{"x": x, "z": x}) }, `chain\.onnx: "z" is no input of the model`},
		{"no such parameter", func() error { return s.Set("x", x) }, `"x" is no parameter or state of the model`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.err(); err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if err := run(map[string]vm.Value{"x": x}); err != nil { // the session still works
		t.Error(err)
	}
}

// Several sessions share packed weights: the second session packs nothing.
func TestSessionsSharePackedWeights(t *testing.T) {
	p, s := session(t, classifier(t), passes.Options{}, vm.Options{Workers: 1})
	packed := s.Memory().PackedBytes
	if packed == 0 {
		t.Fatal("nothing is packed")
	}
	if again := newSession(t, p, vm.Options{Workers: 1}).Memory().PackedBytes; again != packed {
		t.Errorf("%d bytes after the second session, %d after the first", again, packed)
	}
}

// A check with poison detects a kernel that reads bytes behind an input, as Sum, Mean, Max
// and Min of three inputs once did instead of repeating elements, or scratch that it has
// not written.
func TestPoisonShowsWhatAKernelLeansOn(t *testing.T) {
	n := newNet()
	n.input("a", 1)
	n.input("b", 1)
	n.input("c", 3)
	n.node("Sum", "s", "a", "b", "c")
	n.node("Neg", "y", "s")
	n.output("y", 3)
	path := filepath.Join(t.TempDir(), "lean.onnx")
	n.write(t, path)
	in := []map[string]vm.Value{{"a": vm.Float32s([]float32{1}, 1), "b": vm.Float32s([]float32{2}, 1), "c": vm.Float32s([]float32{3, 6, 9}, 3)}}
	float := func(at unsafe.Pointer, i int) *float32 { return (*float32)(unsafe.Add(at, 4*i)) }
	for _, c := range []struct {
		name string
		make func(c *kernel.Invocation) (kernel.Run, error)
	}{
		{"behind an input", func(c *kernel.Invocation) (kernel.Run, error) {
			return func(*work.Pool) error {
				for i := range 3 {
					*float(c.Out[0].At, i) = *float(c.In[0].At, i) + *float(c.In[1].At, i) + *float(c.In[2].At, i)
				}
				return nil
			}, nil
		}},
		{"scratch of all parts", func(c *kernel.Invocation) (kernel.Run, error) {
			off := c.Shared(12)
			return func(w *work.Pool) error {
				for i := range 3 {
					*float(c.Out[0].At, i) = *float(w.Shared(off), i)
				}
				return nil
			}, nil
		}},
		{"a worker's scratch", func(c *kernel.Invocation) (kernel.Run, error) {
			off := c.Each(12)
			return func(w *work.Pool) error {
				w.For(3, func(i, worker int) { *float(c.Out[0].At, i) = *float(w.Each(worker, off), i) })
				return nil
			}, nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := kernel.Lookup("", "Sum")
			was := k.Make
			t.Cleanup(func() { k.Make = was })
			k.Make = c.make
			p, _ := planned(t, path)
			found, err := p.CheckRun(t.Context(), in, vm.Options{Poison: true, Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			if found.Identical() || found.First == nil || !strings.Contains(found.First.Error(), `node "s" (Sum)`) {
				t.Errorf("identical: %v, first: %v", found.Identical(), found.First)
			}
		})
	}
}
