package graph

import (
	"encoding/binary"
	"math"
	"strings"
)

// Builder builds a model by hand. Its methods add inputs, initializers and nodes
// in the order of the calls and return their tensors, which later calls may read:
//
//	b := graph.NewBuilder("net", 17)
//	x := b.Input("x", graph.TensorOf(graph.Float32, 1, 4))
//	w := b.Floats("w", []int64{4, 2}, make([]float32, 8))
//	b.Output(b.Node("MatMul", "y", x, w))
//	m, err := b.Model()
//
// A name that is already in use gets a number as suffix. Nothing is checked
// before [Builder.Model].
type Builder struct {
	model *Model
	taken names
}

// builtIR is the IR version of a model built by hand: the first that has
// everything that Builder writes, which all current runtimes accept.
const builtIR = 8

// NewBuilder begins a model of one graph, with the given version of ai.onnx.
func NewBuilder(name string, opset int64) *Builder {
	return &Builder{
		model: &Model{IRVersion: builtIR, Producer: "onnxmem", Opsets: []Opset{{Version: opset}}, Graph: &Graph{Name: name}},
		taken: names{},
	}
}

// Import adds another domain of operators, with its version.
func (b *Builder) Import(domain string, version int64) {
	b.model.Opsets = append(b.model.Opsets, Opset{Domain: domain, Version: version})
}

// Input adds a graph input. symbols name the axes whose length is [Unknown]; ""
// is an axis without a name, and trailing symbols may be left out.
func (b *Builder) Input(name string, t Type, symbols ...string) TensorID {
	id := b.tensor(name)
	b.Declare(id, t, symbols...)
	b.model.Graph.Inputs = append(b.model.Graph.Inputs, id)
	return id
}

// Initializer adds a tensor with the given elements. It sets the name and, for
// types of a fixed size, the bytes of d.
func (b *Builder) Initializer(name string, d *Data) TensorID {
	id := b.tensor(name)
	d.Name = b.model.Graph.Tensors[id].Name
	if bytes, err := d.Type.SizeBytes(d.Elements()); err == nil && d.Type.Bits() > 0 {
		d.Bytes = bytes
	}
	b.model.Graph.Tensors[id].Data = d
	return id
}

// Floats adds an initializer of float32 elements.
func (b *Builder) Floats(name string, dims []int64, elements []float32) TensorID {
	raw := make([]byte, 0, 4*len(elements))
	for _, v := range elements {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return b.Initializer(name, &Data{Type: Float32, Dims: dims, Raw: raw})
}

// Ints adds an initializer of int64 elements, such as a shape.
func (b *Builder) Ints(name string, dims []int64, elements []int64) TensorID {
	raw := make([]byte, 0, 8*len(elements))
	for _, v := range elements {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return b.Initializer(name, &Data{Type: Int64, Dims: dims, Raw: raw})
}

// Node adds a node with an operator of ai.onnx and one output. Both get the name;
// if name is "", the operator in lower case.
func (b *Builder) Node(op, name string, inputs ...TensorID) TensorID {
	if name == "" {
		name = strings.ToLower(op)
	}
	n := &Node{Op: op, Inputs: inputs}
	out := b.Add(n, name)[0]
	n.Name = b.model.Graph.Tensors[out].Name
	return out
}

// Add adds the node n with its domain and attributes and any number of outputs.
// The outputs are new tensors with the given names; "" leaves one out.
func (b *Builder) Add(n *Node, outputs ...string) []TensorID {
	n.Outputs = make([]TensorID, len(outputs))
	for k, name := range outputs {
		if n.Outputs[k] = None; name != "" {
			n.Outputs[k] = b.tensor(name)
		}
	}
	b.model.Graph.Nodes = append(b.model.Graph.Nodes, n)
	return n.Outputs
}

// Declare sets the declared type of a tensor, like value_info in a file: for
// outputs of operators that onnxmem does not know. See [Builder.Input] for
// symbols.
func (b *Builder) Declare(t TensorID, of Type, symbols ...string) {
	if g := b.model.Graph; g.has(t) {
		all := make([]string, max(len(of.Shape), len(symbols)))
		copy(all, symbols)
		g.Tensors[t].Declared = &Declared{Type: of, Symbols: all}
	}
}

// Output makes tensors graph outputs.
func (b *Builder) Output(tensors ...TensorID) {
	b.model.Graph.Outputs = append(b.model.Graph.Outputs, tensors...)
}

// Model links the graph and checks it; the error is that of [Check]. The builder
// must not be used afterwards.
func (b *Builder) Model() (*Model, error) {
	g := b.model.Graph
	c := checker{seen: map[any]bool{}}
	if err := c.parts(g); err != nil { // Link does not check indices
		return nil, err
	}
	for _, n := range g.Nodes {
		n.SetCaptures()
	}
	g.Link()
	if err := Check(b.model); err != nil {
		return nil, err
	}
	return b.model, nil
}

func (b *Builder) tensor(name string) TensorID {
	return b.model.Graph.NewTensor(b.taken.unique(name))
}
