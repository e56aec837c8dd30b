// Package ops knows what operators mean: the types and shapes of their
// outputs, the values of small integer outputs (shape arithmetic), which
// outputs are views of an input, which may be written over an input that dies
// there, and how many floating-point operations they take.
//
// There is one file per family of operators and one table entry (Op) per
// operator. Infer walks a whole model with them.
//
// Lengths that depend on data are carried as bounds where the operator gives
// one (graph.AtMost), else as graph.Unknown; elements of folded values
// likewise (Scalar.State).
package ops

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Op is what one operator means, in all its opset versions: Call.Version tells
// which one is meant.
type Op struct {
	Name string

	// Infer sets the types of c.Out from c.In and the attributes. Where a
	// shape depends on data it sets bounds or graph.Unknown; a contradiction
	// in the model is an error.
	Infer func(c *Call) error

	// Fold sets the values of small outputs once their types are known, from
	// the values of the inputs. It is called only when some output is a tensor
	// of at most FoldLimit elements. Optional.
	Fold func(c *Call)

	// Views gives the outputs that are an input under another shape. Those
	// whose size in bytes differs from the input's are ignored. Optional.
	Views func(c *Call) []graph.Alias

	// Inplace gives the outputs that may be written over an input which dies
	// there: the kernel reads element i of that input before it writes element
	// i of the output, and no earlier element of it afterwards. Optional.
	Inplace func(c *Call) []graph.Alias

	// FLOPs gives the floating-point operations; a multiply-add counts two.
	// Optional.
	FLOPs func(c *Call) int64

	// Check refuses what Infer lets pass and a kernel cannot run: every shape of
	// an input is exact then, and so are those of outputs that do not depend on
	// data. Some output has elements. See the function Check. Optional.
	Check func(c *Call) error

	// Random: the result differs from run to run, or the node has an effect.
	Random bool
	// Seeded: where the node has the attribute seed, it draws its random numbers
	// from it. See the function Seeded.
	Seeded bool

	// Optional reports whether a node may leave out output out, and computes the
	// others all the same. Nil: no output may be left out.
	Optional func(out int) bool

	// Depends reports whether output out depends on the elements of input in.
	// Nil: every output depends on every input.
	Depends func(n *graph.Node, out, in int) bool

	// Constant: the output is the attribute that the file holds.
	Constant bool
	// ReadsOutput: of its first input the node reads no more bytes than it writes.
	ReadsOutput bool
	// OnWeights: exporters put the operator between a weight and the product that
	// reads it. A runtime may compute it once, before the first run.
	OnWeights bool

	// Weights are the inputs that models pass parameters to. Biases are those of
	// them that do not decay in training: biases, and scales of a normalization.
	Weights, Biases []int
}

// family is the operators of one file.
type family struct {
	domain string
	ops    []Op
}

// key names an operator.
type key struct{ domain, name string }

// table is every operator of every family. It is filled by init because the
// operators with bodies look operators up themselves.
var table map[key]*Op

func init() {
	t := map[key]*Op{}
	for _, f := range families {
		for i := range f.ops {
			k := key{f.domain, f.ops[i].Name}
			if t[k] != nil {
				panic("ops: two entries for " + k.domain + " " + k.name)
			}
			t[k] = &f.ops[i]
		}
	}
	table = t
}

// Lookup finds an operator; nil if this package does not know it. The domain
// ai.onnx is spelled "".
func Lookup(domain, name string) *Op { return table[key{domain, name}] }

// Names lists the operators of a domain, sorted.
func Names(domain string) []string {
	var names []string
	for k := range table {
		if k.domain == domain {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return names
}

// Arg is an input or output of a call: its type and, if folded, its value.
type Arg struct {
	Present bool // false: an optional one that is left out
	graph.Type
	Value *Value // nil when nothing is known of the elements
}

// Call is one node with the types of its inputs: what an Op's functions see.
type Call struct {
	Node    *graph.Node
	Version int64 // of the operator's domain, as the model (or the function) imports it
	In      []Arg // one per input of the node
	Out     []Arg // one per output of the node, to be filled in

	Graph *graph.Graph // that the node stands in, for names in errors; nil: errors have none

	inf   *inferrer
	scope *scope // of the graph that the node stands in
}

// Has reports whether input i is there.
func (c *Call) Has(i int) bool { return i < len(c.In) && c.In[i].Present }

// Arg gives input i; the zero Arg when it is left out.
func (c *Call) Arg(i int) Arg {
	if i < len(c.In) {
		return c.In[i]
	}
	return Arg{}
}

// Need fails unless the node has at least n inputs and the first n are there.
func (c *Call) Need(n int) error {
	for i := range n {
		if !c.Has(i) {
			return c.Errf("input %d is missing: expected %d inputs, found %d", i, n, len(c.In))
		}
	}
	return nil
}

// Set gives output i a tensor type. Outputs that are left out are ignored.
func (c *Call) Set(i int, elem graph.DType, shape []graph.Dim) {
	if shape == nil {
		shape = []graph.Dim{}
	}
	c.SetType(i, graph.Type{Kind: graph.KindTensor, Elem: elem, Ranked: true, Shape: shape})
}

// SetUnranked gives output i a tensor type of unknown rank.
func (c *Call) SetUnranked(i int, elem graph.DType) {
	c.SetType(i, graph.Type{Kind: graph.KindTensor, Elem: elem})
}

// SetType gives output i any type.
func (c *Call) SetType(i int, t graph.Type) {
	if i < len(c.Out) && c.Out[i].Present {
		c.Out[i].Type = t
	}
}

// SetValue gives output i a folded value, if the output is there.
func (c *Call) SetValue(i int, v *Value) {
	if v != nil && i < len(c.Out) && c.Out[i].Present {
		c.Out[i].Value = v
	}
}

// Int is an integer attribute, or its default.
func (c *Call) Int(name string, otherwise int64) int64 {
	if a := c.Node.Attr(name); a != nil {
		return a.Int
	}
	return otherwise
}

// Float is a float attribute, or its default.
func (c *Call) Float(name string, otherwise float32) float32 {
	if a := c.Node.Attr(name); a != nil {
		return a.Float
	}
	return otherwise
}

// Str is a string attribute, or its default.
func (c *Call) Str(name, otherwise string) string {
	if a := c.Node.Attr(name); a != nil {
		return a.String
	}
	return otherwise
}

// Ints is a list attribute, nil if it is not there.
func (c *Call) Ints(name string) []int64 {
	if a := c.Node.Attr(name); a != nil {
		return a.Ints
	}
	return nil
}

// HasAttr reports whether the node states the attribute.
func (c *Call) HasAttr(name string) bool { return c.Node.Attr(name) != nil }

// Errf makes an error about the node.
func (c *Call) Errf(format string, args ...any) error { return graph.Errorf(format, args...) }

// BadInput says that input i has a type that the operator does not take.
func (c *Call) BadInput(i int, expected string, args ...any) error {
	t := c.In[i].Type
	what := "type " + t.String()
	if t.Kind == graph.KindTensor && t.Ranked {
		what = "shape " + graph.ShapeString(t.Shape)
	}
	return graph.Errorf("input %d%s has %s, expected %s", i, c.inputName(i), what, fmt.Sprintf(expected, args...))
}

// inputName is the name of input i behind a blank, for errors; "" where it has none.
func (c *Call) inputName(i int) string {
	if i >= len(c.Node.Inputs) {
		return ""
	}
	return c.name(c.Node.Inputs[i])
}

func (c *Call) name(t graph.TensorID) string {
	if c.Graph == nil || t < 0 {
		return ""
	}
	return fmt.Sprintf(" %q", graph.Short(c.Graph.Tensors[t].Name))
}

// Axis brings an axis of a tensor of the given rank into [0, rank).
func (c *Call) Axis(name string, axis int64, rank int) (int, error) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, c.Errf("%s is %d, expected one of [%d, %d) for rank %d", name, axis, -rank, rank, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), nil
}

// Axes does the same for a list and refuses an axis that stands twice.
func (c *Call) Axes(name string, axes []int64, rank int) ([]int, error) {
	out := make([]int, 0, len(axes))
	seen := make([]bool, rank)
	for _, a := range axes {
		k, err := c.Axis(name, a, rank)
		if err != nil {
			return nil, err
		}
		if seen[k] {
			return nil, c.Errf("%s names axis %d twice", name, k)
		}
		seen[k] = true
		out = append(out, k)
	}
	return out, nil
}
