// Package folding proves of folded constants that each initializer that replaces nodes of the
// source has the bits that they compute, and that no other node is missing. It assumes package
// reference, a plain evaluator that the planner does not use.
//
//	folding.go  Prove: the list of constants, and what is missing from the planned graphs
//	shapes.go   which shapes of the source are the same in every run
package folding

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// Code is that of the violations.
const Code = "folded"

// none is the index of no node and no tensor.
const none = subject.None

// prover is one run of Prove.
type prover struct {
	*subject.Subject
	graphs []*graph.Graph // the planned main graph, then its bodies as the plan lists them
}

// Prove checks the initializers that replace nodes of the source: each is computed again from
// the source file, and must have the same bits. graphs are the planned main graph and its
// bodies, in the order of the plan.
func Prove(s *subject.Subject, graphs []*graph.Graph) {
	f := s.Plan.Folded
	if f == nil {
		return
	}
	v := &prover{s, graphs}
	if f.Mode != "exact" && f.Mode != "any" {
		v.Fault(Code, "folded: mode: expected \"exact\" or \"any\", found %q", graph.Short(f.Mode))
	}
	if f.Mode != "any" && len(f.Products) > 0 {
		v.Fault(Code, "folded: products: expected none with mode %q", graph.Short(f.Mode))
	}
	if f.UnfoldedPeakBytes < 0 || f.UnfoldedTotalBytes < f.UnfoldedPeakBytes {
		v.Fault(Code, "folded: expected 0 <= unfolded_peak_bytes <= unfolded_total_bytes, found %d and %d", f.UnfoldedPeakBytes, f.UnfoldedTotalBytes)
	}
	if f.Nodes < 1 {
		v.Fault(Code, "folded: nodes: expected at least 1, found %d", f.Nodes)
	}
	v.Claim("folded.unfolded_peak_bytes")
	v.Claim("folded.unfolded_total_bytes")
	list := v.foldedTensors()
	// The source of a training step, or of inlined functions, lacks nodes of the graph
	// that was folded.
	// That of a decoder that was rewritten has other lengths.
	// That of a graph in 16 bits lacks its casts, and that of one with attention spells it out.
	if v.Source == nil || v.Plan.KV != nil || (v.Plan.Precision != nil || v.Plan.Attention != nil) && v.Plan.Source != (plan.File{}) || v.Plan.Mode == "training" || len(v.Source.Functions) > 0 {
		v.Claim("folded")
		return
	}
	dims := map[string]int64{}
	for name, d := range v.Plan.Dims {
		dims[name] = d.Value
	}
	if _, err := ops.Infer(v.Source, ops.Options{Dims: dims, Values: v.Plan.Values, SpareDims: true}); err != nil {
		v.Claim("folded")
		return
	}
	v.refold(list)
}

// foldedTensor is an entry of the plan with its tensor.
type foldedTensor struct {
	in *graph.Graph
	t  *graph.Tensor
	of string // its name in the source
}

// foldedTensors finds the tensors that the plan lists, which must be initializers.
func (v *prover) foldedTensors() (list []foldedTensor) {
	seen := map[*graph.Tensor]bool{}
	for i, entry := range v.Plan.Folded.Tensors {
		g := v.graphAt(entry.Subgraph)
		if g == nil {
			v.Fault(Code, "folded: tensor %d: expected a subgraph from 0 to %d, found %d", i, len(v.graphs)-2, *entry.Subgraph)
			continue
		}
		in := v.Tensors(g)
		t := in[entry.Tensor]
		of := entry.Of
		if of == "" {
			of = entry.Tensor
		}
		switch {
		case entry.Of != "" && (t == nil || !identity(g, t, in[entry.Of])):
			v.Fault(Code, "folded: tensor %q: expected an Identity node that makes %q from it", graph.Short(entry.Tensor), graph.Short(entry.Of))
		case t == nil || t.Data == nil:
			v.Fault(Code, "folded: tensor %q: expected an initializer", graph.Short(entry.Tensor))
		case seen[t]:
			v.Fault(Code, "folded: tensor %q is listed twice", graph.Short(entry.Tensor))
		case t.Data.Bytes != entry.Bytes:
			v.Fault(Code, "folded: tensor %q: expected %d bytes, found %d", graph.Short(entry.Tensor), t.Data.Bytes, entry.Bytes)
		default:
			list = append(list, foldedTensor{g, t, of})
		}
		if t != nil {
			seen[t] = true
		}
	}
	return list
}

// graphAt returns the graph of an entry: the body of that index or, for nil, the main
// graph; nil if there is none.
func (v *prover) graphAt(subgraph *int) *graph.Graph {
	switch {
	case subgraph == nil:
		return v.graphs[0]
	case *subgraph < 0 || *subgraph >= len(v.graphs)-1:
		return nil
	}
	return v.graphs[*subgraph+1]
}

// identity reports whether a node makes u from t.
func identity(g *graph.Graph, t, u *graph.Tensor) bool {
	if u == nil || u.Maker < 0 {
		return false
	}
	n := g.Nodes[u.Maker]
	return ops.Copies(n) && len(n.Inputs) == 1 && n.Inputs[0] >= 0 && g.Tensors[n.Inputs[0]] == t
}

// refold compares the folded tensors, and everything that is missing from the
// planned graphs, with the source.
func (v *prover) refold(list []foldedTensor) {
	c := &recomputer{
		files: constant.NewFiles(v.Source), m: v.Source,
		scopes: map[*graph.Graph]*sourceScope{}, values: map[*graph.Tensor]*constant.Tensor{},
	}
	defer c.files.Close()
	budget, err := c.files.Budget()
	if err != nil {
		v.Fault(Code, "folded: the constants of the source: %v", err)
		return
	}
	c.budget = budget
	planned := constant.NewFiles(v.Model)
	defer planned.Close()
	c.pair(v.Model.Graph, v.Source.Graph, nil)

	listed := map[*graph.Graph]map[string]bool{}
	for _, f := range list {
		v.Poll()
		if listed[f.in] == nil {
			listed[f.in] = map[string]bool{}
		}
		listed[f.in][f.of] = true
		s := c.scopes[f.in]
		if s == nil {
			v.Fault(Code, "folded: tensor %q: the source has no graph like its body", graph.Short(f.t.Name))
			continue
		}
		t := v.Tensors(s.source)[f.of]
		if t == nil || t.Maker < 0 {
			v.Fault(Code, "folded: tensor %q: expected a node of the source that makes it", graph.Short(f.t.Name))
			continue
		}
		if t.Bytes != f.t.Data.Bytes {
			v.Fault(Code, "folded: tensor %q: expected %d bytes, found %d", graph.Short(f.t.Name), t.Bytes, f.t.Data.Bytes)
			continue
		}
		want, err := c.compute(s, t)
		if err != nil {
			v.Fault(Code, "folded: tensor %q: cannot be computed from constants of the source: %v", graph.Short(f.t.Name), err)
			if errors.Is(err, constant.ErrBudget) {
				return // nor can the others
			}
			continue
		}
		if len(want.Raw) > constant.Kept {
			c.files.Drop() // else the source, the result and what it is compared with are in memory together
		}
		if d := f.t.Data; d.Generate != nil && d.Type == want.Type && slices.Equal(d.Dims, want.Shape) {
			// The elements are not in the file yet, and may be many: they are compared while
			// they are made.
			made := &comparison{want: want.Raw, differs: none}
			switch err := d.Generate(made); {
			case err != nil:
				v.Fault(Code, "folded: tensor %q: %v", graph.Short(f.t.Name), err)
			case made.differs != none || made.at != len(want.Raw):
				v.Fault(Code, "folded: tensor %q: byte %d differs from what the source computes", graph.Short(f.t.Name), max(made.differs, 0))
			}
			continue
		}
		found, err := planned.Read(f.t.Data)
		switch {
		case err != nil:
			v.Fault(Code, "folded: tensor %q: %v", graph.Short(f.t.Name), err)
		case found.Type != want.Type || !slices.Equal(found.Shape, want.Shape):
			v.Fault(Code, "folded: tensor %q: expected %v of shape %v, found %v of shape %v", graph.Short(f.t.Name), want.Type, want.Shape, found.Type, found.Shape)
		case !bytes.Equal(found.Raw, want.Raw):
			v.Fault(Code, "folded: tensor %q: byte %d differs from what the source computes", graph.Short(f.t.Name), differs(found.Raw, want.Raw))
		}
	}
	products := map[*graph.Graph]map[string]bool{}
	for _, f := range v.Plan.Folded.Products {
		g := v.graphAt(f.Subgraph)
		if g == nil {
			v.Fault(Code, "folded: product %q: expected a subgraph from 0 to %d, found %d", graph.Short(f.Tensor), len(v.graphs)-2, *f.Subgraph)
			continue
		}
		s := c.scopes[g]
		if s == nil {
			v.Fault(Code, "folded: product %q: the source has no graph like its body", graph.Short(f.Tensor))
			continue
		}
		if products[g] == nil {
			products[g] = map[string]bool{}
		}
		if products[g][f.Tensor] {
			v.Fault(Code, "folded: product %q is listed twice", graph.Short(f.Tensor))
		}
		products[g][f.Tensor] = true
		if wrong := v.product(g, s, f); wrong != "" {
			v.Fault(Code, "folded: product %q: %s", graph.Short(f.Tensor), wrong)
		}
	}
	gone := 0
	for i, g := range v.graphs { // in the order of the plan: the first faults are always the same
		if from := c.scopes[g]; from != nil {
			if v.Plan.Slices != nil && i == 0 {
				gone += v.foldedAway(from.source, listed[g]) // what else is missing runs in slices
				continue
			}
			gone += v.missing(g, from, listed[g], products[g])
		}
	}
	if gone != v.Plan.Folded.Nodes {
		v.Fault(Code, "folded: nodes: expected %d, found %d", gone, v.Plan.Folded.Nodes)
	}
}

// comparison compares what is written to it.
type comparison struct {
	want    []byte
	at      int // bytes so far
	differs int // the first that differs; none: no byte does
}

func (c *comparison) Write(b []byte) (int, error) {
	rest := c.want[min(c.at, len(c.want)):]
	if c.differs == none && (len(b) > len(rest) || !bytes.Equal(b, rest[:len(b)])) {
		c.differs = c.at + differs(b, rest)
	}
	c.at += len(b)
	return len(b), nil
}

// differs is the first byte that differs.
func differs(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// missing counts the nodes of a source graph that the planned one lacks. A tensor that
// such a node makes and another node reads must be listed as folded. products are the
// results of products that read another tensor now.
func (v *prover) missing(g *graph.Graph, s *sourceScope, listed, products map[string]bool) int {
	planned := v.Tensors(g)
	gone := make([]bool, len(s.source.Nodes))
	count := 0
	for i, n := range s.source.Nodes {
		gone[i] = slices.ContainsFunc(n.Outputs, func(t graph.TensorID) bool { return t >= 0 })
		for _, t := range n.Outputs {
			if t >= 0 {
				u := planned[s.source.Tensors[t].Name]
				gone[i] = gone[i] && (u == nil || u.Maker < 0 || listed[u.Name])
			}
		}
		if gone[i] {
			count++
		}
	}
	replaced := map[graph.NodeID]bool{}
	for name := range products {
		if t := v.Tensors(s.source)[name]; t != nil && t.Maker >= 0 {
			replaced[t.Maker] = true
		}
	}
	// A body may have lost the nodes that captured a tensor: only the nodes' own inputs
	// count.
	read := make([]bool, len(s.source.Tensors))
	for i, n := range s.source.Nodes {
		if gone[i] || replaced[graph.NodeID(i)] {
			continue
		}
		for _, t := range n.Inputs {
			if t >= 0 {
				read[t] = true
			}
		}
	}
	for i, n := range s.source.Nodes {
		if !gone[i] {
			continue
		}
		for _, id := range n.Outputs {
			if id < 0 {
				continue
			}
			t := s.source.Tensors[id]
			u := planned[t.Name]
			needed := t.Output || read[id] || u != nil && u.Data != nil // a body may read it
			if needed && !listed[t.Name] {
				v.Fault(Code, "folded: tensor %q of the source is missing: expected it in the list", graph.Short(t.Name))
			}
		}
	}
	return count
}

// foldedAway counts the nodes of a source graph that nothing needs once the listed
// tensors are constants, and products read constants as they lie.
func (v *prover) foldedAway(g *graph.Graph, listed map[string]bool) (count int) {
	order, err := g.Topological()
	if err != nil {
		return 0 // inference found an order
	}
	transposed := map[string]string{} // by the result of a product: the operand that it no longer reads
	for _, f := range v.Plan.Folded.Products {
		if f.Subgraph == nil {
			transposed[f.Tensor] = f.Transposed
		}
	}
	gone := make([]bool, len(g.Nodes))
	past := func(id graph.NodeID, t *graph.Tensor) bool { // the node is a product that reads what t is the Transpose of
		n := g.Nodes[id]
		return len(n.Outputs) > 0 && n.Outputs[0] >= 0 && transposed[g.Tensors[n.Outputs[0]].Name] == t.Name
	}
	reads := func(id graph.NodeID, t *graph.Tensor) bool {
		if !gone[id] {
			return !past(id, t)
		}
		for _, out := range g.Nodes[id].Outputs {
			if out >= 0 && slices.ContainsFunc(g.Tensors[out].Readers, func(r graph.NodeID) bool { return !gone[r] && past(r, g.Tensors[out]) }) {
				return true
			}
		}
		return false
	}
	for i := len(order) - 1; i >= 0; i-- {
		n := g.Nodes[order[i]]
		away := subject.FirstOutput(n) != none
		for _, id := range n.Outputs {
			if id < 0 || listed[g.Tensors[id].Name] {
				continue
			}
			t := g.Tensors[id]
			away = away && !t.Output && len(t.Readers) > 0 && !slices.ContainsFunc(t.Readers, func(r graph.NodeID) bool { return reads(r, t) })
		}
		if gone[order[i]] = away; away {
			count++
		}
	}
	return count
}

// sourceScope is a graph of the source with its outer graph.
type sourceScope struct {
	source   *graph.Graph
	outer    *sourceScope
	captures map[*graph.Tensor]*graph.Tensor // tensors of the outer graph; nil before it is needed
}

// captured returns the tensor of the outer graph that t stands for; nil if there is none.
func (s *sourceScope) captured(t *graph.Tensor) *graph.Tensor {
	if s.captures == nil {
		s.captures = make(map[*graph.Tensor]*graph.Tensor, len(s.source.Captures))
		for _, c := range s.source.Captures {
			s.captures[s.source.Tensors[c.Inner]] = s.outer.source.Tensors[c.Outer]
		}
	}
	return s.captures[t]
}

// recomputer computes tensors of the source that depend on constants alone.
type recomputer struct {
	m      *graph.Model
	files  *constant.Files
	scopes map[*graph.Graph]*sourceScope // by graph of the plan
	values map[*graph.Tensor]*constant.Tensor
	large  []*graph.Tensor // those of the values that are dropped after each tensor of the plan

	budget constant.Budget // for all tensors: a plan from others may name any node
	fixed  *fixedShapes    // nil before it is needed, and if the source has none
	asked  bool
}

// pair finds the graphs of the source for a planned graph and its bodies: a node is the
// same if it makes a tensor of the same name.
func (c *recomputer) pair(g, source *graph.Graph, outer *sourceScope) {
	s := &sourceScope{source: source, outer: outer}
	c.scopes[g] = s
	makers := map[string]*graph.Node{}
	for _, n := range source.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				makers[source.Tensors[t].Name] = n
			}
		}
	}
	for _, n := range g.Nodes {
		if len(n.Bodies()) == 0 || len(n.Outputs) == 0 || n.Outputs[0] < 0 {
			continue
		}
		from := makers[g.Tensors[n.Outputs[0]].Name]
		if from == nil {
			continue
		}
		for _, a := range n.Bodies() {
			b := from.Attr(a.Name)
			if b == nil {
				continue
			}
			inner, old := a.All(), b.All()
			for k := range min(len(inner), len(old)) {
				c.pair(inner[k], old[k], s)
			}
		}
	}
}

// compute computes a tensor of the source. Large values are dropped afterwards.
func (c *recomputer) compute(s *sourceScope, t *graph.Tensor) (*constant.Tensor, error) {
	x, err := c.value(s, t)
	for _, u := range c.large {
		delete(c.values, u)
	}
	c.large = c.large[:0]
	return x, err
}

// keep keeps the value of a tensor.
func (c *recomputer) keep(t *graph.Tensor, x *constant.Tensor) {
	c.values[t] = x
	if len(x.Raw) > constant.Kept {
		c.large = append(c.large, t)
	}
}

// value computes a tensor of the source.
func (c *recomputer) value(s *sourceScope, t *graph.Tensor) (*constant.Tensor, error) {
	if x := c.values[t]; x != nil {
		return x, nil
	}
	switch {
	case t.Capture:
		outer := s.captured(t)
		if outer == nil {
			return nil, fmt.Errorf("tensor %q is captured from nowhere", graph.Short(t.Name))
		}
		return c.value(s.outer, outer)
	case t.Data != nil:
		if t.Overridable && c.m.IRVersion >= 4 {
			return nil, fmt.Errorf("initializer %q is an input, too", graph.Short(t.Name))
		}
		return c.files.Read(t.Data)
	case t.Maker < 0:
		return nil, fmt.Errorf("%q is an input", graph.Short(t.Name))
	}
	n := s.source.Nodes[t.Maker]
	if ops.IsConstant(n) {
		d := constant.Of(n)
		if d == nil {
			return nil, fmt.Errorf("%s: a constant of this form is not read", s.source.Label(t.Maker))
		}
		return c.files.Read(d)
	}
	if readsShape(n) {
		if x, err := c.shape(s, n); err == nil {
			c.keep(t, x)
			return x, nil
		}
	}
	in := make([]*constant.Tensor, len(n.Inputs))
	read, made := int64(0), int64(0)
	for i, id := range n.Inputs {
		if id < 0 {
			continue
		}
		var err error
		if in[i], err = c.value(s, s.source.Tensors[id]); err != nil {
			return nil, err
		}
		read = units.Add(read, int64(len(in[i].Raw)))
	}
	for _, id := range n.Outputs {
		if id < 0 {
			continue
		}
		y := s.source.Tensors[id]
		if y.Bounded || y.Dynamic != "" {
			return nil, fmt.Errorf("%s: the size of its results is not known", s.source.Label(t.Maker))
		}
		made = units.Add(made, y.Bytes)
		if asked := asks(n, in); asked > float64(elements(y.Type))+spare {
			return nil, fmt.Errorf("%s: its inputs ask for %.0f elements, the file says %d", s.source.Label(t.Maker), asked, elements(y.Type))
		}
	}
	if err := c.budget.Take(read, made); err != nil {
		return nil, fmt.Errorf("%s: %w", s.source.Label(t.Maker), err)
	}
	out, err := recompute(n, c.m.Opset(n.Domain), in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.source.Label(t.Maker), err)
	}
	for k, id := range n.Outputs {
		if id >= 0 && out[k] != nil {
			if y := s.source.Tensors[id].Type; !shaped(out[k], y) {
				return nil, fmt.Errorf("%s: its result has shape %v, expected %v", s.source.Label(t.Maker), out[k].Shape, y.Shape)
			}
			c.keep(s.source.Tensors[id], out[k])
		}
	}
	if c.values[t] == nil {
		return nil, fmt.Errorf("%s does not compute it", s.source.Label(t.Maker))
	}
	return c.values[t], nil
}

// spare is how many elements more than the file says may be computed: asks rounds.
const spare = 1 << 20

// asks returns about how many elements the values of the inputs ask for; 0 if the shapes
// of the inputs determine that. The result is compared with the file once it is made, but
// must not be huge.
func asks(n *graph.Node, in []*constant.Tensor) float64 {
	list := func(i int) []float64 {
		if i >= len(in) || in[i] == nil {
			return nil
		}
		var v []float64
		for at := in[i].Raw; len(at) > 0; {
			switch in[i].Type {
			case graph.Int64:
				v, at = append(v, float64(int64(binary.LittleEndian.Uint64(at)))), at[8:]
			case graph.Int32:
				v, at = append(v, float64(int32(binary.LittleEndian.Uint32(at)))), at[4:]
			default:
				return nil
			}
		}
		return v
	}
	var shape []float64
	if len(in) > 0 && in[0] != nil {
		for _, d := range in[0].Shape {
			shape = append(shape, float64(d))
		}
	}
	by := list(1)
	switch n.Op {
	case "ConstantOfShape":
		shape = list(0)
	case "Range":
		start, delta := list(0), list(2)
		if len(start) != 1 || len(by) != 1 || len(delta) != 1 || delta[0] == 0 {
			return 0
		}
		shape = []float64{(by[0] - start[0]) / delta[0]}
	case "Expand":
		for len(shape) < len(by) {
			shape = append([]float64{1}, shape...)
		}
		for i, d := range by {
			if k := len(shape) - len(by) + i; shape[k] == 1 {
				shape[k] = d
			}
		}
	case "Tile":
		for k := range min(len(by), len(shape)) {
			shape[k] *= by[k]
		}
	case "Pad":
		axes := list(3)
		for i, w := range by {
			k := i % max(len(by)/2, 1)
			if axes != nil {
				if k >= len(axes) {
					return 0
				}
				if k = int(axes[k]); k < 0 {
					k += len(shape)
				}
			}
			if k >= 0 && k < len(shape) {
				shape[k] += w
			}
		}
	default:
		return 0
	}
	product := float64(1)
	for _, d := range shape {
		product *= d
	}
	return product
}

// elements is the number of elements of an exact shape.
func elements(t graph.Type) int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// shaped reports whether a tensor has an exact shape.
func shaped(x *constant.Tensor, t graph.Type) bool {
	return t.Ranked && slices.EqualFunc(x.Shape, t.Shape, func(a int64, b graph.Dim) bool { return graph.Dim(a) == b })
}

// shape computes a node of the source that reads a shape, if that never changes.
func (c *recomputer) shape(s *sourceScope, n *graph.Node) (*constant.Tensor, error) {
	if !c.asked {
		c.fixed, c.asked = newFixedShapes(c.m), true
	}
	lengths, err := c.fixed.lengths(s.source.Tensors[n.Inputs[0]])
	if err != nil {
		return nil, err
	}
	return shapeResult(n, lengths)
}

// carried lists, for operators that only move elements, the inputs with these elements;
// -1: all. Their bits are moved as integers: a NaN keeps its payload.
var carried = map[string][]int{
	"Identity": {0}, "Reshape": {0}, "Flatten": {0}, "Squeeze": {0}, "Unsqueeze": {0}, "Transpose": {0}, "Slice": {0},
	"Gather": {0}, "Concat": {-1}, "Split": {0}, "Expand": {0}, "Tile": {0}, "Pad": {0, 2}, "Where": {1, 2},
}

// allowed lists the other operators whose results do not depend on the runtime.
var allowed = map[string]bool{
	"Shape": true, "Size": true, "ConstantOfShape": true, "Cast": true, "CastLike": true, "Range": true,
	"Add": true, "Sub": true, "Mul": true, "Div": true, "Neg": true, "Abs": true, "Sqrt": true,
	"Equal": true, "Less": true, "LessOrEqual": true, "Greater": true, "GreaterOrEqual": true,
	"And": true, "Or": true, "Xor": true, "Not": true,
}

// recompute computes the outputs of a node.
func recompute(n *graph.Node, version int64, in []*constant.Tensor) ([]*constant.Tensor, error) {
	moved, moves := carried[n.Op]
	if n.Domain != "" || n.Overload != "" || !moves && !allowed[n.Op] {
		return nil, fmt.Errorf("its result may depend on the runtime")
	}
	if ops.Permutes(n) && len(in) == 1 && in[0] != nil {
		return transposed(n, in[0])
	}
	elem := graph.Undefined
	args := make([]*reference.Tensor, len(in))
	for i, x := range in {
		if x == nil {
			continue
		}
		t := x.Type
		if moves && (moved[0] < 0 || contains(moved, i)) {
			elem = t
			t = bitsOf(t)
		}
		shape := make([]int, len(x.Shape))
		for k, d := range x.Shape {
			shape[k] = int(d)
		}
		var err error
		if args[i], err = reference.Decode(t, shape, x.Raw); err != nil {
			return nil, err
		}
	}
	results, err := reference.Node(n, version, args)
	if err != nil {
		return nil, err
	}
	out := make([]*constant.Tensor, len(results))
	for k, r := range results {
		if r.Tensor == nil {
			continue
		}
		y := r.Stored()
		out[k] = &constant.Tensor{Type: y.Type, Raw: y.Encode()}
		if moves {
			out[k].Type = elem
		}
		for _, d := range y.Shape {
			out[k].Shape = append(out[k].Shape, int64(d))
		}
	}
	return out, nil
}

func contains(list []int, v int) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// bitsOf is the unsigned integer type as wide as a floating-point type.
func bitsOf(t graph.DType) graph.DType {
	switch {
	case t.Integer() || t == graph.Bool:
		return t
	case t.Bits() == 64:
		return graph.Uint64
	case t.Bits() == 32:
		return graph.Uint32
	case t.Bits() == 16:
		return graph.Uint16
	case t.Bits() == 8:
		return graph.Uint8
	}
	return t
}

// transposed moves the bytes of a transposed tensor one by one: embeddings are too large
// for the evaluator.
func transposed(n *graph.Node, x *constant.Tensor) ([]*constant.Tensor, error) {
	rank := len(x.Shape)
	perm := make([]int64, rank)
	for k := range perm {
		perm[k] = int64(rank - 1 - k)
	}
	if a := n.Attr("perm"); a != nil {
		perm = a.Ints
	}
	if len(perm) != rank {
		return nil, fmt.Errorf("perm has %d entries, expected %d", len(perm), rank)
	}
	y := &constant.Tensor{Type: x.Type, Shape: make([]int64, rank), Raw: make([]byte, len(x.Raw))}
	// inside[k] is the number of elements of y below one position of its axis that is
	// axis k of x.
	inside, below := make([]int64, rank), int64(1)
	used := make([]bool, rank)
	for k := rank - 1; k >= 0; k-- {
		p := perm[k]
		if p < 0 || p >= int64(rank) || used[p] {
			return nil, fmt.Errorf("perm %v is no permutation", perm)
		}
		used[p] = true
		y.Shape[k] = x.Shape[p]
		inside[p] = below
		below *= x.Shape[p]
	}
	width := x.Type.Bits() / 8
	for i := int64(0); i*width < int64(len(x.Raw)); i++ {
		rest, to := i, int64(0)
		for k := rank - 1; k >= 0; k-- {
			to += rest % x.Shape[k] * inside[k]
			rest /= x.Shape[k]
		}
		copy(y.Raw[to*width:(to+1)*width], x.Raw[i*width:(i+1)*width])
	}
	return []*constant.Tensor{y}, nil
}

// product says what is wrong with a product one of whose operands is no longer
// transposed; "" if it is right. In the source, y = MatMul(x, t) or Gemm(x, t, …), with
// t = Transpose(w). In the plan, y = Gemm(x, w, …) with the other transB or, for more
// than two axes, y = Reshape(Gemm(Reshape(x), w)), where the inner Reshape keeps the
// last axis. The order of the elements then determines the rest. From the left,
// y = MatMul(t, x) or Gemm(t, x, …) becomes y = Gemm(w, x, …) with the other transA. The
// Transpose may stand in an outer graph.
func (v *prover) product(g *graph.Graph, s *sourceScope, f plan.FoldedProduct) string {
	source := s.source
	y := v.Tensors(source)[f.Tensor]
	if y == nil || y.Maker < 0 {
		return fmt.Sprintf("the source has no node that makes %q", graph.Short(f.Tensor))
	}
	n := source.Nodes[y.Maker]
	if n.Domain != "" || n.Op != "MatMul" && n.Op != "Gemm" || len(n.Inputs) < 2 || n.Inputs[0] < 0 || n.Inputs[1] < 0 {
		return "expected a MatMul or Gemm of the source"
	}
	left := source.Tensors[n.Inputs[1]].Name != f.Transposed
	x, t, at := source.Tensors[n.Inputs[0]].Name, source.Tensors[n.Inputs[1]], s
	if left {
		x, t = t.Name, source.Tensors[n.Inputs[0]]
	}
	for t != nil && t.Capture {
		t, at = at.captured(t), at.outer
	}
	if t == nil || t.Maker < 0 || t.Name != f.Transposed {
		return fmt.Sprintf("expected a MatMul or Gemm of the source by %q", graph.Short(f.Transposed))
	}
	transpose := at.source.Nodes[t.Maker]
	perm := transpose.Attr("perm")
	if !ops.Permutes(transpose) || len(t.Type.Shape) != 2 || perm != nil && !slices.Equal(perm.Ints, []int64{1, 0}) {
		return "expected a Transpose of two axes in the source"
	}
	w := at.source.Tensors[transpose.Inputs[0]].Name

	u := v.Tensors(g)[f.Tensor]
	if u == nil && v.Plan.Slices != nil && g == v.Model.Graph && len(y.Type.Shape) == 2 {
		return "" // it runs in slices, which are compared with one that reads w as it lies (before.product)
	}
	if u == nil || u.Maker < 0 || !sameType(u.Type, y.Type) {
		return "expected a node that makes it, with the type that it has in the source"
	}
	m := g.Nodes[u.Maker]
	from := func(n *graph.Node, i int, op string) *graph.Node { // the maker of input i
		if n == nil || i >= len(n.Inputs) || n.Inputs[i] < 0 || g.Tensors[n.Inputs[i]].Maker < 0 {
			return nil
		}
		if k := g.Nodes[g.Tensors[n.Inputs[i]].Maker]; k.Domain == "" && k.Op == op {
			return k
		}
		return nil
	}
	name := func(n *graph.Node, i int) string {
		if n == nil || i >= len(n.Inputs) || n.Inputs[i] < 0 {
			return ""
		}
		return g.Tensors[n.Inputs[i]].Name
	}
	gemm, inner := m, m
	operand := 1 // w
	if left {
		operand = 0
	}
	if !left && m.Op == "Reshape" && m.Domain == "" {
		gemm = from(m, 0, "Gemm")
		inner = from(gemm, 0, "Reshape")
		if inner == nil || !keepsLast(g, inner) {
			return "expected Reshape(Gemm(Reshape(x), w)) that keeps the last axis of x"
		}
	}
	if gemm == nil || gemm.Domain != "" || gemm.Op != "Gemm" || name(inner, 1-operand) != x || name(gemm, operand) != w {
		return fmt.Sprintf("expected a Gemm of %q and %q", graph.Short(x), graph.Short(w))
	}
	return gemmDiffers(source, n, g, gemm, left)
}

// keepsLast reports whether a Reshape to two axes keeps the length of the last one.
func keepsLast(g *graph.Graph, n *graph.Node) bool {
	x, y := g.Tensors[n.Inputs[0]].Type, g.Tensors[n.Outputs[0]].Type
	return len(y.Shape) == 2 && len(x.Shape) > 0 && y.Shape[1].Exact() && y.Shape[1] == x.Shape[len(x.Shape)-1]
}

// gemmDiffers says how a Gemm differs from a product of the source apart from its first
// two inputs; transB, or from the left transA, must be the other one.
func gemmDiffers(source *graph.Graph, n *graph.Node, g *graph.Graph, gemm *graph.Node, left bool) string {
	number := func(n *graph.Node, name string) int64 {
		if a := n.Attr(name); a != nil {
			return a.Int
		}
		return 0
	}
	factor := func(n *graph.Node, name string) float32 {
		if a := n.Attr(name); a != nil {
			return a.Float
		}
		return 1
	}
	third := func(g *graph.Graph, n *graph.Node) string {
		if len(n.Inputs) > 2 && n.Inputs[2] >= 0 {
			return g.Tensors[n.Inputs[2]].Name
		}
		return ""
	}
	wasGemm := n.Op == "Gemm"
	flips, keeps := "transB", "transA"
	if left {
		flips, keeps = keeps, flips
	}
	switch {
	case number(gemm, keeps) != 0 != (wasGemm && number(n, keeps) != 0):
		return keeps + " differs"
	case number(gemm, flips) != 0 == (wasGemm && number(n, flips) != 0):
		return flips + ": expected the opposite of the source"
	case factor(gemm, "alpha") != factor(n, "alpha"), wasGemm && factor(gemm, "beta") != factor(n, "beta"):
		return "alpha or beta differs"
	case wasGemm && third(g, gemm) != third(source, n), !wasGemm && third(g, gemm) != "":
		return "its third input differs"
	}
	return ""
}

func sameType(a, b graph.Type) bool {
	if a.Elem != b.Elem || !a.Ranked || !b.Ranked || len(a.Shape) != len(b.Shape) {
		return false
	}
	for k := range a.Shape {
		if a.Shape[k] != b.Shape[k] {
			return false
		}
	}
	return true
}
