// Package graph represents a neural network as a graph of nodes and tensors, as
// ONNX describes it, in a form that passes can work on.
//
//	Model    one file: opset imports, the main Graph, local Functions, metadata
//	Graph    nodes and tensors of one scope; bodies of If, Loop and Scan are Graphs too
//	Node     one operator invocation
//	Tensor   a value: a graph input, an initializer, or one output of one node
//	Type     the type of a value: dtype and shape, or a sequence, optional or map
//	Dim      one axis: exact, bounded, or unknown until the model runs
//	Data     the elements of an initializer or of a tensor attribute
//
// Package onnx reads models from files, and [Builder] builds them by hand;
// [Check] tests either. Nodes and tensors have dense indices (NodeID, TensorID)
// into Graph.Nodes and Graph.Tensors. Whatever was read from a file keeps the
// Span of its bytes, so that a writer can copy it unchanged. [Inline] and
// [Graph.Repeat] make new graphs of a graph.
//
// # The printed form
//
// [Print] writes a model as text, one line a node, and [Parse] reads it:
//
//	opset 17
//	in x float32[batch,3]                     an input and its declared type
//	init k int64[2] = [0, 1]                  an initializer; = ... leaves the elements out
//	y, _ = com.acme::Two(x, _, k) axis=1 #n : float32[batch,3] {"key"="value"} @ arena:0:64
//	z = If(c) then_branch=graph { out y } else_branch=graph { out x }
//	out z
//
// A node has outputs, an operator and its inputs ("_" for one that is left out), and then
// attributes, its name (#), declared types of its outputs (:), metadata, and places of its
// outputs (@). Numbers are integers or, with a point or an exponent, floats; lists stand in
// brackets, tensors in parentheses: value=(float32[2] = [1, 2]). Semicolons end lines, too;
// // begins a comment. docs/graph.md has the grammar.
package graph

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// NodeID is an index into Graph.Nodes.
type NodeID int32

// TensorID is an index into Graph.Tensors.
type TensorID int32

// None is "no node" or "no tensor": an optional input or output that is left out,
// or the maker of a tensor that no node makes.
const None = -1

// Span is a range of bytes in the file from which something was read. The zero
// Span means that it was not read from a file.
type Span struct{ Off, Len int64 }

// IsZero reports whether s refers to nothing.
func (s Span) IsZero() bool { return s == Span{} }

// End is the first byte after s.
func (s Span) End() int64 { return s.Off + s.Len }

// Prop is one entry of metadata_props.
type Prop struct{ Key, Value string }

// Opset is one entry of opset_import: a domain ("" is ai.onnx) and its version.
type Opset struct {
	Domain  string
	Version int64
}

// Source is the file from which a model was read: its name for messages, its
// folder for external data, and its bytes, usually a read-only mapping.
type Source struct {
	Name  string // as given by the user
	Dir   string // folder of external data; "": none
	Bytes []byte
	File  *os.File // nil if the bytes have another source (standard input)

	// Check fails if the file has changed since it was mapped; nil if nothing is
	// mapped.
	Check func() error
}

// Unchanged fails, with an error of type *Error, if the file was truncated or
// overwritten since it was mapped: data that were read from it may be wrong.
func (s *Source) Unchanged() error {
	if s == nil || s.Check == nil {
		return nil
	}
	return s.Check()
}

// Model is one ONNX file.
type Model struct {
	IRVersion int64
	Producer  string // producer_name and producer_version
	Opsets    []Opset
	Graph     *Graph
	Functions []*Function
	Props     []Prop // metadata_props of the model

	Source *Source // nil for a model built in memory
}

// Opset returns the version of domain that the model imports, 0 if it imports
// none.
func (m *Model) Opset(domain string) int64 { return FindOpset(m.Opsets, domain) }

// FindOpset returns the version of domain in opsets, 0 if there is none.
func FindOpset(opsets []Opset, domain string) int64 {
	for _, o := range opsets {
		if o.Domain == domain {
			return o.Version
		}
	}
	return 0
}

// Prop returns the value of a metadata entry of the model.
func (m *Model) Prop(key string) (string, bool) { return findProp(m.Props, key) }

// SetProp sets a metadata entry of the model. An existing entry keeps its
// position.
func (m *Model) SetProp(key, value string) { m.Props = setProp(m.Props, key, value) }

// DropProp removes all metadata entries of the model with that key.
func (m *Model) DropProp(key string) { m.Props = dropProp(m.Props, key) }

// Function is a model-local function. The inputs of its body have no types: they
// depend on the call.
type Function struct {
	Domain, Name, Overload string
	Opsets                 []Opset
	Attrs                  []string // names of attributes without default
	Defaults               []*Attr  // attributes with default
	Body                   *Graph

	Span Span
}

// Graph is one scope of nodes and tensors.
type Graph struct {
	Name    string
	Nodes   []*Node
	Tensors []*Tensor

	Inputs  []TensorID // in the file's order, without initializers that are also listed as inputs
	Outputs []TensorID // in the file's order; a tensor may occur twice

	// Captures lists the tensors that a body reads from the outer scope.
	Captures []Capture

	// NeverRuns says why a body never runs in the model as it was inferred: it is
	// then planned without memory. "" if it may run.
	NeverRuns string

	Span Span
}

// Capture is a tensor of an outer scope, as a body sees it.
type Capture struct {
	Inner TensorID // in this graph
	Outer TensorID // in the outer graph
}

// Node is one operator invocation.
type Node struct {
	Name     string
	Op       string
	Domain   string // "" is ai.onnx
	Overload string
	Inputs   []TensorID // None where an optional input is left out
	Outputs  []TensorID // None where an optional output is left out
	Attrs    []*Attr
	Props    []Prop // metadata_props

	// Captures are the tensors of this graph that the node's bodies capture. They
	// count as inputs. Ascending, without duplicates.
	Captures []TensorID

	// Semantics is set by shape inference (package ops).
	Semantics Semantics

	Span Span
}

// Semantics is what inference knows of a node besides its outputs' types.
type Semantics struct {
	Known   bool    // the operator is known; false if only value_info describes the outputs
	Random  bool    // its result differs from run to run, or it has an effect
	Views   []Alias // outputs that are views of an input
	Inplace []Alias // outputs that may overwrite an input that dies there
	// Ranges are bytes of outputs that are bytes of inputs, in the order of the outputs'
	// bytes. A planner may let such bytes share memory, as those of views do.
	Ranges []SubRange
	Call   *Call // the instance of a local function that the node calls
	FLOPs  int64 // floating-point operations; 0 if there are none or the number is unknown
}

// Alias relates an output of a node to one of its inputs, by position.
type Alias struct{ Out, In int }

// SubRange says that the bytes [At, At+Bytes) of an output are the bytes [From,
// From+Bytes) of an input; both are given by position.
type SubRange struct {
	Out, In         int
	At, From, Bytes int64
}

// Call is a local function with the types of one call. Calls with the same types
// share one instance.
type Call struct {
	Function *Function
	Body     *Graph
}

// Attr returns the attribute with that name, nil if there is none.
func (n *Node) Attr(name string) *Attr {
	for _, a := range n.Attrs {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Prop returns the value of a metadata entry of the node.
func (n *Node) Prop(key string) (string, bool) { return findProp(n.Props, key) }

// SetProp sets a metadata entry of the node.
func (n *Node) SetProp(key, value string) { n.Props = setProp(n.Props, key, value) }

// DropProp removes all metadata entries of the node with that key.
func (n *Node) DropProp(key string) { n.Props = dropProp(n.Props, key) }

// All returns the graphs of the attribute: one, or those of a list.
func (a *Attr) All() []*Graph {
	if a.Graph == nil {
		return a.Graphs
	}
	return append(a.Graphs[:len(a.Graphs):len(a.Graphs)], a.Graph)
}

// Bodies returns the attributes of n that hold graphs, in order.
func (n *Node) Bodies() []*Attr {
	var bodies []*Attr
	for _, a := range n.Attrs {
		if a.Graph != nil || len(a.Graphs) > 0 {
			bodies = append(bodies, a)
		}
	}
	return bodies
}

// OpName is the operator with its domain, in the form of messages.
func (n *Node) OpName() string {
	if n.Domain == "" {
		return n.Op
	}
	return n.Op + ", " + n.Domain
}

// Tensor is a value.
type Tensor struct {
	Name string

	// Link sets these from the graph's nodes, Inputs and Outputs.
	Readers []NodeID // nodes that read it, directly or in bodies; ascending, without duplicates
	Out     int      // index among the outputs of Maker
	Maker   NodeID   // the node that makes it, None for inputs, initializers and captures
	Input   bool     // a graph input
	Output  bool     // a graph output

	Capture bool // of an outer scope
	// Overridable: the tensor is an initializer that the graph also lists as an
	// input, so that a caller may give other elements (since IR version 4).
	Overridable bool
	// Origin is what the exporter says about an initializer, in the metadata of its value_info
	// and of the graph.
	Origin Origin
	// Bounded: the size is known only when the model runs, and is at most Bytes.
	Bounded bool

	Data     *Data     // the elements, for an initializer
	Declared *Declared // the declared type (input, output, value_info), nil if there is none

	// Type is the inferred type; the zero Type if it is not known.
	Type Type
	// Dynamic is the reason why the size is not known before the model runs; ""
	// for tensors that can be planned.
	Dynamic string
	// Bytes is the size of the elements; if Bounded, the largest possible size. 0
	// for a dynamic tensor.
	Bytes int64
}

// Origin says what a tensor was in the module from which a file was exported.
type Origin uint8

// The origins of initializers.
const (
	OriginUnknown   Origin = iota // the file does not say
	OriginParameter               // a parameter, or computed from parameters
	OriginBuffer                  // a buffer, such as running statistics or a table of sines, or computed from buffers
	OriginConstant                // a constant of the module's or the exporter's own
)

// Initializer reports whether the file has the tensor's elements.
func (t *Tensor) Initializer() bool { return t.Data != nil }

// AttrType says which field of an attribute holds its value, with ONNX's numbers.
type AttrType int32

// The kinds of attributes, numbered as AttributeProto.AttributeType.
const (
	AttrUndefined     AttrType = 0
	AttrFloat         AttrType = 1
	AttrInt           AttrType = 2
	AttrString        AttrType = 3
	AttrTensor        AttrType = 4
	AttrGraph         AttrType = 5
	AttrFloats        AttrType = 6
	AttrInts          AttrType = 7
	AttrStrings       AttrType = 8
	AttrTensors       AttrType = 9
	AttrGraphs        AttrType = 10
	AttrSparseTensor  AttrType = 11
	AttrSparseTensors AttrType = 12
	AttrTypeProto     AttrType = 13
	AttrTypeProtos    AttrType = 14
)

// Attr is an attribute of a node.
type Attr struct {
	Name    string
	Type    AttrType
	Ref     string // inside a function body: name of the function's attribute that gives the value
	Float   float32
	Int     int64
	String  string
	Floats  []float32
	Ints    []int64
	Strings []string
	Tensor  *Data
	Tensors []*Data
	Sparse  *Sparse
	Graph   *Graph
	Graphs  []*Graph
	TypeOf  *Declared // a type_proto

	Span Span
}

// Label is the name of node i of g in messages: its name, or else its index.
func (g *Graph) Label(i NodeID) string {
	n := g.Nodes[i]
	if n.Name == "" {
		return fmt.Sprintf("node %d (%s)", i, n.OpName())
	}
	return fmt.Sprintf("node %q (%s)", Short(n.Name), n.OpName())
}

// Short shortens a long name, for messages that quote it.
func Short(s string) string { return printable.Cut(s) }

// AtLengths lists lengths of dimensions for a message, by name: batch=1, time=4.
func AtLengths(dims map[string]int64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		list = append(list, fmt.Sprintf("%s=%d", Short(name), dims[name]))
	}
	return strings.Join(list, ", ")
}

func findProp(props []Prop, key string) (string, bool) {
	for _, p := range props {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

// setProp keeps only the first entry with that key.
func setProp(props []Prop, key, value string) []Prop {
	i := slices.IndexFunc(props, func(p Prop) bool { return p.Key == key })
	if i < 0 {
		return append(props, Prop{key, value})
	}
	props[i].Value = value
	return append(props[:i+1], dropProp(props[i+1:], key)...)
}

func dropProp(props []Prop, key string) []Prop {
	return slices.DeleteFunc(props, func(p Prop) bool { return p.Key == key })
}
