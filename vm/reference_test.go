package vm_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// loopInputs are values for loops.onnx: a Loop with four iterations, a Scan of four slices.
func loopInputs() map[string]vm.Value {
	return map[string]vm.Value{
		"trips": {Type: graph.Int64, Shape: []int{}, Data: []byte{4, 0, 0, 0, 0, 0, 0, 0}}, "begin": {Type: graph.Bool, Shape: []int{}, Data: []byte{1}},
		"x": vm.Float32s([]float32{0.5, -1, 2}, 3), "state0": vm.Float32s([]float32{1, -2}, 2),
		"as": vm.Float32s([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2), "bs": vm.Float32s([]float32{8, 6, 7, 5, 3, 0, 9, 1}, 2, 4),
	}
}

// Nodes of bodies are compared as they run, and so are the tensors that are copied to and
// from bodies.
func TestReferenceSeesBodies(t *testing.T) {
	check := func() *vm.ReferenceCheck {
		p, _ := program(t, filepath.Join("..", "testdata", "functions", "loops.onnx"), passes.Options{})
		r, err := p.CheckReference(t.Context(), []map[string]vm.Value{loopInputs()}, vm.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := check()
	// Loop, Identity, If, Sin, Add, Mul; Scan, Sub, Add, Exp.
	if r.First != nil || r.Compared != 10 || r.Idle != 1 || len(r.Uncompared) > 0 || r.Runs != 1 {
		t.Errorf("%+v", r)
	}
	for op, want := range map[string]string{
		"Sin": `node 0 \(Sin\) within node 1 \(If\) within node "loop" \(Loop\): tensor "a": element 1 \(at \[1\]\) is .*, expected .* within `,
		"Mul": `node 3 \(Mul\) within node "loop" \(Loop\): tensor "row": element 1 `,
		"Exp": `node 2 \(Exp\) within node "scan" \(Scan\): tensor "e": element 1 `,
	} {
		t.Run(op, func(t *testing.T) {
			mutateKernel(t, "", op, func(c *kernel.Invocation) { wrongElement(c, graph.Float32) })
			r := check()
			if r.Wrong != 1 || r.First == nil || !regexp.MustCompile(want).MatchString(r.First.Error()) {
				t.Errorf("%d wrong: %v, want %s", r.Wrong, r.First, want)
			}
		})
	}
}

// A convolution or product is compared together with the activation that is fused into
// it, and together with nodes that compute its weights before the first run.
func TestReferenceSeesWhatIsFused(t *testing.T) {
	n := newNet()
	n.input("x", 5, 16)
	n.weight("w", 12, 16)
	n.weight("v", 12, 7)
	n.node("Transpose", "wt", "w")
	n.node("MatMul", "h", "x", "wt")
	n.node("Relu", "r", "h")
	n.node("MatMul", "g", "r", "v")
	n.node("Sigmoid", "y", "g")
	n.output("y", 5, 7)
	path := filepath.Join(t.TempDir(), "fused.onnx")
	n.write(t, path)
	x := []map[string]vm.Value{{"x": ramp([]graph.Dim{5, 16})}}
	for _, c := range []struct{ op, want string }{
		{"", ""},
		{"MatMul", `node "r" \(Relu\): tensor "r": element .* \(algorithm: GEMM, prepacked, relu\)$`},
		{"Transpose", `node "wt" \(Transpose\): tensor "wt": element 96 \(at \[8 0\]\)`},
	} {
		t.Run(c.op, func(t *testing.T) {
			if c.op != "" {
				mutateKernel(t, "", c.op, func(c *kernel.Invocation) { wrongElement(c, graph.Float32) })
			}
			p, _ := program(t, path, passes.Options{Fold: passes.FoldOff})
			for range 2 { // the second time the computed constant has been freed
				r, err := p.CheckReference(t.Context(), x, vm.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if r.Compared != 5 || len(r.Uncompared) > 0 || r.Idle > 0 {
					t.Errorf("%+v", r)
				}
				if (r.First != nil) != (c.want != "") || r.First != nil && !regexp.MustCompile(c.want).MatchString(r.First.Error()) {
					t.Errorf("%v, want %s", r.First, c.want)
				}
			}
		})
	}
}

// A missing term of a sum is detected, although it is a small part of the sum.
func TestReferenceSeesLostTerms(t *testing.T) {
	for _, c := range []struct {
		op    string
		x, w  []graph.Dim
		attrs []*graph.Attr
	}{
		{"MatMul", []graph.Dim{3, 8192}, []graph.Dim{8192, 2}, nil},
		{"Conv", []graph.Dim{1, 512, 5, 5}, []graph.Dim{2, 512, 3, 3}, nil},
		{"ConvTranspose", []graph.Dim{1, 512, 5, 5}, []graph.Dim{512, 2, 3, 3}, nil},
	} {
		n := newNet()
		n.input("x", c.x...)
		n.input("w", c.w...)
		n.node(c.op, "y", "x", "w")
		y := n.g.Tensors[n.tensor("y")]
		y.Output = true
		n.g.Outputs = append(n.g.Outputs, n.tensor("y"))
		path := filepath.Join(t.TempDir(), "sum.onnx")
		n.write(t, path)
		t.Run(c.op, func(t *testing.T) {
			p, _ := program(t, path, passes.Options{})
			for _, lost := range []bool{false, true} {
				// The weight of the missing term has a medium size.
				if lost {
					was := kernel.Lookup("", c.op).Make
					t.Cleanup(func() { kernel.Lookup("", c.op).Make = was })
					kernel.Lookup("", c.op).Make = blind(was, 7)
				}
				r, err := p.CheckReference(t.Context(), []map[string]vm.Value{noise(p)}, vm.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if (r.First != nil) != lost || lost && !strings.Contains(r.First.Error(), c.op) {
					t.Errorf("lost: %v: %v", lost, r.First)
				}
			}
		})
	}
}

// A node that computes the wrong operator gives the same bits planned and unplanned; only
// the reference detects it.
func TestOnlyTheReferenceSeesAnotherOperator(t *testing.T) {
	n := newNet()
	n.input("x", 1, 3, 5, 5)
	n.node("GlobalAveragePool", "y", "x")
	n.output("y", 1, 3, 1, 1)
	path := filepath.Join(t.TempDir(), "pool.onnx")
	n.write(t, path)
	pool := kernel.Lookup("", "GlobalAveragePool")
	was := pool.Make
	t.Cleanup(func() { pool.Make = was })
	pool.Make = kernel.Lookup("", "GlobalMaxPool").Make
	p, _ := program(t, path, passes.Options{})
	x := []map[string]vm.Value{noise(p)}
	bits, err := p.CheckRun(t.Context(), x, vm.Options{})
	if err != nil || !bits.Identical() {
		t.Errorf("CheckRun: %+v, %v, expected the same bits", bits, err)
	}
	r, err := p.CheckReference(t.Context(), x, vm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := path + `: node "y" (GlobalAveragePool): tensor "y": element `
	if r.Wrong != 1 || !strings.HasPrefix(r.First.Error(), want) {
		t.Errorf("%d wrong: %v, expected %q", r.Wrong, r.First, want)
	}
}

// Nodes for which the session leaves too little memory are not compared, and the reason
// is reported.
func TestReferenceKeepsToTheLimit(t *testing.T) {
	n := newNet()
	n.input("x", 100, 100)
	n.node("Exp", "y", "x")
	n.output("y", 100, 100)
	path := filepath.Join(t.TempDir(), "exp.onnx")
	n.write(t, path)
	p, _ := program(t, path, passes.Options{})
	x := []map[string]vm.Value{{"x": ramp([]graph.Dim{100, 100})}}
	s, err := p.NewSession(vm.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	own := s.Memory().Bytes()
	s.Close()
	for _, c := range []struct {
		beside   int64 // bytes left for the evaluator
		compared int
	}{{1 << 10, 0}, {1 << 20, 1}} {
		r, err := p.CheckReference(t.Context(), x, vm.Options{Workers: 1, MemoryLimit: own + c.beside})
		if err != nil {
			t.Fatal(err)
		}
		if r.Compared != c.compared || r.Uncompared["Exp"] != 1-c.compared || c.compared == 0 && r.Reasons["Exp"] != "too little memory" {
			t.Errorf("%d bytes: %+v", c.beside, r)
		}
	}
}
