// Package graph holds a neural network as a graph of nodes and tensors, as
// ONNX describes it, in a form that passes can work on.
//
//	Model    one file: opset imports, the main Graph, local Functions, metadata
//	Graph    nodes and tensors of one scope; bodies of If, Loop and Scan are Graphs too
//	Node     one operator invocation
//	Tensor   a value: a graph input, an initializer, or one output of one node
//	Type     what a tensor is: dtype and shape, or a sequence, optional or map
//	Dim      one axis: exact, bounded, or unknown before the data are there
//	Data     the elements of an initializer or of a tensor attribute
//
// Nodes and tensors are known by dense indices (NodeID, TensorID) into
// Graph.Nodes and Graph.Tensors. A thing that was read from a file keeps the
// Span of the bytes it came from, so that a writer can copy it untouched.
package graph

import (
	"fmt"
	"os"
	"slices"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// NodeID is an index into Graph.Nodes.
type NodeID int32

// TensorID is an index into Graph.Tensors.
type TensorID int32

// None stands for "no node" and "no tensor": an optional input or output left
// out, or the maker of a tensor that no node makes.
const None = -1

// Span is a run of bytes of the file a thing was read from. The zero Span
// means that the thing was not read from a file.
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

// Source is the file a model was read from: its name for messages, its folder
// for external data, and its bytes, usually a read-only mapping.
type Source struct {
	Name  string // as the user wrote it
	Dir   string // folder that external data are looked for in
	Bytes []byte
	File  *os.File // nil when the bytes came from elsewhere (standard input)

	// Check fails if the file is no longer as it was when it was mapped; nil
	// where nothing is mapped.
	Check func() error
}

// Unchanged fails, with an error of type *Error, if the file was cut or written
// since it was mapped: what was read from it may be wrong.
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

	Source *Source // nil for a model that was built in memory
}

// Opset gives the version of domain that the model imports, 0 if it imports none.
func (m *Model) Opset(domain string) int64 { return FindOpset(m.Opsets, domain) }

// FindOpset gives the version that opsets hold for domain, 0 if they hold none.
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

// SetProp sets a metadata entry of the model, keeping the place of an old one.
func (m *Model) SetProp(key, value string) { m.Props = setProp(m.Props, key, value) }

// Function is a model-local function. Its body is a Graph whose inputs have
// no types: they are those of each call.
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

	Inputs  []TensorID // in the file's order; initializers that are listed as inputs too are left out
	Outputs []TensorID // in the file's order; one tensor may stand twice

	// Captures lists what a body reads from the scope around it.
	Captures []Capture

	Span Span
}

// Capture is a tensor of an outer scope as a body sees it.
type Capture struct {
	Inner TensorID // in this graph
	Outer TensorID // in the graph around it
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

	// Captures are the tensors of this graph that the node's bodies read
	// from outside. They count as inputs. Ascending, each once.
	Captures []TensorID

	// Semantics is set by shape inference (package ops).
	Semantics Semantics

	Span Span
}

// Semantics is what inference knows about a node besides the types of its outputs.
type Semantics struct {
	Known   bool    // the operator is known; false when only value_info described it
	Random  bool    // its result differs from run to run, or it has an effect
	Views   []Alias // outputs that are an input with another shape
	Inplace []Alias // outputs that may be written over an input that the node is the last to read
	Call    *Call   // the instance of a local function that the node calls
	FLOPs   int64   // floating-point operations; 0: none, or not known
}

// Alias relates an output of a node to one of its inputs, by position.
type Alias struct{ Out, In int }

// Call is a local function with the types of one call put in. Calls with the
// same types share one instance.
type Call struct {
	Function *Function
	Body     *Graph
}

// Attr gives the attribute of that name, nil if there is none.
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

// DropProp removes a metadata entry of the node, however often it stands there.
func (n *Node) DropProp(key string) { n.Props = dropProp(n.Props, key) }

// All gives the graphs that the attribute holds: those of a list, or the one.
func (a *Attr) All() []*Graph {
	if a.Graph == nil {
		return a.Graphs
	}
	return append(a.Graphs[:len(a.Graphs):len(a.Graphs)], a.Graph)
}

// Bodies gives the attributes of n that hold graphs, in order.
func (n *Node) Bodies() []*Attr {
	var bodies []*Attr
	for _, a := range n.Attrs {
		if a.Graph != nil || len(a.Graphs) > 0 {
			bodies = append(bodies, a)
		}
	}
	return bodies
}

// OpName is the operator with its domain, as messages show it.
func (n *Node) OpName() string {
	if n.Domain == "" {
		return n.Op
	}
	return n.Op + ", " + n.Domain
}

// Tensor is a value.
type Tensor struct {
	Name string

	// Link fills these in from the graph's nodes, Inputs and Outputs.
	Maker   NodeID   // the node that makes it, None for inputs, initializers and captures
	Out     int      // which output of Maker it is
	Readers []NodeID // nodes that read it, bodies included; ascending, each once
	Input   bool     // a graph input
	Output  bool     // a graph output

	Capture bool  // of an outer scope
	Data    *Data // the elements, for an initializer

	Declared *Declared // what the file says of it (input, output, value_info), nil if nothing

	// Type is what inference found. Its zero value is "not known".
	Type Type
	// Dynamic says why the tensor has no size before the data are there; ""
	// for all that can be planned.
	Dynamic string
	// Bytes is the size of its elements: of the largest it can have where
	// Bounded. 0 for a dynamic tensor.
	Bytes   int64
	Bounded bool
}

// Initializer reports whether the tensor's elements stand in the file.
func (t *Tensor) Initializer() bool { return t.Data != nil }

// AttrType says which of an attribute's fields holds its value, with ONNX's numbers.
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
	Ref     string // name of the function's attribute it stands for (inside a function body)
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

// Label is how messages name node i of g: by its name, else by its index.
func (g *Graph) Label(i NodeID) string {
	n := g.Nodes[i]
	if n.Name == "" {
		return fmt.Sprintf("node %d (%s)", i, n.OpName())
	}
	return fmt.Sprintf("node %q (%s)", Short(n.Name), n.OpName())
}

// Short cuts a name that would fill the screen. It is for names that are quoted.
func Short(s string) string { return printable.Cut(s) }

func findProp(props []Prop, key string) (string, bool) {
	for _, p := range props {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

// setProp keeps the first entry of that key only.
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
