package randmodel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Network is a random network of all kinds of nodes.
type Network struct {
	Model *graph.Model
	Dims  map[string]int64 // a length for each symbolic dimension
	// Decoder reports whether the network has caches of keys and values that grow.
	Decoder bool
}

// Draw makes a network from a seed: some blocks of nodes, such as convolutions, pools,
// norms, attention, quantized pairs, recurrent nodes and bodies, in an opset from 7 on.
// Tensors are small. Equal seeds make equal networks.
func Draw(seed uint64) *Network {
	r := rand.New(rand.NewPCG(seed, 2))
	d := &drawing{r: r, dims: map[string]int64{}, opset: opsets[r.IntN(len(opsets))]}
	d.m = &graph.Model{IRVersion: 10, Producer: "onnxmem", Graph: &graph.Graph{Name: "drawn"}}
	if d.opset < 9 {
		d.m.IRVersion = 4
	}
	d.microsoft = r.IntN(3) > 0
	s := &scope{drawing: d, g: d.m.Graph, inner: map[graph.TensorID]graph.TensorID{}}
	s.network()
	d.m.Opsets = []graph.Opset{{Version: d.opset}}
	if d.microsoft {
		d.m.Opsets = append(d.m.Opsets, graph.Opset{Domain: microsoft, Version: 1})
	}
	d.m.Graph.Link()
	if err := graph.Check(d.m); err != nil {
		panic(fmt.Sprintf("seed %d: %v", seed, err))
	}
	return &Network{Model: d.m, Dims: d.dims}
}

// opsets are the versions of ai.onnx that are drawn.
var opsets = []int64{7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 19, 20, 21, 22}

const microsoft = "com.microsoft"

// drawing is a network that is being drawn.
type drawing struct {
	r         *rand.Rand
	m         *graph.Model
	opset     int64
	microsoft bool // contrib operators are drawn, too
	dims      map[string]int64
	count     int // of names
	depth     int // of bodies
}

// scope is a graph that is being drawn, the main graph or a body.
type scope struct {
	*drawing
	g     *graph.Graph
	outer *scope
	inner map[graph.TensorID]graph.TensorID // captures, by the tensor of the outer scope
	all   []value
}

// value is a tensor that nodes may read.
type value struct {
	of    *scope
	id    graph.TensorID
	elem  graph.DType
	shape []int64
	// symbols are the names of the lengths that are not fixed; "" elsewhere. Equal names
	// are equal lengths.
	symbols []string
}

func (v value) rank() int { return len(v.shape) }

func (v value) free(axis int) bool { return v.symbols[axis] != "" }

func (v value) anyFree() bool {
	return slices.ContainsFunc(v.symbols, func(s string) bool { return s != "" })
}

func (v value) elements() int64 { return product(v.shape) }

func (v value) is(shape []int64, symbols []string) bool {
	return slices.Equal(v.shape, shape) && slices.Equal(v.symbols, symbols)
}

// with is v with another length of an axis, which is fixed then.
func (v value) with(axis int, length int64) ([]int64, []string) {
	shape, symbols := slices.Clone(v.shape), slices.Clone(v.symbols)
	shape[axis], symbols[axis] = length, ""
	return shape, symbols
}

func product(list []int64) int64 {
	n := int64(1)
	for _, v := range list {
		n *= v
	}
	return n
}

// one reports true in one of n cases.
func (d *drawing) one(n int) bool { return d.r.IntN(n) == 0 }

func (d *drawing) between(low, high int64) int64 { return low + d.r.Int64N(high-low+1) }

func choose[T any](d *drawing, list ...T) T { return list[d.r.IntN(len(list))] }

func (d *drawing) name(prefix string) string {
	d.count++
	return fmt.Sprintf("%s%d", prefix, d.count)
}

// typed returns the declared type of a value, with its symbols.
func typed(elem graph.DType, shape []int64, symbols []string) *graph.Declared {
	var dims []graph.Dim
	for i, n := range shape {
		if i < len(symbols) && symbols[i] != "" {
			n = int64(graph.Unknown)
		}
		dims = append(dims, graph.Dim(n))
	}
	all := make([]string, len(shape))
	copy(all, symbols)
	return &graph.Declared{Type: graph.TensorOf(elem, dims...), Symbols: all}
}

// input adds an input of the scope's graph.
func (s *scope) input(name string, elem graph.DType, shape []int64, symbols []string) value {
	if symbols == nil {
		symbols = make([]string, len(shape))
	}
	id := s.g.NewTensor(s.name(name))
	s.g.Tensors[id].Declared = typed(elem, shape, symbols)
	s.g.Inputs = append(s.g.Inputs, id)
	return value{s, id, elem, shape, symbols}
}

// output makes v an output of the scope's graph, or in a body that has it as an output already
// a copy, since ONNX Runtime sets one of the two alone.
func (s *scope) output(v value) {
	id := s.use(v)
	if s.outer != nil && slices.Contains(s.g.Outputs, id) {
		v = s.hidden("", "Identity", nil, []value{v}, v.like())[0]
		id = v.id
	}
	t := s.g.Tensors[id]
	if t.Declared == nil && !t.Capture {
		t.Declared = typed(v.elem, v.shape, v.symbols)
	}
	s.g.Outputs = append(s.g.Outputs, id)
}

// use returns the tensor of v in this scope, which captures it if it is another's.
func (s *scope) use(v value) graph.TensorID {
	if v.of == s {
		return v.id
	}
	outer := s.outer.use(v)
	id, ok := s.inner[outer]
	if !ok {
		id = s.g.NewTensor(s.outer.g.Tensors[outer].Name)
		s.g.Tensors[id].Capture = true
		s.g.Captures = append(s.g.Captures, graph.Capture{Inner: id, Outer: outer})
		s.inner[outer] = id
	}
	return id
}

// result is the type of an output of a node; the zero result leaves it out.
type result struct {
	elem    graph.DType
	shape   []int64
	symbols []string
}

func (v value) like() result { return result{v.elem, v.shape, v.symbols} }

// left is an optional input that is left out.
var left = value{id: graph.None}

// node adds a node and returns its outputs. They become values that later nodes read.
func (s *scope) node(domain, op string, attrs []*graph.Attr, inputs []value, results ...result) []value {
	list := s.hidden(domain, op, attrs, inputs, results...)
	s.all = append(s.all, list...)
	return list
}

// hidden is node, but later nodes do not find the outputs.
func (s *scope) hidden(domain, op string, attrs []*graph.Attr, inputs []value, results ...result) []value {
	n := &graph.Node{Domain: domain, Op: op, Name: s.name("n"), Attrs: attrs}
	for _, v := range inputs {
		if v.id == graph.None {
			n.Inputs = append(n.Inputs, graph.None)
		} else {
			n.Inputs = append(n.Inputs, s.use(v))
		}
	}
	var list []value
	for _, r := range results {
		if r.elem == 0 { // an output that is left out
			n.Outputs = append(n.Outputs, graph.None)
			continue
		}
		if r.symbols == nil {
			r.symbols = make([]string, len(r.shape))
		}
		id := s.g.NewTensor(s.name("t"))
		n.Outputs = append(n.Outputs, id)
		list = append(list, value{s, id, r.elem, r.shape, r.symbols})
	}
	n.SetCaptures()
	s.g.Nodes = append(s.g.Nodes, n)
	return list
}

// unary adds a node of ai.onnx whose output is like its first input.
func (s *scope) unary(op string, attrs []*graph.Attr, inputs ...value) value {
	return s.node("", op, attrs, inputs, inputs[0].like())[0]
}

// attrs are attributes, in pairs of a name and an int, ints, float or string.
func attrs(list ...any) []*graph.Attr {
	var out []*graph.Attr
	for i := 0; i < len(list); i += 2 {
		a := &graph.Attr{Name: list[i].(string)}
		switch v := list[i+1].(type) {
		case int:
			a.Type, a.Int = graph.AttrInt, int64(v)
		case int64:
			a.Type, a.Int = graph.AttrInt, v
		case float64:
			a.Type, a.Float = graph.AttrFloat, float32(v)
		case string:
			a.Type, a.String = graph.AttrString, v
		case []int64:
			a.Type, a.Ints = graph.AttrInts, v
		case []string:
			a.Type, a.Strings = graph.AttrStrings, v
		case *graph.Graph:
			a.Type, a.Graph = graph.AttrGraph, v
		case *graph.Data:
			a.Type, a.Tensor = graph.AttrTensor, v
		default:
			panic(fmt.Sprintf("attribute %s: %T", a.Name, v))
		}
		out = append(out, a)
	}
	return out
}

// pick draws a value that fits, more often one of the last.
func (s *scope) pick(fits func(value) bool) (value, bool) {
	var list []value
	for at := s; at != nil; at = at.outer {
		for _, v := range slices.Backward(at.all) {
			if fits(v) {
				list = append(list, v)
			}
		}
	}
	if len(list) == 0 {
		return value{}, false
	}
	if len(list) > 2 && s.r.IntN(3) > 0 {
		return list[s.r.IntN(2)], true
	}
	return list[s.r.IntN(len(list))], true
}

// float draws a float32 value of one of the ranks.
func (s *scope) float(ranks ...int) (value, bool) {
	return s.pick(func(v value) bool { return v.elem == graph.Float32 && slices.Contains(ranks, v.rank()) })
}

// data returns a tensor of drawn elements.
func (s *scope) data(elem graph.DType, shape []int64, element func() float64) *graph.Data {
	d := &graph.Data{Type: elem, Dims: shape}
	n := product(shape)
	for range n {
		x := element()
		switch elem {
		case graph.Float32:
			d.Raw = le32(d.Raw, math.Float32bits(float32(x)))
		case graph.Float64:
			d.Raw = le64(d.Raw, math.Float64bits(x))
		case graph.Int64:
			d.Raw = le64(d.Raw, uint64(int64(x)))
		case graph.Int32:
			d.Raw = le32(d.Raw, uint32(int32(x)))
		case graph.Uint8, graph.Bool:
			d.Raw = append(d.Raw, uint8(x))
		case graph.Int8:
			d.Raw = append(d.Raw, uint8(int8(x)))
		default:
			panic(fmt.Sprint("no elements of ", elem))
		}
	}
	d.Bytes = int64(len(d.Raw))
	return d
}

func le32(b []byte, v uint32) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
}

func le64(b []byte, v uint64) []byte { return le32(le32(b, uint32(v)), uint32(v>>32)) }

// constant adds an initializer: of the main graph, or sometimes of the body.
func (s *scope) constant(d *graph.Data) value {
	at := s
	for at.outer != nil && (s.opset < 9 || !s.one(3)) {
		at = at.outer
	}
	d.Name = s.name("c")
	id := at.g.NewTensor(d.Name)
	at.g.Tensors[id].Data = d
	return value{at, id, d.Type, d.Dims, make([]string, len(d.Dims))}
}

// list adds an initializer of int64.
func (s *scope) list(elements ...int64) value {
	i := -1
	return s.constant(s.data(graph.Int64, []int64{int64(len(elements))}, func() float64 { i++; return float64(elements[i]) }))
}

// scalar adds an initializer of one element and no axis.
func (s *scope) scalar(elem graph.DType, x float64) value {
	return s.constant(s.data(elem, []int64{}, func() float64 { return x }))
}

// floats adds an initializer of float32 around a mean.
func (s *scope) floats(mean, spread float64, shape ...int64) value {
	return s.constant(s.data(graph.Float32, shape, func() float64 { return mean + spread*s.r.NormFloat64() }))
}

// weight returns a weight with the given number of terms in each sum. Most are
// initializers; some are computed from initializers, which may be folded, or are inputs of
// the model.
func (s *scope) weight(terms int64, shape ...int64) value {
	spread := 1 / math.Sqrt(float64(max(terms, 1)))
	switch s.r.IntN(14) {
	case 0:
		a, b := s.floats(1, 0.2, shape...), s.floats(0, spread, shape...)
		return s.hidden("", "Mul", nil, []value{a, b}, b.like())[0]
	case 1:
		back := slices.Clone(shape)
		slices.Reverse(back)
		perm := make([]int64, len(shape))
		for i := range perm {
			perm[i] = int64(len(shape) - 1 - i)
		}
		w := s.floats(0, spread, back...)
		return s.hidden("", "Transpose", attrs("perm", perm), []value{w}, result{w.elem, shape, nil})[0]
	case 2:
		d := s.data(graph.Float32, shape, func() float64 { return spread * s.r.NormFloat64() })
		return s.hidden("", "Constant", attrs("value", d), nil, result{graph.Float32, shape, nil})[0]
	case 3:
		return s.main().input("w", graph.Float32, shape, nil)
	case 4:
		w := s.floats(0, spread, product(shape))
		return s.hidden("", "Reshape", nil, []value{w, s.list(shape...)}, result{w.elem, shape, nil})[0]
	}
	return s.floats(0, spread, shape...)
}

func (s *scope) main() *scope {
	for s.outer != nil {
		s = s.outer
	}
	return s
}

// most is the largest number of elements of a tensor.
const most = 6000

// network draws the main graph.
func (s *scope) network() {
	var free string
	if s.one(3) {
		free = "batch"
		s.dims[free] = s.between(1, 4)
	}
	batch := s.between(1, 3)
	if free != "" {
		batch = s.dims[free]
	}
	styles := 1 + s.r.IntN(2)
	for range styles {
		s.start(batch, free)
	}
	blocks := 2 + s.r.IntN(10)
	if s.one(6) {
		blocks += s.r.IntN(20)
	}
	for range blocks {
		s.block()
	}
	if s.one(8) { // an input that nobody reads
		s.input("unread", graph.Float32, []int64{s.between(1, 40)}, nil)
	}
	s.outputs()
}

// start adds an input of the network.
func (s *scope) start(batch int64, free string) {
	var v value
	shape := []int64{batch}
	switch s.r.IntN(8) {
	case 0, 1, 2, 3:
		shape = append(shape, s.between(1, 8), s.between(3, 12), s.between(3, 12))
	case 4:
		shape = append(shape, choose(s.drawing, 4, 6, 8, int64(12), 16))
	case 5:
		shape = append(shape, s.between(1, 4), s.between(2, 5), s.between(2, 5), s.between(2, 5))
	default:
		shape = append(shape, s.between(2, 9), choose(s.drawing, 4, 6, 8, int64(12)))
	}
	symbols := make([]string, len(shape))
	symbols[0] = free
	if len(shape) == 3 && s.one(4) {
		symbols[1] = "length"
		if n, ok := s.dims["length"]; ok {
			shape[1] = n
		}
		s.dims["length"] = shape[1]
		if s.one(2) { // of ids
			ids := s.input("ids", graph.Int64, shape[:2], symbols[:2])
			table := s.floats(0, 1, 5, shape[2])
			s.node("", "Gather", nil, []value{table, ids}, result{graph.Float32, shape, symbols})
			return
		}
	}
	v = s.input("x", graph.Float32, shape, symbols)
	s.all = append(s.all, v)
}

// block adds some nodes.
func (s *scope) block() {
	for range 8 { // until one fits
		b := &blocks[s.r.IntN(len(blocks))]
		if s.opset >= b.since && (!b.microsoft || s.microsoft) && (b.weight >= 4 || s.one(4/b.weight)) && b.add(s) {
			return
		}
	}
}

// block is one kind of block.
type block struct {
	weight    int // 1 to 4: how often it is drawn
	since     int64
	microsoft bool
	add       func(s *scope) bool // false if no value fits
}

var blocks []block

func init() { // bodies have blocks, too
	blocks = slices.Concat(elementwise, images, matrices, moves, sequences, quantized, bodies)
}

// outputs makes outputs of what nobody reads, and sometimes of other values.
func (s *scope) outputs() {
	s.g.Link()
	before := len(s.g.Outputs)
	for _, v := range s.all {
		t := s.g.Tensors[v.id]
		switch {
		case t.Maker < 0: // an input
			if s.one(25) {
				s.output(v)
			}
		case len(t.Readers) == 0 && s.r.IntN(10) > 0, s.one(15):
			s.output(v)
		}
	}
	if len(s.g.Outputs) == before {
		for _, v := range slices.Backward(s.all) {
			if s.g.Tensors[v.id].Maker >= 0 || v.of.outer == nil {
				s.output(v)
				return
			}
		}
	}
}
