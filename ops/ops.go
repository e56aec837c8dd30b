// Package ops defines what ONNX operators mean to a memory planner: the types and
// shapes of their outputs, and the values of small integer outputs (shape
// arithmetic). It says which outputs are views of an input, and which may overwrite
// an input that dies there. It says which rows of their inputs the rows of an output
// need, and how many floating-point operations they take.
//
// [Infer] takes a model and sets the types and sizes of all its tensors; [Apply]
// does that for one node, and [Check] decides whether a kernel may run a node.
//
// All of them look operators up in one table of rows ([Op]); families.go lists
// its parts, one file per family of operators. A row's functions receive a
// [Call]: a node with the types and values of its inputs.
//
// A length that depends on data is a bound if the operator has one
// (graph.AtMost), else graph.Unknown; elements of folded values have the same
// three states (Scalar.State).
package ops

import (
	"fmt"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// Op is the meaning of one operator in all its opset versions; Call.Version is
// the version of the call.
type Op struct {
	Name  string
	Class Class

	// Infer sets the types of c.Out from c.In and the attributes. If a shape
	// depends on data, it sets bounds or graph.Unknown; a contradiction in the
	// model is an error.
	Infer func(c *Call) error

	// Fold sets the values of small outputs, from the values of the inputs and
	// after Infer. It is called only if some output is a tensor of at most
	// FoldLimit elements. Optional.
	Fold func(c *Call)

	// Views returns the outputs that are views of an input. Pairs of different
	// sizes in bytes are ignored. Optional.
	Views func(c *Call) []graph.Alias

	// Inplace returns the outputs that may overwrite an input which dies there:
	// the kernel must read element i of that input before it writes element i of
	// the output, and no earlier element of the input afterwards. Optional.
	Inplace func(c *Call) []graph.Alias

	// Updates: an output that overwrites an input keeps elements of it: a cache, of which the node
	// writes a part, or what a loop carries.
	Updates bool

	// Ranges returns the bytes of outputs that are bytes of inputs, ascending by output
	// and position. It is called only if all shapes are exact and the operator has no view
	// for these types. Optional.
	Ranges func(c *Call) []graph.SubRange

	// Cut returns the dimension map of the node along an axis of its first output,
	// nil if it has none. All types are exact. Optional.
	Cut func(c *Call, axis int) *Cut
	// Sum returns the dimension map of a node that sums over an axis of its inputs,
	// given the axes along which the inputs are cut (Whole: any); nil if it does not.
	// All types are exact. Optional.
	Sum func(c *Call, axes []int) *Sum

	// FLOPs returns the number of floating-point operations; a multiply-add
	// counts as two. Optional.
	FLOPs func(c *Call) int64

	// Exp is how many times as long as Exp a kernel takes for each element that it makes, but
	// for what it moves, if that is longer than arithmetic takes. 0: no longer than what it
	// moves takes. bench/efficiency measured it with onnxmem's kernels, on one core with AVX2,
	// 262,144 elements.
	Exp float64
	// Form says in which pieces a kernel makes output 0. Optional.
	Form Form
	// Activation: the kernel of a node that Applies may compute the node, on each part of what
	// it makes, while it holds the part anyway.
	Activation, Applies bool

	// Check refuses nodes that Infer accepts but a kernel cannot run. All input
	// shapes are exact, and so are output shapes that do not depend on data; some
	// output has elements. See the function Check. Optional.
	Check func(c *Call) error

	// Random: the result differs from run to run, or the node has an effect.
	Random bool
	// Seeded: if the node has the attribute seed, it draws its random numbers
	// from that seed. See the function Seeded.
	Seeded bool

	// Optional reports whether a node may leave out output out and still compute
	// the others. Nil: no output may be left out.
	Optional func(out int) bool

	// Depends reports whether output out depends on the elements of input in.
	// Nil: every output depends on every input.
	Depends func(n *graph.Node, out, in int) bool

	// Constant: the output is an attribute of the node.
	Constant bool
	// ReadsOutput: the node reads no more bytes of its first input than it
	// writes.
	ReadsOutput bool
	// ReadsRows: what it reads of its first input are rows of its first output: elements that
	// are neighbours along the last axes in which the two have the same lengths are neighbours
	// in both.
	ReadsRows bool
	// OfShape: the results follow from the shape of the input, whatever its elements are.
	OfShape bool
	// Lengths are the inputs that say how long a result is, or along which axis it is changed.
	Lengths []int
	// Copies: the result is the first input.
	Copies bool
	// Casts: the result is the first input in the type that the attribute to names.
	Casts bool
	// Permutes: the result has the axes of the input in another order.
	Permutes bool
	// Concatenates: the inputs lie in the result one behind the other, along one axis.
	Concatenates bool
	// Branches, Repeats: the node runs one of its bodies, or one body several times.
	Branches, Repeats bool
	// Moves: the elements of the results are elements of the first input, perhaps
	// converted to another type.
	Moves bool
	// Rounds reports whether a length of a result is rounded, so that runtimes may
	// disagree on it. Optional.
	Rounds func(n *graph.Node) bool
	// OnWeights: exporters put the operator between a weight and the product that
	// reads it, so a runtime may compute it once, before the first run.
	OnWeights bool

	// Dequantizes, Quantizes: output 0 holds the reals that the bytes of input 0 represent,
	// or the bytes that represent its reals.
	Dequantizes, Quantizes bool
	// Joins: onnxmem's kernels may compute the node from bytes to bytes if it reads what
	// nodes dequantize and one that quantizes reads its result, and then have other bits than
	// from reals: sums are exact, and rounded once.
	Joins bool

	// Precision says in which type a node computes where a graph is put into 16 bits. Beside are
	// the floating inputs that take no part in that: they stay in the type that they have, or
	// are cast to that of the others where the operator permits no other.
	Precision Precision
	Beside    []int

	// Weights are the inputs that usually are parameters. Biases is the subset
	// without weight decay: biases, and scales of normalizations.
	Weights, Biases []int
	// Kinds says what kind of parameter each of Weights is, such as convolution or
	// bias; the last entry is also that of the weights after it.
	Kinds []string
}

// Kind is the kind of parameter that input in usually is; "" if it usually is none.
func (op *Op) Kind(in int) string {
	k := slices.Index(op.Weights, in)
	if k < 0 || len(op.Kinds) == 0 {
		return ""
	}
	return op.Kinds[min(k, len(op.Kinds)-1)]
}

// family is the table of operators in one file.
type family struct {
	domain string
	ops    []Op
}

// key identifies an operator.
type key struct{ domain, name string }

// table holds every operator of every family. init fills it, since operators with
// bodies look operators up.
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

// Lookup returns an operator; nil if it is unknown. The domain ai.onnx is spelled
// "".
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

// Domains lists the domains that have operators, sorted.
func Domains() []string {
	domains := map[string]bool{}
	for k := range table {
		domains[k.domain] = true
	}
	return slices.Sorted(maps.Keys(domains))
}

// Arg is an input or output of a call: its type and, if folded, its value.
type Arg struct {
	Present bool // false: an optional one that is left out
	graph.Type
	Value *Value // nil if nothing is known of the elements
}

// Call is a node with the types of its inputs: the argument of an Op's functions.
type Call struct {
	Node    *graph.Node
	Version int64 // of the operator's domain, as imported by the model or the function
	In      []Arg // one per input of the node
	Out     []Arg // one per output of the node; the functions set them

	Graph *graph.Graph // the graph of the node, for names in errors; nil: errors have none

	inf   *inferrer
	scope *scope       // the scope of the node
	id    graph.NodeID // the node in its scope

	varies map[int]bool // outputs whose known shapes differ from run to run
}

// Has reports whether input i is present.
func (c *Call) Has(i int) bool { return i < len(c.In) && c.In[i].Present }

// Arg returns input i; the zero Arg if it is left out.
func (c *Call) Arg(i int) Arg {
	if i < len(c.In) {
		return c.In[i]
	}
	return Arg{}
}

// Need fails unless the node has at least n inputs and the first n are present.
func (c *Call) Need(n int) error {
	for i := range n {
		if !c.Has(i) {
			return c.Errf("input %d is missing: expected %d inputs, found %d", i, n, len(c.In))
		}
	}
	return nil
}

// Set sets the type of output i to a tensor. Outputs that are left out are
// ignored.
func (c *Call) Set(i int, elem graph.DType, shape []graph.Dim) {
	if shape == nil {
		shape = []graph.Dim{}
	}
	c.SetType(i, graph.Type{Kind: graph.KindTensor, Elem: elem, Ranked: true, Shape: shape})
}

// SetUnranked sets the type of output i to a tensor of unknown rank.
func (c *Call) SetUnranked(i int, elem graph.DType) {
	c.SetType(i, graph.Type{Kind: graph.KindTensor, Elem: elem})
}

// SetType sets the type of output i.
func (c *Call) SetType(i int, t graph.Type) {
	if i < len(c.Out) && c.Out[i].Present {
		c.Out[i].Type = t
	}
}

// SetValue sets the folded value of output i, if the output is present.
func (c *Call) SetValue(i int, v *Value) {
	if v != nil && i < len(c.Out) && c.Out[i].Present {
		c.Out[i].Value = v
	}
}

// Int is an integer attribute, or its default.
func (c *Call) Int(name string, otherwise int64) int64 { return attr.Int(c.Node, name, otherwise) }

// Float is a float attribute, or its default.
func (c *Call) Float(name string, otherwise float32) float32 {
	return attr.Float(c.Node, name, otherwise)
}

// Str is a string attribute, or its default.
func (c *Call) Str(name, otherwise string) string { return attr.String(c.Node, name, otherwise) }

// Ints is a list attribute, nil if the node does not have it.
func (c *Call) Ints(name string) []int64 { return attr.Ints(c.Node, name) }

// HasAttr reports whether the node has the attribute.
func (c *Call) HasAttr(name string) bool { return c.Node.Attr(name) != nil }

// Errf makes an error about the node.
func (c *Call) Errf(format string, args ...any) error { return graph.Errorf(format, args...) }

// BadInput returns an error: the operator does not accept the type of input i.
func (c *Call) BadInput(i int, expected string, args ...any) error {
	t := c.In[i].Type
	what := "type " + t.String()
	if t.Kind == graph.KindTensor && t.Ranked {
		what = "shape " + graph.ShapeString(t.Shape)
	}
	return graph.Errorf("input %d%s has %s, expected %s", i, c.inputName(i), what, fmt.Sprintf(expected, args...))
}

// inputName is a space and the name of input i, for errors; "" if it has none.
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
