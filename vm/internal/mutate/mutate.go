// Package mutate makes hostile models from valid ones. It takes an operator test
// and changes shapes, element types, attributes and elements, omits inputs, hides
// shapes until the run, and makes the file declare wrong types. A mutant depends
// only on the test and a number, so its name is enough to reproduce a finding.
//
// Run plans and runs a mutant in guarded memory and returns the result. A correct
// program either refuses a mutant with an error or runs it; anything else is a
// finding.
package mutate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/nodetests"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/vm"
)

// Case is a model, as bytes of a file, and values for its inputs.
type Case struct {
	Name   string // the test's name and the mutant's number: NAME#N
	Edits  []string
	Model  []byte
	Inputs map[string]vm.Value
}

// Seed is an operator test from which mutants are made.
type Seed struct {
	test   *nodetests.Test
	names  []string // of the inputs
	inputs []vm.Value
}

// Seeds returns the seeds of a folder of operator tests, and the large ones.
func Seeds(dir string) ([]*Seed, error) {
	tests, err := nodetests.Read(dir)
	if err != nil {
		return nil, err
	}
	list, err := largeSeeds()
	if err != nil {
		return nil, err
	}
	for _, t := range tests {
		if s, ok := newSeed(t); ok {
			list = append(list, s)
		}
	}
	return list, nil
}

// encoded returns the bytes of a model's file.
func encoded(m *graph.Model) ([]byte, error) {
	image, err := onnx.Encode(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = image.WriteTo(&b)
	return b.Bytes(), err
}

// NewSeed returns the seed of a model whose inputs, by their place in the graph, have the
// given values.
func NewSeed(name string, m *graph.Model, inputs []vm.Value) (*Seed, error) {
	model, err := encoded(m)
	if err != nil {
		return nil, err
	}
	s := &Seed{test: &nodetests.Test{Name: name, Files: map[string][]byte{"model.onnx": model}}, inputs: inputs}
	for _, id := range m.Graph.Inputs {
		s.names = append(s.names, m.Graph.Tensors[id].Name)
	}
	return s, nil
}

// Name returns the test's name.
func (s *Seed) Name() string { return s.test.Name }

// newSeed returns the seed of a test. ok is false if an input cannot be read.
func newSeed(t *nodetests.Test) (s *Seed, ok bool) {
	m, err := onnx.Parse(t.Name, t.Model())
	if err != nil {
		return nil, false
	}
	s = &Seed{test: t}
	for i, id := range m.Graph.Inputs {
		var declared graph.Type
		if d := m.Graph.Tensors[id].Declared; d != nil {
			declared = d.Type
		}
		v, err := vm.ParseValue(m.Graph.Tensors[id].Name, t.Input(i), declared)
		if err != nil {
			return nil, false
		}
		s.names, s.inputs = append(s.names, m.Graph.Tensors[id].Name), append(s.inputs, v)
	}
	return s, true
}

// mutant is a model that is being changed.
type mutant struct {
	*rand.Rand
	m      *graph.Model
	inputs map[string]vm.Value
	edits  []string
}

// edit is one kind of change. apply returns a description of the change, or "" if
// there was nothing to change.
type edit struct {
	name   string
	weight int
	apply  func(k *mutant) string
}

var edits = []edit{
	{"shape", 6, reshapeInput},
	{"lengths", 6, changeLength},
	{"hide", 4, hideShape},
	{"lie", 3, hideAndLie},
	{"dtype", 3, changeType},
	{"elements", 5, changeElements},
	{"items", 6, changeItems},
	{"strings", 6, changeStrings},
	{"attribute", 8, changeAttribute},
	{"constant", 3, makeConstant},
	{"arity", 2, changeArity},
	{"claim", 2, claimOutput},
	{"version", 1, changeVersion},
}

// Mutant makes mutant n of the test, with one to three changes.
func (s *Seed) Mutant(n uint64) (*Case, error) {
	m, err := onnx.Parse(s.test.Name, s.test.Model())
	if err != nil {
		return nil, err
	}
	k := &mutant{Rand: rand.New(rand.NewPCG(n, hash(s.test.Name))), m: m, inputs: s.Sound().Inputs}
	k.unclaim()
	for range 1 + k.IntN(3) {
		k.change()
	}
	m.Graph.Span = graph.Span{} // nothing is copied from the file
	for _, n := range m.Graph.Nodes {
		n.Span = graph.Span{}
	}
	model, err := encoded(m)
	if err != nil {
		return nil, err
	}
	return &Case{fmt.Sprintf("%s#%d", s.test.Name, n), k.edits, model, k.inputs}, nil
}

// Sound returns the unchanged test.
func (s *Seed) Sound() *Case {
	c := &Case{Name: s.test.Name, Model: s.test.Model(), Inputs: map[string]vm.Value{}}
	for i, name := range s.names {
		c.Inputs[name] = s.inputs[i]
	}
	return c
}

func hash(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range []byte(s) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}

// change applies one edit, drawn by weight. If the edit finds nothing to change,
// it draws another.
func (k *mutant) change() {
	total := 0
	for _, e := range edits {
		total += e.weight
	}
	for range 8 {
		at := k.IntN(total)
		for _, e := range edits {
			if at -= e.weight; at < 0 {
				if what := e.apply(k); what != "" {
					k.edits = append(k.edits, e.name+" "+what)
					return
				}
				break
			}
		}
	}
}

// unclaim removes the declared shapes of outputs, which are wrong for most mutants.
func (k *mutant) unclaim() {
	for _, id := range k.m.Graph.Outputs {
		t := k.m.Graph.Tensors[id]
		if t.Declared != nil && t.Declared.Type.Kind == graph.KindTensor {
			t.Declared = &graph.Declared{Type: graph.Type{Kind: graph.KindTensor, Elem: t.Declared.Type.Elem}}
		}
	}
}

// input picks a graph input that is a tensor of numbers, or nil if there is none.
func (k *mutant) input() *graph.Tensor { return k.inputThat(ofNumbers) }

func ofNumbers(v vm.Value) bool { return v.IsTensor() && v.Type != graph.String }

// inputThat picks one of the graph inputs whose values have a property.
func (k *mutant) inputThat(has func(v vm.Value) bool) *graph.Tensor {
	var list []*graph.Tensor
	for _, id := range k.m.Graph.Inputs {
		if t := k.m.Graph.Tensors[id]; has(k.inputs[t.Name]) {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[k.IntN(len(list))]
}

// node picks a node, or nil if there is none.
func (k *mutant) node() *graph.Node {
	if len(k.m.Graph.Nodes) == 0 {
		return nil
	}
	return k.m.Graph.Nodes[k.IntN(len(k.m.Graph.Nodes))]
}

// length picks a length other than n.
func (k *mutant) length(n int) int {
	list := []int{0, 1, 2, 3, 5, 7, n - 1, n + 1, 2 * n, n / 2, n + 15, 33, 70}
	for {
		if v := list[k.IntN(len(list))]; v >= 0 && v != n {
			return v
		}
	}
}

// set sets the value of a graph input and declares its type in the file.
func (k *mutant) set(t *graph.Tensor, v vm.Value) {
	k.inputs[t.Name] = v
	dims := make([]graph.Dim, len(v.Shape))
	for i, n := range v.Shape {
		dims[i] = graph.Dim(n)
	}
	t.Declared = &graph.Declared{Type: graph.TensorOf(v.Type, dims...), Symbols: make([]string, len(dims))}
}

// most is the maximum size of a mutant's input in bytes.
const most = 1 << 16

// shaped returns v with another shape, filled by repeating its elements. ok is
// false if that takes more than most bytes.
func shaped(v vm.Value, shape []int) (vm.Value, bool) {
	n := 1
	for _, d := range shape {
		if n *= d; n > most {
			return v, false
		}
	}
	bytes := int((int64(n)*v.Type.Bits() + 7) / 8)
	w := vm.Value{Type: v.Type, Shape: slices.Clone(shape), Data: make([]byte, bytes)}
	for at := 0; at < bytes && len(v.Data) > 0; {
		at += copy(w.Data[at:], v.Data)
	}
	return w, bytes <= most
}

// otherShape returns a shape that differs from old in one respect.
func (k *mutant) otherShape(old []int) []int {
	shape := slices.Clone(old)
	rank := len(shape)
	switch what := k.IntN(5); {
	case what == 0 && rank > 0: // one axis less
		i := k.IntN(rank)
		return slices.Delete(shape, i, i+1)
	case what == 1 || rank == 0: // one axis more
		return slices.Insert(shape, k.IntN(rank+1), 1+k.IntN(3))
	case what == 2 && rank > 1:
		i, j := k.IntN(rank), k.IntN(rank)
		shape[i], shape[j] = shape[j], shape[i]
		return shape
	default:
		i := k.IntN(rank)
		shape[i] = k.length(shape[i])
		return shape
	}
}

// reshapeInput changes the shape of one input.
func reshapeInput(k *mutant) string {
	t := k.input()
	if t == nil {
		return ""
	}
	old := k.inputs[t.Name]
	v, ok := shaped(old, k.otherShape(old.Shape))
	if !ok {
		return ""
	}
	k.set(t, v)
	return fmt.Sprintf("%s %v -> %v", t.Name, old.Shape, v.Shape)
}

// changeLength replaces one length by another on all axes of all inputs, so that
// shapes that matched mostly still match.
func changeLength(k *mutant) string {
	t := k.input()
	if t == nil || len(k.inputs[t.Name].Shape) == 0 {
		return ""
	}
	shape := k.inputs[t.Name].Shape
	from := shape[k.IntN(len(shape))]
	to := k.length(from)
	for _, id := range k.m.Graph.Inputs {
		u := k.m.Graph.Tensors[id]
		v := k.inputs[u.Name]
		if !ofNumbers(v) {
			continue
		}
		changed := slices.Clone(v.Shape)
		for i, n := range changed {
			if n == from {
				changed[i] = to
			}
		}
		w, ok := shaped(v, changed)
		if !ok {
			return ""
		}
		k.set(u, w)
	}
	return fmt.Sprintf("%d -> %d", from, to)
}

// hidden inserts a Reshape between an input and its readers, so that the shape is
// known only at run time. It returns the tensor that they then read, or nil if it
// cannot.
func (k *mutant) hidden(t *graph.Tensor) *graph.Tensor {
	g := k.m.Graph
	id := graph.TensorID(slices.Index(g.Tensors, t))
	v := k.inputs[t.Name]
	flat, ok := shaped(v, []int{elements(v.Shape)})
	if !ok || t.Output {
		return nil
	}
	dims := make([]int64, len(v.Shape))
	for i, n := range v.Shape {
		dims[i] = int64(n)
	}
	list := g.NewTensor(t.Name + ".shape")
	g.Inputs = append(g.Inputs, list)
	k.set(g.Tensors[list], vm.Int64s(dims, len(dims)))
	out := g.NewTensor(t.Name + ".hidden")
	for _, n := range g.Nodes {
		for i, in := range n.Inputs {
			if in == id {
				n.Inputs[i] = out
			}
		}
	}
	if slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return slices.Contains(n.Captures, id) }) {
		return nil
	}
	g.Nodes = slices.Insert(g.Nodes, 0, &graph.Node{
		Op: "Reshape", Inputs: []graph.TensorID{id, list}, Outputs: []graph.TensorID{out},
		Attrs: []*graph.Attr{{Name: "allowzero", Type: graph.AttrInt, Int: 1}},
	})
	if k.m.Opset("") < 14 {
		g.Nodes[0].Attrs = nil
	}
	k.set(t, flat)
	g.Link()
	return g.Tensors[out]
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// hideShape makes the shape of an input depend on data.
func hideShape(k *mutant) string {
	if t := k.input(); t != nil && k.hidden(t) != nil {
		return t.Name
	}
	return ""
}

// hideAndLie makes the shape of an input depend on data and changes it; half of
// the time, the file still declares the old shape.
func hideAndLie(k *mutant) string {
	t := k.input()
	if t == nil {
		return ""
	}
	old := k.inputs[t.Name]
	v, ok := shaped(old, k.otherShape(old.Shape))
	if !ok {
		return ""
	}
	k.set(t, v)
	out := k.hidden(t)
	if out == nil {
		return ""
	}
	if k.IntN(2) == 0 {
		dims := make([]graph.Dim, len(old.Shape))
		for i, n := range old.Shape {
			dims[i] = graph.Dim(n)
		}
		out.Declared = &graph.Declared{Type: graph.TensorOf(old.Type, dims...), Symbols: make([]string, len(dims))}
	}
	return fmt.Sprintf("%s %v -> %v", t.Name, old.Shape, v.Shape)
}

// types are the element types that an input may get.
var types = []graph.DType{
	graph.Float32, graph.Float64, graph.Float16, graph.BFloat16, graph.Int64, graph.Int32, graph.Int16, graph.Int8,
	graph.Uint64, graph.Uint32, graph.Uint16, graph.Uint8, graph.Bool, graph.Int4, graph.Uint4, graph.Float8E4M3FN,
}

// changeType changes the element type of an input, or of all inputs of that type.
func changeType(k *mutant) string {
	t := k.input()
	if t == nil {
		return ""
	}
	from, to := k.inputs[t.Name].Type, types[k.IntN(len(types))]
	all := k.IntN(2) == 0
	for _, id := range k.m.Graph.Inputs {
		u := k.m.Graph.Tensors[id]
		if v := k.inputs[u.Name]; ofNumbers(v) && v.Type == from && (all || u == t) {
			k.set(u, converted(v, to))
		}
	}
	if all {
		for _, id := range k.m.Graph.Outputs {
			if d := k.m.Graph.Tensors[id].Declared; d != nil && d.Type.Elem == from {
				d.Type.Elem = to
			}
		}
	}
	return fmt.Sprintf("%s to %v", t.Name, to)
}

// makeConstant turns an input into an initializer.
func makeConstant(k *mutant) string {
	t := k.input()
	if t == nil {
		return ""
	}
	v := k.inputs[t.Name]
	d := &graph.Data{Name: t.Name, Type: v.Type, Raw: v.Data, Bytes: int64(len(v.Data))}
	for _, n := range v.Shape {
		d.Dims = append(d.Dims, int64(n))
	}
	if d.Raw == nil {
		d.Raw = []byte{}
	}
	g := k.m.Graph
	id := graph.TensorID(slices.Index(g.Tensors, t))
	g.Inputs = slices.DeleteFunc(g.Inputs, func(i graph.TensorID) bool { return i == id })
	t.Data, t.Declared = d, nil
	delete(k.inputs, t.Name)
	return t.Name
}

// changeArity omits, repeats or exchanges inputs of a node.
func changeArity(k *mutant) string {
	n := k.node()
	if n == nil || len(n.Inputs) == 0 {
		return ""
	}
	i := k.IntN(len(n.Inputs))
	what := ""
	switch k.IntN(4) {
	case 0:
		n.Inputs[i], what = graph.None, fmt.Sprintf("without input %d", i)
	case 1:
		n.Inputs, what = n.Inputs[:i], fmt.Sprintf("%d inputs", i)
	case 2:
		n.Inputs, what = append(n.Inputs, n.Inputs[i]), fmt.Sprintf("input %d once more", i)
	default:
		j := k.IntN(len(n.Inputs))
		n.Inputs[i], what = n.Inputs[j], fmt.Sprintf("input %d for %d", j, i)
	}
	k.m.Graph.Link()
	return n.Op + " " + what
}

// claimOutput declares an arbitrary type for an output.
func claimOutput(k *mutant) string {
	g := k.m.Graph
	if len(g.Outputs) == 0 {
		return ""
	}
	t := g.Tensors[g.Outputs[k.IntN(len(g.Outputs))]]
	if t.Declared == nil || t.Declared.Type.Kind != graph.KindTensor {
		return ""
	}
	typ := graph.TensorOf(t.Declared.Type.Elem)
	if k.IntN(4) == 0 {
		typ.Elem = types[k.IntN(len(types))]
	}
	for range k.IntN(5) {
		typ.Shape = append(typ.Shape, graph.Dim(k.IntN(6)))
	}
	t.Declared = &graph.Declared{Type: typ, Symbols: make([]string, len(typ.Shape))}
	return fmt.Sprintf("%s is %v", t.Name, typ)
}

// changeVersion changes the imported version of a domain.
func changeVersion(k *mutant) string {
	if len(k.m.Opsets) == 0 {
		return ""
	}
	o := &k.m.Opsets[k.IntN(len(k.m.Opsets))]
	from := o.Version
	o.Version = int64(1 + k.IntN(26))
	return fmt.Sprintf("%q %d -> %d", o.Domain, from, o.Version)
}
