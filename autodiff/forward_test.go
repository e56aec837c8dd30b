package autodiff

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
)

// refusals are the messages with which upgrade and expansion may refuse an operator
// test; any other is an error.
var refusals = []string{
	"expected opset 7 or later", "attribute clip is set", "sequence_lens", "nonpad_kv_seqlen", "window", "attn_mask) covers",
	"qk_matmul_output_mode", "depends on data", "spatial is 0", "is read: expected running statistics",
}

// TestForward evaluates graphs that were upgraded to a newer opset, or whose operators
// were expanded, and compares with the results that ONNX's operator tests expect.
func TestForward(t *testing.T) {
	files := nodeTests(t)
	names := []string{}
	for name := range files {
		if n, ok := strings.CutSuffix(name, "/model.onnx"); ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	right, refused := map[string]int{}, map[string]int{}
	for _, name := range names {
		m, err := onnx.Parse(name, files[name+"/model.onnx"])
		if err != nil {
			t.Fatal(err)
		}
		what := changes(m)
		if what == "" || name == "test_dynamicquantizelinear_expanded" { // a quotient rounds to a tie in float32
			continue
		}
		switch err := forwardTest(m, name, files); {
		case err == nil:
			right[what]++
		case errors.Is(err, errNotHeld):
		case slices.ContainsFunc(refusals, func(r string) bool { return strings.Contains(err.Error(), r) }):
			refused[what]++
		default:
			t.Errorf("%s: %v", name, err)
		}
	}
	total := 0
	for _, n := range right {
		total += n
	}
	const atLeast = 438
	if total < atLeast {
		t.Errorf("%d tests are right, expected at least %d: %v; refused: %v", total, atLeast, right, refused)
	}
}

// changes returns what upgrade or expansion does to a model: the operator that it
// expands, the opset that it upgrades from, or "" for nothing.
func changes(m *graph.Model) string {
	for _, n := range m.Graph.Nodes {
		if trainingModes[ruleKey{n.Domain, n.Op}] != nil || len(n.Bodies()) > 0 {
			return ""
		}
	}
	for _, n := range m.Graph.Nodes {
		if expansions[ruleKey{n.Domain, n.Op}] != nil {
			return n.Op
		}
	}
	if v := m.Opset(""); v < minOpset {
		return "upgrade"
	}
	return ""
}

var errNotHeld = errors.New("type not held")

// forwardTest makes inputs that are not floating-point numbers constants, runs upgrade
// and forward, evaluates the graph, and compares.
func forwardTest(m *graph.Model, name string, files map[string][]byte) error {
	read := func(kind string, i int) (*reference.Tensor, *graph.Data, error) {
		b, ok := files[fmt.Sprintf("%s/test_data_set_0/%s_%d.pb", name, kind, i)]
		if !ok {
			return nil, nil, nil
		}
		d, err := onnx.ParseTensor(name, b)
		if err != nil || !reference.Holds(d.Type) {
			return nil, nil, errNotHeld
		}
		x, err := reference.FromData(d)
		return x, d, err
	}
	feeds := map[string]*reference.Tensor{}
	g := m.Graph
	inputs := g.Inputs
	g.Inputs = nil
	for i, id := range inputs {
		x, d, err := read("input", i)
		switch {
		case err != nil:
			return err
		case d != nil && !d.Type.Floating():
			g.Tensors[id].Data, g.Tensors[id].Input = d, false
		default:
			feeds[g.Tensors[id].Name] = x
			g.Inputs = append(g.Inputs, id)
		}
	}
	for _, n := range g.Nodes {
		op := reference.Knows(n.Domain, n.Op)
		if !op && expansions[ruleKey{n.Domain, n.Op}] == nil {
			return errNotHeld
		}
		for _, a := range n.Attrs {
			if a.Tensor != nil && !reference.Holds(a.Tensor.Type) || a.Name == "to" && !reference.Holds(graph.DType(a.Int)) || a.Strings != nil && n.Op == "Constant" {
				return errNotHeld
			}
		}
	}
	inference, err := ops.Infer(m, ops.Options{})
	if err != nil {
		return err
	}
	s := &trainer{source: m, expanded: map[ID]role{}, inner: map[*graph.Node]bool{}}
	s.emitter = newEmitter(g.Clone(), slices.Clone(m.Opsets), inference.Values)
	if err := s.upgrade(); err != nil {
		return err
	}
	if err := s.forward(); err != nil {
		return err
	}
	s.g.Link()
	for _, n := range s.g.Nodes {
		if expansions[ruleKey{n.Domain, n.Op}] != nil && s.expands(n) {
			return fmt.Errorf("%s is still there", n.Op)
		}
	}
	got, err := reference.Eval(&graph.Model{Graph: s.g, Opsets: s.opsets}, feeds)
	if err != nil {
		return err
	}
	for i, id := range m.Graph.Outputs {
		want, _, err := read("output", i)
		if err != nil {
			return err
		}
		if want == nil {
			continue
		}
		if err := nearly(got[m.Graph.Tensors[id].Name], want); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// TestUpgradeOfBodies: upgrade also brings the nodes of a branch to opset 18, and the
// written file can be read again.
func TestUpgradeOfBodies(t *testing.T) {
	branch := func(name string) *graph.Graph {
		g := &graph.Graph{Name: name}
		x, a, b, y := g.NewTensor("x"), g.NewTensor(name+"_a"), g.NewTensor(name+"_b"), g.NewTensor(name+"_y")
		g.Tensors[x].Capture = true
		g.Nodes = []*graph.Node{
			{Op: "Unsqueeze", Inputs: []ID{x}, Outputs: []ID{a}, Attrs: attrs{"axes": []int64{0}}.list()},
			{Op: "Softmax", Inputs: []ID{a}, Outputs: []ID{b}, Attrs: attrs{"axis": 1}.list()},
			{Op: "Squeeze", Inputs: []ID{b}, Outputs: []ID{y}, Attrs: attrs{"axes": []int64{0}}.list()},
		}
		g.Outputs = []ID{y}
		g.Tensors[y].Output = true
		g.Captures = []graph.Capture{{Inner: x, Outer: 0}}
		g.Link()
		return g
	}
	b := newBuilder("bodies", 11)
	x := b.input("x", b.value(operand{shape: []int{3, 4}, elem: graph.Float32}))
	c := b.input("c", &reference.Tensor{Type: graph.Bool, Shape: []int{}, I: []int64{1}})
	z := b.op("z", "If", nil, c)
	n := b.m.Graph.Nodes[0]
	for _, name := range []string{"then_branch", "else_branch"} {
		n.Attrs = append(n.Attrs, &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: branch(name)})
	}
	n.SetCaptures()
	w := b.initializer("w", b.value(operand{shape: []int{3, 4}, elem: graph.Float32}))
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, b.op("y", "Mul", nil, w, z)))
	if n.Captures[0] != x {
		t.Fatalf("the branches capture tensor %d, expected %d", n.Captures[0], x)
	}
	step := train(t, b.m, Options{Loss: "none:objective", Trainable: everything})
	im, err := onnx.Encode(step.Model)
	if err != nil {
		t.Fatal(err)
	}
	file, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse("step.onnx", file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ops.Infer(m, ops.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range m.Graph.Nodes {
		for _, a := range n.Bodies() {
			var list []string
			for _, n := range a.Graph.Nodes {
				list = append(list, fmt.Sprintf("%s/%d", n.Op, len(n.Inputs)))
			}
			want := []string{"Unsqueeze/2", "Reshape/2", "Softmax/1", "Reshape/2", "Squeeze/2"}
			if !slices.Equal(list, want) {
				t.Errorf("%s: nodes and their inputs are %v, expected %v", a.Name, list, want)
			}
		}
	}
}

// chain is a branch of nodes that each read what the one before makes; the first reads a tensor
// from outside.
func chain(name, from string, outer ID, nodes ...*graph.Node) *graph.Attr {
	g := &graph.Graph{Name: name, Captures: []graph.Capture{{Inner: 0, Outer: outer}}}
	g.Tensors[g.NewTensor(from)].Capture = true
	for i, n := range nodes {
		n.Inputs, n.Outputs = []ID{ID(i)}, []ID{g.NewTensor(fmt.Sprint(name, i))}
	}
	g.Nodes, g.Outputs = nodes, []ID{ID(len(nodes))}
	g.Tensors[len(nodes)].Output = true
	g.Link()
	return &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: g}
}

// TestBranchThatNeverRuns: no tensor of such a branch has a type. It is brought to opset 18 all
// the same, and what a gradient rule would expand stays, since it has no gradient.
func TestBranchThatNeverRuns(t *testing.T) {
	b := newBuilder("never", 10)
	b.m.Opsets = append(b.m.Opsets, graph.Opset{Domain: "com.microsoft", Version: 1})
	x := b.input("x", b.value(operand{shape: []int{3, 4}, elem: graph.Float32}))
	w := b.initializer("w", b.value(operand{shape: []int{3, 4}, elem: graph.Float32}))
	c := b.initializer("c", &reference.Tensor{Type: graph.Bool, Shape: []int{}, I: []int64{0}})
	z := b.op("z", "If", nil, c)
	n := b.m.Graph.Nodes[0]
	n.Attrs = []*graph.Attr{
		chain("then_branch", "x", x,
			&graph.Node{Op: "Abs"},
			&graph.Node{Op: "Softmax", Attrs: attrs{"axis": 0}.list()},
			&graph.Node{Op: "Clip", Attrs: []*graph.Attr{{Name: "max", Type: graph.AttrFloat, Float: 0.5}}},
			&graph.Node{Op: "FastGelu", Domain: "com.microsoft"},
		),
		chain("else_branch", "x", x, &graph.Node{Op: "Neg"}),
	}
	n.SetCaptures()
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, b.op("y", "Mul", nil, w, z)))
	step := train(t, b.m, Options{Loss: "none:objective", Trainable: everything})
	im, err := onnx.Encode(step.Model)
	if err != nil {
		t.Fatal(err)
	}
	file, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse("step.onnx", file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ops.Infer(m, ops.Options{}); err != nil {
		t.Fatal(err)
	}
	never := step.Model.Graph.Nodes[0].Attr("then_branch").Graph
	for _, x := range never.Tensors {
		if x.Maker < 0 && x.Data == nil && !x.Capture {
			t.Errorf("tensor %q: nothing makes it, and it is not in the file", x.Name)
		}
	}
	var list []string
	for _, n := range m.Graph.Nodes[0].Attr("then_branch").Graph.Nodes {
		list = append(list, fmt.Sprintf("%s/%d", n.Op, len(n.Inputs)))
	}
	slices.Sort(list)
	if want := []string{"Abs/1", "CastLike/2", "Clip/3", "FastGelu/1", "Flatten/1", "Reshape/2", "Shape/1", "Softmax/1"}; !slices.Equal(list, want) {
		t.Errorf("nodes and their inputs are %v, expected %v", list, want)
	}
}

// nearly compares as ONNX's own tests do: rtol 1e-3, and for 16-bit types one or two
// units in the last place.
func nearly(got, want *reference.Tensor) error {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("got %v%v, want %v%v", got.Type, got.Shape, want.Type, want.Shape)
	}
	rtol, atol := 1e-3, 1e-6
	switch want.Type {
	case graph.Float16:
		rtol, atol = 4.0/1024, 1e-3
	case graph.BFloat16:
		rtol, atol = 4.0/128, 1e-2
	}
	for i, w := range want.F {
		if g := got.F[i]; g != w && !(math.IsNaN(g) && math.IsNaN(w)) && !(math.Abs(g-w) <= atol+rtol*math.Abs(w)) {
			return fmt.Errorf("element %d: got %v, want %v", i, g, w)
		}
	}
	if !slices.Equal(got.I, want.I) {
		return fmt.Errorf("got %v, want %v", got.I, want.I)
	}
	return nil
}

// nodeTests reads ONNX's operator tests, by path within their folder.
func nodeTests(t *testing.T) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile(datafolder.Path(t, "node-tests.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[strings.TrimPrefix(h.Name, "node-tests/")], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
