package vm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	onnxgo "github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend"
	"github.com/owulveryck/onnx-go/backend/testbackend"
	_ "github.com/owulveryck/onnx-go/backend/testbackend/onnx" // registers the tests
	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/simple"
	"gorgonia.org/tensor"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// bridge is a backend of onnx-go that runs a graph in a session. onnx-go's decoder builds
// the graph, vertex by vertex.
type bridge struct {
	list  []*vertex
	reads map[int64][]gonum.WeightedEdge
	nodes []*graph.Node
}

var _ backend.ComputationBackend = (*bridge)(nil)

// vertex is a tensor of onnx-go's graph.
type vertex struct {
	id   int64
	name string
	data tensor.Tensor
	made bool
}

func (v *vertex) ID() int64                { return v.id }
func (v *vertex) SetName(name string)      { v.name = name }
func (v *vertex) GetName() string          { return v.name }
func (v *vertex) GetTensor() tensor.Tensor { return v.data }

// SetTensor sets a tensor: first an empty one of the declared type, then its elements. The
// test bench stores integers as float32, so the first type counts.
func (v *vertex) SetTensor(d tensor.Tensor) error {
	if x, ok := d.Data().([]float32); ok && v.data != nil && v.data.Dtype() != d.Dtype() {
		to := v.data.Dtype().Type
		list := reflect.MakeSlice(reflect.SliceOf(to), 0, len(x))
		for _, f := range x {
			if !reflect.TypeOf(f).ConvertibleTo(to) {
				return fmt.Errorf("elements of type float32, declared %v", to)
			}
			list = reflect.Append(list, reflect.ValueOf(f).Convert(to))
		}
		d = tensor.New(tensor.WithShape(d.Shape()...), tensor.WithBacking(list.Interface()))
	}
	v.data = d
	return nil
}

func (b *bridge) NewNode() gonum.Node      { return &vertex{id: int64(len(b.list))} }
func (b *bridge) AddNode(n gonum.Node)     { b.list = append(b.list, n.(*vertex)) }
func (b *bridge) Node(id int64) gonum.Node { return b.list[id] }
func (b *bridge) NewWeightedEdge(from, to gonum.Node, w float64) gonum.WeightedEdge {
	return simple.WeightedEdge{F: from, T: to, W: w}
}

// SetWeightedEdge adds every edge: a node may read a tensor twice.
func (b *bridge) SetWeightedEdge(e gonum.WeightedEdge) {
	if b.reads == nil {
		b.reads = map[int64][]gonum.WeightedEdge{}
	}
	b.reads[e.From().ID()] = append(b.reads[e.From().ID()], e)
}

// The rest of the graph interface, which onnx-go's decoder does not use.

func (b *bridge) Nodes() gonum.Nodes { return iterator.NewOrderedNodes(nil) }

func (b *bridge) From(int64) gonum.Nodes { return iterator.NewOrderedNodes(nil) }

func (b *bridge) To(int64) gonum.Nodes                         { return iterator.NewOrderedNodes(nil) }
func (b *bridge) HasEdgeBetween(int64, int64) bool             { return false }
func (b *bridge) HasEdgeFromTo(int64, int64) bool              { return false }
func (b *bridge) Edge(int64, int64) gonum.Edge                 { return nil }
func (b *bridge) WeightedEdge(int64, int64) gonum.WeightedEdge { return nil }
func (b *bridge) Weight(int64, int64) (float64, bool)          { return 0, false }

// ApplyOperation adds a node. Vertices are tensors, identified by number.
func (b *bridge) ApplyOperation(op onnxgo.Operation, made ...gonum.Node) error {
	n := &graph.Node{Op: op.Name, Name: fmt.Sprintf("%s_%d", op.Name, len(b.nodes))}
	for _, v := range made {
		v.(*vertex).made = true
		n.Outputs = append(n.Outputs, graph.TensorID(v.ID()))
	}
	for _, e := range b.reads[made[0].ID()] {
		v := e.To().(*vertex)
		id := graph.TensorID(v.id)
		if v.name == "" {
			id = graph.None
		}
		if !strings.HasSuffix(v.name, "/input") { // the decoder's input for nodes without inputs
			n.Inputs = append(n.Inputs, id)
		}
	}
	for name, x := range op.Attributes {
		a, err := attribute(name, x)
		if err != nil {
			return err
		}
		n.Attrs = append(n.Attrs, a)
	}
	slices.SortFunc(n.Attrs, func(a, b *graph.Attr) int { return strings.Compare(a.Name, b.Name) })
	b.nodes = append(b.nodes, n)
	return nil
}

// attribute restores the type of an attribute.
func attribute(name string, x any) (*graph.Attr, error) {
	a := &graph.Attr{Name: name}
	switch x := x.(type) {
	case float32:
		a.Type, a.Float = graph.AttrFloat, x
	case int64:
		a.Type, a.Int = graph.AttrInt, x
	case string:
		a.Type, a.String = graph.AttrString, x
	case []float32:
		a.Type, a.Floats = graph.AttrFloats, x
	case []int64:
		a.Type, a.Ints = graph.AttrInts, x
	case []string:
		a.Type, a.Strings = graph.AttrStrings, x
	case tensor.Tensor:
		v, err := valueOf(x)
		if err != nil {
			return nil, err
		}
		a.Type, a.Tensor = graph.AttrTensor, dataOf(name, v)
	default:
		return nil, fmt.Errorf("attribute %s: %T", name, x)
	}
	return a, nil
}

func dataOf(name string, v vm.Value) *graph.Data {
	d := &graph.Data{Name: name, Type: v.Type, Dims: []int64{}, Raw: v.Data, Bytes: int64(len(v.Data))}
	for _, n := range v.Shape {
		d.Dims = append(d.Dims, int64(n))
	}
	return d
}

// Run plans the graph, runs it and stores the results in their vertices.
func (b *bridge) Run() error {
	g := &graph.Graph{Name: "bridge", Nodes: b.nodes}
	read := map[graph.TensorID]bool{}
	for _, n := range b.nodes {
		for _, t := range n.Inputs {
			read[t] = true
		}
	}
	inputs := map[string]vm.Value{}
	tensors := map[graph.TensorID]graph.TensorID{graph.None: graph.None} // the vertices that are used
	results := map[string]*vertex{}
	for _, v := range b.list {
		if !v.made && !read[graph.TensorID(v.id)] {
			continue
		}
		id := g.NewTensor(fmt.Sprintf("t%d", v.id))
		tensors[graph.TensorID(v.id)] = id
		t := g.Tensors[id]
		switch {
		case v.made:
			if !read[graph.TensorID(v.id)] {
				t.Output, results[t.Name] = true, v
				g.Outputs = append(g.Outputs, id)
			}
		case v.data != nil:
			x, err := valueOf(v.data)
			if err != nil {
				return err
			}
			dims := make([]graph.Dim, len(x.Shape))
			for i, n := range x.Shape {
				dims[i] = graph.Dim(n)
			}
			t.Input, t.Declared = true, &graph.Declared{Type: graph.TensorOf(x.Type, dims...), Symbols: make([]string, len(dims))}
			g.Inputs = append(g.Inputs, id)
			inputs[t.Name] = x
		}
	}
	for _, n := range b.nodes {
		for _, list := range [][]graph.TensorID{n.Inputs, n.Outputs} {
			for i := range list {
				list[i] = tensors[list[i]]
			}
		}
	}
	g.Link()
	r, err := passes.Optimize(context.Background(), &graph.Model{IRVersion: 4, Opsets: []graph.Opset{{Version: 10}}, Graph: g}, passes.Options{})
	if err != nil {
		return err
	}
	p, err := vm.New(r.Model, r.Plan)
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := p.NewSession(vm.Options{Workers: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	out, err := s.Run(context.Background(), inputs)
	if err != nil {
		return err
	}
	for name, v := range results {
		if v.data, err = tensorOf(out[name]); err != nil {
			return err
		}
	}
	return nil
}

// valueOf converts a tensor of gorgonia.
func valueOf(t tensor.Tensor) (vm.Value, error) {
	shape := slices.Clone([]int(t.Shape()))
	data := reflect.ValueOf(t.Data())
	if data.Kind() != reflect.Slice { // a scalar
		list := reflect.MakeSlice(reflect.SliceOf(data.Type()), 0, 1)
		data = reflect.Append(list, data)
	}
	switch x := data.Interface().(type) {
	case []float32:
		return vm.Float32s(x, shape...), nil
	case []int64:
		return vm.Int64s(x, shape...), nil
	case []int32:
		v := vm.Value{Type: graph.Int32, Shape: shape}
		for _, n := range x {
			v.Data = binary.LittleEndian.AppendUint32(v.Data, uint32(n))
		}
		return v, nil
	case []float64:
		v := vm.Value{Type: graph.Float64, Shape: shape}
		for _, f := range x {
			v.Data = binary.LittleEndian.AppendUint64(v.Data, math.Float64bits(f))
		}
		return v, nil
	case []bool:
		v := vm.Value{Type: graph.Bool, Shape: shape}
		for _, is := range x {
			b := byte(0)
			if is {
				b = 1
			}
			v.Data = append(v.Data, b)
		}
		return v, nil
	}
	return vm.Value{}, fmt.Errorf("a tensor of %v", t.Dtype())
}

// tensorOf makes a tensor of gorgonia.
func tensorOf(v vm.Value) (tensor.Tensor, error) {
	reals, ok := v.Reals()
	if !ok {
		return nil, fmt.Errorf("a result of %v", v.Type)
	}
	var backing any
	switch v.Type {
	case graph.Float32:
		list := make([]float32, len(reals))
		for i, x := range reals {
			list[i] = float32(x)
		}
		backing = list
	case graph.Int64:
		list := make([]int64, len(reals))
		for i, x := range reals {
			list[i] = int64(x)
		}
		backing = list
	case graph.Int32:
		list := make([]int32, len(reals))
		for i, x := range reals {
			list[i] = int32(x)
		}
		backing = list
	case graph.Float64:
		backing = reals
	default:
		return nil, fmt.Errorf("a result of %v", v.Type)
	}
	return tensor.New(tensor.WithShape(v.Shape...), tensor.WithBacking(backing)), nil
}

// beyond lists the tests that fail for other reasons than a missing kernel.
var beyond = map[string]string{
	"TestScan9Sum":                          "onnx-go decodes no attributes that are graphs",
	"TestSize":                              "expects a vector of one element where the operator gives a scalar",
	"TestSizeExample":                       "the same",
	"TestRoialign":                          "expects numbers of four digits",
	"TestPow":                               "1357.503: one unit in the last place is more than 1e-6",
	"TestReduceL1DefaultAxesKeepdimsRandom": "39.78, the same",
	"TestReduceProdDefaultAxesKeepdimsRandom":      "-24621.34, the same",
	"TestReduceSumDefaultAxesKeepdimsRandom":       "29.57, the same",
	"TestReduceSumSquareDefaultAxesKeepdimsRandom": "224.1, the same",
}

// TestOnnxGoTestBench runs the operator tests of onnx-go's testbackend through
// its decoder, its backend interfaces and its comparison (1e-6, absolute).
func TestOnnxGoTestBench(t *testing.T) {
	tests := testbackend.GetAllRegisteredTests()
	passed := 0
	missing := map[string]int{}
	for _, made := range tests {
		tc := made()
		switch err := attempt(made()); {
		case err == nil:
			t.Run(tc.Title, tc.RunTest(&bridge{}, false))
			passed++
		case errors.Is(err, vm.ErrNoKernel):
			missing[tc.OpType]++
		case beyond[tc.Title] == "":
			t.Errorf("%s: %v", tc.Title, err)
		}
	}
	t.Logf("%d of %d; operators without a kernel: %v", passed, len(tests), missing)
	if passed < len(tests)*9/10 {
		t.Errorf("%d of %d pass, expected nine of ten", passed, len(tests))
	}
}

// attempt runs a test as testbackend does, without failing.
func attempt(tc *testbackend.TestCase) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panics: %v", r)
		}
	}()
	b := &bridge{}
	m := onnxgo.NewModel(b)
	if err := m.UnmarshalBinary(tc.ModelB); err != nil {
		return fmt.Errorf("onnx-go's decoder: %w", err)
	}
	for i := range tc.Input {
		if err := m.SetInput(i, tc.Input[i]); err != nil {
			return fmt.Errorf("onnx-go's decoder: %w", err)
		}
	}
	if err := b.Run(); err != nil {
		return err
	}
	out, err := m.GetOutputTensors()
	if err != nil {
		return err
	}
	if len(out) != len(tc.ExpectedOutput) {
		return errors.New("another number of outputs")
	}
	for i, want := range tc.ExpectedOutput {
		got, err := valueOf(out[i])
		if err != nil {
			return err
		}
		exact, err := valueOf(want)
		if err != nil {
			return err
		}
		if err := compare(got, exact, 0, 1e-6); err != nil {
			return err
		}
	}
	return nil
}
