package models

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// maxWeightBytes limits the weights of one model: protobuf lets runtimes load
// ONNX files of up to 2 GiB. The difference is for the graph.
const maxWeightBytes = 1<<31 - 16<<20

// builder builds one model. Its methods add nodes in the order of the calls and
// return their outputs. err keeps the first error; afterwards the returned values
// have no meaning, and Build discards them.
type builder struct {
	*state
	scope string // begins all names: "layer1.0."
}

// state is shared by the builders of all scopes of a model.
type state struct {
	g        *graph.Graph
	seed     uint64
	dims     []bound
	settings map[string]float64
	err      error

	names      map[string]int   // of tensors and nodes: how often it was asked for
	constants  map[string]value // by name, which describes the content
	carriers   map[int64]place  // of a symbolic length: the input that has it
	parameters int64            // elements of trainable weights
	bytes      int64            // of all weights
}

// value is a tensor and its shape. A negative length is symbolic: -1-i is
// dimension i of the network.
type value struct {
	id    graph.TensorID
	shape []int64
}

// place is an axis of a value.
type place struct {
	of   value
	axis int
}

func newBuilder(name string, seed uint64) *builder {
	return &builder{state: &state{
		g:         &graph.Graph{Name: name},
		seed:      seed,
		names:     map[string]int{},
		constants: map[string]value{},
		carriers:  map[int64]place{},
	}}
}

// model returns the finished model.
func (b *builder) model() *graph.Model {
	b.g.Link()
	return &graph.Model{
		IRVersion: 8,
		Producer:  "onnxmem",
		Opsets:    []graph.Opset{{Version: 17}},
		Graph:     b.g,
	}
}

// in returns a builder whose names begin with one more part: in("layer%d", 1).
func (b *builder) in(format string, args ...any) *builder {
	return &builder{b.state, b.scope + fmt.Sprintf(format, args...) + "."}
}

// fail keeps the first error.
func (b *builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// whole returns the value of an integer setting.
func (b *builder) whole(setting string) int64 { return int64(b.real(setting)) }

// real returns the value of a setting.
func (b *builder) real(setting string) float64 {
	v, ok := b.settings[setting]
	if !ok {
		panic("models: " + b.g.Name + " has no setting " + setting)
	}
	return v
}

// dim is a dimension of the network as shapes hold it: its length, or negative
// if it is symbolic.
func (b *builder) dim(name string) int64 {
	for i, d := range b.dims {
		switch {
		case d.name != name:
		case d.length == 0:
			return int64(-1 - i)
		default:
			return d.length
		}
	}
	panic("models: " + b.g.Name + " has no dimension " + name)
}

// input adds a graph input.
func (b *builder) input(name string, elem graph.DType, shape ...int64) value {
	v := b.tensor(b.unique(name), shape)
	b.g.Tensors[v.id].Declared = b.declared(elem, shape)
	b.g.Inputs = append(b.g.Inputs, v.id)
	for axis, n := range shape {
		if _, carried := b.carriers[n]; n < 0 && !carried {
			b.carriers[n] = place{v, axis}
		}
	}
	return v
}

// output makes a float32 value a graph output under that name.
func (b *builder) output(name string, v value) {
	t := b.g.Tensors[v.id]
	t.Name, t.Declared = name, b.declared(graph.Float32, v.shape)
	b.g.Outputs = append(b.g.Outputs, v.id)
}

// declared returns a type in declared form.
func (b *builder) declared(elem graph.DType, shape []int64) *graph.Declared {
	d := &graph.Declared{Type: graph.TensorOf(elem), Symbols: make([]string, len(shape))}
	for i, n := range shape {
		if n < 0 {
			d.Symbols[i] = b.dims[-1-n].name
			n = int64(graph.Unknown)
		}
		d.Type.Shape = append(d.Type.Shape, graph.Dim(n))
	}
	return d
}

// node adds a node and its one output, both named scope+name, and numbered
// where that name is taken.
func (b *builder) node(op, name string, shape []int64, attrs []*graph.Attr, inputs ...value) value {
	name = b.unique(b.scope + name)
	out := b.tensor(name, shape)
	n := &graph.Node{Name: name, Op: op, Attrs: attrs, Outputs: []graph.TensorID{out.id}}
	for _, v := range inputs {
		n.Inputs = append(n.Inputs, v.id)
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return out
}

// weight adds a trainable weight named scope+name.
func (b *builder) weight(name string, init initializer, f fan, shape ...int64) value {
	v := b.untrained(name, init, f, shape...)
	b.parameters += elements(shape)
	return v
}

// untrained adds a weight that training does not change by gradients.
func (b *builder) untrained(name string, init initializer, f fan, shape ...int64) value {
	name = b.unique(b.scope + name)
	return b.stored(name, shape, stream(b.seed, name, elements(shape), init(f)))
}

// stored adds a float32 initializer whose elements are generated when the file
// is written.
func (b *builder) stored(name string, shape []int64, generate func(io.Writer) error) value {
	n := elements(shape)
	if b.bytes += 4 * n; b.bytes > maxWeightBytes {
		b.fail("the weights up to %q take %d bytes, expected at most %d, which one ONNX file can hold: choose smaller settings", name, b.bytes, int64(maxWeightBytes))
	}
	v := b.tensor(name, shape)
	b.g.Tensors[v.id].Data = &graph.Data{Name: name, Type: graph.Float32, Dims: shape, Bytes: 4 * n, Generate: generate}
	return v
}

// ints is a constant list of integers; the same list is stored once.
func (b *builder) ints(list ...int64) value {
	return b.constant("ints["+join(list)+"]", graph.Data{Type: graph.Int64, Dims: []int64{int64(len(list))}, Ints: list, Bytes: 8 * int64(len(list))})
}

// index is a constant integer without axes.
func (b *builder) index(i int64) value {
	return b.constant(fmt.Sprintf("index[%d]", i), graph.Data{Type: graph.Int64, Ints: []int64{i}, Bytes: 8})
}

// scalar is a constant number without axes.
func (b *builder) scalar(v float64) value {
	return b.constant(fmt.Sprintf("scalar[%g]", float32(v)), graph.Data{Type: graph.Float32, Floats: []float64{v}, Bytes: 4})
}

func (b *builder) constant(name string, d graph.Data) value {
	v, ok := b.constants[name]
	if !ok {
		v = b.tensor(b.unique(name), d.Dims)
		d.Name = name
		b.g.Tensors[v.id].Data = &d
		b.constants[name] = v
	}
	return v
}

func (b *builder) tensor(name string, shape []int64) value {
	return value{b.g.NewTensor(name), shape}
}

// unique is name, numbered from its second use on.
func (b *builder) unique(name string) string {
	k := b.names[name]
	b.names[name]++
	if k == 0 {
		return name
	}
	return b.unique(name + "_" + strconv.Itoa(k))
}

// elements is the product of the known lengths. Each is limited by its setting; a
// product larger than any stored tensor is capped.
func elements(shape []int64) int64 {
	const most = 1 << 40
	n := int64(1)
	for _, d := range shape {
		if d > most/n {
			return most
		}
		n *= d
	}
	return n
}

func join(list []int64) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(parts, ",")
}

func attrInt(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}

func attrInts(name string, v []int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
}

func attrFloat(name string, v float32) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrFloat, Float: v}
}

func list(a ...*graph.Attr) []*graph.Attr { return a }
