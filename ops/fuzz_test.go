package ops

import (
	"bytes"
	"flag"
	"math"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/graph"
)

// FuzzInfer draws models from bytes: any operator with any inputs, attributes and
// bodies. Infer may refuse them, but never panics, and needs little time and memory.
func FuzzInfer(f *testing.F) {
	f.Add([]byte{})
	for i := range 16 {
		// The operators with bodies, and long runs of mixed bytes.
		f.Add(bytes.Repeat([]byte{byte(i), byte(i * 7), 3, byte(i * 31), 1, 0, byte(i * 13)}, 60))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 2000 {
			return
		}
		m := (&drawn{b: b}).model()
		before := allocated()
		if flag.Lookup("test.fuzz").Value.String() != "" { // a fuzzer has no limit as go test has: it would wait forever
			defer time.AfterFunc(time.Minute, func() { panic("Infer does not return") }).Stop()
		}
		inf := newInferrer(m, Options{})
		_ = inf.run()
		// The body that exceeds a limit is counted.
		if most := sizeOf(m.Graph) + 10_000; inf.visits > maxVisits+most || inf.cloned > maxCloned+most {
			t.Errorf("%d visits, %d clones: a limit does not end the inference", inf.visits, inf.cloned)
		}
		if grew := allocated() - before; grew > 2<<30 {
			t.Errorf("%d bytes were allocated", grew)
		}
	})
}

// allocated returns the number of bytes that the process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// drawn reads decisions from bytes; after the last byte, every decision is 0.
type drawn struct {
	b      []byte
	nodes  int
	within string // the function whose body is drawn
}

func (d *drawn) next(n int) int {
	if n <= 1 || len(d.b) == 0 {
		return 0
	}
	v := int(d.b[0])
	d.b = d.b[1:]
	if n > 256 && len(d.b) > 0 {
		v = v<<8 | int(d.b[0])
		d.b = d.b[1:]
	}
	return v % n
}

var (
	drawnLengths = []int64{0, 1, 2, 3, 4, 5, 8, 64, -1, -2, 1 << 20, 1 << 31, 1 << 40, 1 << 62, math.MaxInt64, math.MinInt64}
	drawnTypes   = []graph.DType{graph.Float32, graph.Int64, graph.Bool, graph.String, graph.Int32, graph.Float16, graph.Uint8, graph.Int4}
	drawnNames   = []string{
		"axis", "axes", "keepdims", "to", "perm", "pads", "strides", "kernel_shape", "num_scan_inputs", "scan_input_axes",
		"scan_output_axes", "new_axis", "dtype", "value", "shape", "split", "num_outputs", "group", "maxsplit", "ngram_indexes", "type",
		"equation", "mode", "hidden_size", "num_heads", "direction", "time", "allowzero", "start", "end", "k", "largest", "body", "then_branch",
	}
	// Operators that move shapes, with the inputs that they usually have.
	drawnFolds = []struct {
		name   string
		inputs int
	}{
		{"Shape", 1},
		{"Relu", 1},
		{"Identity", 1},
		{"Add", 2},
		{"Mul", 2},
		{"Concat", 2},
		{"Gather", 2},
		{"Slice", 3},
		{"Cast", 1},
		{"NonZero", 1},
		{"ConstantOfShape", 1},
		{"Range", 3},
		{"Reshape", 2},
		{"Unsqueeze", 2},
		{"Expand", 2},
		{"Where", 3},
		{"If", 1},
		{"Loop", 3},
		{"Scan", 2},
		{"SequenceMap", 1},
		{"SequenceEmpty", 0},
		{"SequenceConstruct", 2},
		{"SequenceInsert", 2},
		{"SequenceAt", 2},
		{"SplitToSequence", 1},
		{"ConcatFromSequence", 1},
		{"SequenceLength", 1},
		{"f.F0", 1},
		{"f.F1", 1},
	}
	drawnOps = sync.OnceValue(func() []key {
		var list []key
		for _, domain := range []string{"", "com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training"} {
			for _, name := range Names(domain) {
				list = append(list, key{domain, name})
			}
		}
		return list
	})
)

func (d *drawn) model() *graph.Model {
	m := &graph.Model{Opsets: []graph.Opset{{Version: int64(1 + d.next(30))}, {Domain: "f", Version: 1}, {Domain: "com.microsoft", Version: 1}, {Domain: "ai.onnx.ml", Version: 5}}}
	for _, name := range []string{"F0", "F1"} {
		d.within = name
		m.Functions = append(m.Functions, &graph.Function{Domain: "f", Name: name, Opsets: m.Opsets, Body: d.graph(nil, 1+d.next(2), 1, 1)})
	}
	d.within = ""
	m.Graph = d.graph(nil, 1+d.next(4), 1+d.next(3), 0)
	return m
}

// graph draws a scope with the given numbers of inputs and outputs.
func (d *drawn) graph(outer *graph.Graph, ins, outs, depth int) *graph.Graph {
	g := &graph.Graph{}
	for range ins {
		id := g.NewTensor("in")
		g.Inputs = append(g.Inputs, id)
		g.Tensors[id].Input = true
		if depth == 0 || d.next(2) == 0 {
			g.Tensors[id].Declared = d.declared()
		}
	}
	for range 1 + d.next(3) {
		id := g.NewTensor("data")
		v := make([]int64, 1+d.next(3))
		for i := range v {
			v[i] = d.length()
		}
		data := &graph.Data{Type: graph.Int64, Dims: []int64{int64(len(v))}, Ints: v, Bytes: int64(8 * len(v))}
		if len(v) == 1 && d.next(2) == 0 {
			data.Dims = nil
			if d.next(2) == 0 {
				data.Type, data.Bytes = graph.Bool, 1
				v[0] &= 1
			}
		}
		g.Tensors[id].Data = data
	}
	if outer != nil {
		for range d.next(3) {
			if len(outer.Tensors) == 0 {
				break
			}
			id := g.NewTensor("captured")
			g.Tensors[id].Capture = true
			g.Captures = append(g.Captures, graph.Capture{Inner: id, Outer: graph.TensorID(d.next(len(outer.Tensors)))})
		}
	}
	for range 1 + d.next(8) {
		if d.nodes++; d.nodes > 60 || len(d.b) == 0 {
			break
		}
		d.node(g, depth)
	}
	for range outs {
		g.Outputs = append(g.Outputs, graph.TensorID(max(0, len(g.Tensors)-1-d.next(len(g.Tensors)))))
	}
	g.Link()
	return g
}

func (d *drawn) node(g *graph.Graph, depth int) {
	n := &graph.Node{}
	ins, outs, attrs := d.next(5), 1+d.next(3), d.next(4)
	if list := drawnOps(); d.next(6) == 0 {
		k := list[d.next(len(list))]
		n.Domain, n.Op = k.domain, k.name
	} else {
		k := drawnFolds[d.next(len(drawnFolds))]
		if n.Op = k.name; n.Op[0] == 'f' {
			n.Domain, n.Op = "f", n.Op[2:]
			if n.Op <= d.within && d.next(16) > 0 {
				n.Domain, n.Op = "", "Relu" // a function rarely calls itself
			}
		}
		if d.next(8) > 0 {
			ins, outs, attrs = k.inputs, 1, 0
		}
		switch n.Op {
		case "Concat", "ConcatFromSequence":
			n.Attrs = append(n.Attrs, attrInt("axis", 0))
		case "Cast":
			n.Attrs = append(n.Attrs, attrInt("to", 1+6*int64(d.next(2))))
		}
	}
	for range ins {
		t := graph.TensorID(len(g.Tensors) - 1 - d.next(len(g.Tensors)+d.next(8)/7))
		n.Inputs = append(n.Inputs, t) // graph.None at the end of the range
	}
	for range attrs {
		n.Attrs = append(n.Attrs, d.attr())
	}
	if depth < 4 {
		body := func(name string, ins, outs int) {
			n.Attrs = append(n.Attrs, &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: d.graph(g, ins, outs, depth+1)})
		}
		switch n.Op {
		case "If":
			body("then_branch", 0, outs)
			body("else_branch", 0, outs)
		case "Loop":
			body("body", max(2, len(n.Inputs)), 1+outs)
		case "Scan":
			body("body", len(n.Inputs), outs)
			n.Attrs = append(n.Attrs, attrInt("num_scan_inputs", 1+int64(d.next(3))))
		case "SequenceMap":
			body("body", len(n.Inputs), outs)
		}
	}
	for range outs {
		n.Outputs = append(n.Outputs, g.NewTensor("out"))
		if d.next(8) == 0 {
			g.Tensors[len(g.Tensors)-1].Declared = d.declared()
		}
	}
	n.SetCaptures()
	g.Nodes = append(g.Nodes, n)
}

func (d *drawn) declared() *graph.Declared {
	switch d.next(64) {
	case 60:
		return nil
	case 61, 62, 63:
		of := graph.TensorOf(drawnTypes[d.next(len(drawnTypes))])
		return &graph.Declared{Type: graph.Type{Kind: graph.KindSequence + graph.Kind(d.next(2)), Of: &of}}
	}
	shape := make([]graph.Dim, d.next(5))
	for i := range shape {
		shape[i] = max(graph.Unknown, graph.Dim(d.length()))
	}
	elem := graph.Float32
	if d.next(4) == 0 {
		elem = drawnTypes[d.next(len(drawnTypes))]
	}
	return &graph.Declared{Type: graph.TensorOf(elem, shape...), Symbols: make([]string, len(shape))}
}

// length draws a length: usually 1 to 3, sometimes absurd.
func (d *drawn) length() int64 {
	if d.next(6) > 0 {
		return int64(1 + d.next(3))
	}
	return drawnLengths[d.next(len(drawnLengths))]
}

func (d *drawn) attr() *graph.Attr {
	a := &graph.Attr{Name: drawnNames[d.next(len(drawnNames))], Type: graph.AttrType(d.next(15))}
	v := d.length()
	switch a.Type {
	case graph.AttrFloat:
		a.Float = float32(v)
	case graph.AttrInt:
		a.Int = v
	case graph.AttrString:
		a.String = "NOTSET"
	case graph.AttrTensor:
		a.Tensor = &graph.Data{Type: graph.Int64, Dims: []int64{1}, Ints: []int64{v}, Bytes: 8}
	case graph.AttrInts:
		a.Ints = slices.Repeat([]int64{v}, d.next(5))
	case graph.AttrFloats:
		a.Floats = []float32{float32(v)}
	case graph.AttrTypeProto:
		a.TypeOf = d.declared()
	default:
		if d.next(2) == 0 {
			a.Ref = "axis"
		}
	}
	return a
}

// TestDrawnModels infers a fixed sample of what the fuzzer draws.
func TestDrawnModels(t *testing.T) {
	seed := uint32(1)
	accepted, drawings := 0, 5000
	for range drawings {
		b := make([]byte, 100+seed%600)
		for i := range b {
			seed = seed*1664525 + 1013904223
			b[i] = byte(seed >> 24)
		}
		if _, err := Infer((&drawn{b: b}).model(), Options{}); err == nil {
			accepted++
		}
	}
	t.Logf("%d of %d models are accepted", accepted, drawings)
	if accepted < drawings/50 {
		t.Errorf("%d of %d models are accepted: too few to test much", accepted, drawings)
	}
}
