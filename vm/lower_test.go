package vm_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"golang.org/x/sys/cpu"
)

// TestLowering: the table of rewriters meets its constraints, each row is in one of them, and
// two rows that are exchanged are found.
func TestLowering(t *testing.T) {
	table := vm.Lowering()
	if err := vm.CheckLowering(table); err != nil {
		t.Error(err)
	}
	named := map[string]bool{}
	for _, c := range vm.LoweringConstraints() {
		named[c[0]], named[c[1]] = true, true
		list := slices.Clone(table)
		i := slices.IndexFunc(list, func(r vm.Rewriter) bool { return r.Name == c[0] })
		k := slices.IndexFunc(list, func(r vm.Rewriter) bool { return r.Name == c[1] })
		list[i], list[k] = list[k], list[i]
		if err := vm.CheckLowering(list); err == nil {
			t.Errorf("%s after %s: no error", c[0], c[1])
		}
	}
	for _, r := range table {
		if !named[r.Name] {
			t.Errorf("rewriter %q is in no constraint", r.Name)
		}
		if (r.Only == "") != (r.On == vm.OnBoth) {
			t.Errorf("rewriter %q is on %s: reason %q", r.Name, r.On, r.Only)
		}
		if r.Doc == "" || r.On == "" || r.Rounds != "" && !r.Optional {
			t.Errorf("rewriter %q: doc %q, on %q, optional %t", r.Name, r.Doc, r.On, r.Optional)
		}
	}
}

// TestWithoutUnknown: only optional rewriters can be left out.
func TestWithoutUnknown(t *testing.T) {
	p, _ := program(t, planesNet(t), passes.Options{})
	for _, name := range []string{"none", "kernels"} {
		_, err := p.NewSession(vm.Options{Without: []string{"nchw", name}})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "expected some of qdq, nchw,") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// foldable writes a network with a transposed weight, and with a shape that follows from the
// input's.
func foldable(t *testing.T) string {
	n := newNet()
	n.input("x", 4, 6)
	n.weight("w", 5, 6)
	n.with("Transpose", "wt", attrs(integers("perm", 1, 0)), "w")
	n.node("MatMul", "y", "x", "wt")
	n.node("Shape", "s", "y")
	n.constant("all", graph.Int64, []int64{1}, int64(-1))
	n.node("Reshape", "f", "y", "all")
	n.node("Reshape", "z", "f", "s")
	n.output("z", 4, 5)
	path := filepath.Join(t.TempDir(), "foldable.onnx")
	n.write(t, path)
	return path
}

// outerNet writes a network that adds up products of few depths, in the ways in which operands lie.
func outerNet(t *testing.T) string {
	n := newNet()
	n.opset = 18
	half := func(name string, shape ...graph.Dim) string {
		n.input(name, shape...)
		n.with("Cast", name+"16", attrs(attr("to", int(graph.Float16))), name)
		return name + "16"
	}
	n.with("Gemm", "turned", attrs(attr("transA", 1)), half("a", 3, 96), half("b", 3, 512))
	n.node("MatMul", "plain", half("c", 80, 2), half("d", 2, 1000))
	n.node("Gemm", "again", "c16", "d16")
	for _, sum := range []struct{ op, of string }{{"ReduceMean", "turned"}, {"ReduceMean", "plain"}, {"ReduceSum", "again"}} {
		n.with(sum.op, sum.of+".sum", attrs(attr("keepdims", 0)), sum.of)
		n.with("Cast", sum.of+".y", attrs(attr("to", int(graph.Float32))), sum.of+".sum")
		n.output(sum.of + ".y")
	}
	path := filepath.Join(t.TempDir(), "outer.onnx")
	n.write(t, path)
	return path
}

// lowered are networks that together give every rewriter something to do.
var lowered = []struct {
	name string
	file func(t *testing.T) string
	opt  passes.Options
	gpu  bool // small enough for the fake device
}{
	{name: "images of reals", file: func(t *testing.T) string { return blockNet(t, graph.Float32) }},
	{name: "images of bytes", file: pixelNet},
	{name: "products of bytes", file: func(t *testing.T) string { return quantizedNet(t, 1, nil) }},
	{name: "NCHWc", file: planesNet},
	{name: "constants", file: foldable, opt: passes.Options{Fold: passes.FoldOff}, gpu: true},
	{name: "alike weights", file: alikeNet, opt: passes.Options{Fold: passes.FoldOff}},
	{name: "elementwise", file: func(t *testing.T) string { return elementByElement(t, rand.New(rand.NewPCG(0, 6)), graph.Float32) }, gpu: true},
	{name: "gates of bytes", file: func(t *testing.T) string { return gatesOfBytes(t, rand.New(rand.NewPCG(1, 6))) }},
	{name: "sums of 16 bits", file: outerNet},
	{name: "training", file: func(t *testing.T) string {
		path, _ := convolutional(t, rand.New(rand.NewPCG(1, 5)))
		return path
	}, opt: passes.Options{Train: &autodiff.Options{Optimizer: "adamw"}}, gpu: true},
}

// TestWithout: a session without a rewriter has the same bits, in plain Go and with the
// kernels of this machine, and each rewriter changes what some session does.
func TestWithout(t *testing.T) {
	vm.HoldNHWC(t)
	levels := gemm.Levels()
	t.Cleanup(func() { _ = gemm.Use(levels[len(levels)-1]) })
	changed := map[string]bool{}
	for _, level := range slices.Compact([]string{levels[0], levels[len(levels)-1]}) {
		if err := gemm.Use(level); err != nil {
			t.Fatal(err)
		}
		withoutEach(t, level, vm.Options{Workers: 1}, vm.OnGPU, changed)
	}
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		changed["nchw16c"], changed["residuals"] = true, true // there are no micro-kernels
	}
	for _, r := range vm.Lowering() {
		if r.Optional && r.On != vm.OnGPU && !changed[r.Name] {
			t.Errorf("rewriter %q changes nothing", r.Name)
		}
	}
}

// TestDeviceWithout: so it is on a device.
func TestDeviceWithout(t *testing.T) {
	d, _ := onDevice(t)
	changed := map[string]bool{"nchw": true} // as on the CPU
	withoutEach(t, "device", vm.Options{Workers: 1, Device: d}, vm.OnCPU, changed)
	for _, r := range vm.Lowering() {
		if r.Optional && r.On != vm.OnCPU && !changed[r.Name] {
			t.Errorf("rewriter %q changes nothing", r.Name)
		}
	}
}

// withoutEach runs the networks without each rewriter, but for those that work for another kind of
// session, and notes which of them change what sessions do.
func withoutEach(t *testing.T, what string, opt vm.Options, other string, changed map[string]bool) {
	t.Helper()
	for _, n := range lowered {
		if opt.Device != nil && !n.gpu {
			continue
		}
		p, r := program(t, n.file(t), n.opt)
		var load *graph.Model
		if r.Step != nil {
			load = r.Step.Params
		}
		run := func() (map[string]vm.Value, string) {
			got, s := runSteps(t, p, opt, load, 1)
			return got, s.Lowered()
		}
		opt.Without = nil
		want, with := run()
		for _, r := range vm.Lowering() {
			if !r.Optional || r.On == other {
				continue
			}
			opt.Without = []string{r.Name}
			got, without := run()
			if without == with {
				continue
			}
			changed[r.Name] = true
			if r.Rounds == "" {
				sameBits(t, what+", "+n.name+", without "+r.Name, got, want)
			}
		}
	}
}

// TestLoweringIsAlwaysChecked: a rewriter at fault is found in small graphs without being asked
// for, and the error has its name.
func TestLoweringIsAlwaysChecked(t *testing.T) {
	path := softmaxes(t)
	t.Cleanup(lower.Check(lower.ChecksSmall))
	t.Cleanup(lower.LastRewriter("at-fault", "a", "c"))
	p, _ := program(t, path, passes.Options{})
	_, err := p.NewSession(vm.Options{})
	if want := `the lowering is wrong after "at-fault": node "b" (Softmax): step 1: it reads tensor "a", which no step has written`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// softmaxes writes a network of four nodes in a row.
func softmaxes(t *testing.T) string {
	n := newNet()
	n.input("x", 64, 64)
	for i, name := range []string{"a", "b", "c", "d"} {
		n.node("Softmax", name, []string{"x", "a", "b", "c"}[i])
	}
	n.output("d", 64, 64)
	path := filepath.Join(t.TempDir(), "row.onnx")
	n.write(t, path)
	return path
}

// TestLoweringIsChecked: a node that has no task, or runs when its input is not there yet or no
// more, is found between two rewriters.
func TestLoweringIsChecked(t *testing.T) {
	path := softmaxes(t)
	for _, c := range []struct {
		node, to string
		covers   bool
		want     string
	}{
		{"c", "d", true, ""},
		{"b", "c", false, `node "b" (Softmax): its task is that of node "c", which has none`},
		{"a", "c", true, `node "b" (Softmax): step 1: it reads tensor "a", which no step has written`},
		{"d", "a", true, `node "a" (Softmax): step 0: it reads tensor "c", which no step has written`},
		{"b", "d", true, `node "c" (Softmax): step 2: it reads tensor "b", which no step has written`},
	} {
		_, s := session(t, path, passes.Options{}, vm.Options{})
		err := s.CheckMoved(c.node, c.to, c.covers)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%s at %s: %v, want %s", c.node, c.to, err, c.want)
		}
	}
}
