package gpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// Seed is a case as a model, and the values of its inputs, for tests of sessions.
type Seed struct {
	Name   string // OPERATOR_NUMBER
	Model  *graph.Model
	Inputs []*form.Tensor
	// Generated is set if the kernel depends on the shapes, and so must be compiled for each
	// mutant.
	Generated bool
}

// Seeds returns all cases as models.
func Seeds() (list []Seed, err error) {
	for i, c := range slices.Concat(cases, drawnCases, extremeCases) {
		s, err := c.seed(fmt.Sprintf("%s_%03d", c.op, i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.op, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// seed makes a model of a case. Its reals are float32, or, if the case has none, of the
// case's first dtype.
func (c *nodeCase) seed(name string) (s Seed, err error) {
	d := graph.Float32
	if c.types != nil && !slices.Contains(c.types, d) {
		d = c.types[0]
	}
	domain, op := "", c.op
	if i := strings.LastIndex(c.op, "."); i >= 0 {
		domain, op = c.op[:i], c.op[i+1:]
	}
	version := c.version
	if version == 0 {
		version = 18
	}
	g := &graph.Graph{Name: "g"}
	n := &graph.Node{Name: op, Op: op, Domain: domain}
	for _, a := range c.attrs {
		if a.Tensor != nil { // a file has bytes, not lists
			of := blank(a.Tensor.Type, 1)
			if err := form.Store(of, a.Tensor.Floats, a.Tensor.Ints); err != nil {
				return s, err
			}
			a = &graph.Attr{Name: a.Name, Type: a.Type, Tensor: &graph.Data{Type: of.Type, Dims: []int64{1}, Raw: content(of), Bytes: int64(of.Bytes())}}
		}
		n.Attrs = append(n.Attrs, a)
	}
	s = Seed{Name: name, Model: &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: version}}, Graph: g}}
	s.Generated = Lookup(domain, op).Element != nil
	if domain != "" {
		s.Model.Opsets = []graph.Opset{{Version: 18}, {Domain: domain, Version: version}}
	}
	feeds := map[string]*reference.Tensor{}
	for i, t := range c.in {
		if t == nil {
			n.Inputs = append(n.Inputs, graph.None)
			continue
		}
		x := blank(t.Type, t.Shape...)
		if t.F != nil {
			x = blank(d, t.Shape...)
		}
		if err := form.Store(x, t.F, t.I); err != nil {
			return s, err
		}
		id := g.NewTensor(fmt.Sprintf("x%d", i))
		feeds[g.Tensors[id].Name] = t
		n.Inputs = append(n.Inputs, id)
		if slices.Contains(c.consts, i) {
			data := &graph.Data{Name: g.Tensors[id].Name, Type: x.Type, Raw: content(x), Bytes: int64(x.Bytes())}
			for _, k := range x.Shape {
				data.Dims = append(data.Dims, int64(k))
			}
			g.Tensors[id].Data = data
			continue
		}
		s.Inputs = append(s.Inputs, x)
		dims := make([]graph.Dim, len(x.Shape))
		for k, length := range x.Shape {
			dims[k] = graph.Dim(length)
		}
		g.Tensors[id].Declared = &graph.Declared{Type: graph.TensorOf(x.Type, dims...), Symbols: make([]string, len(dims))}
		g.Inputs = append(g.Inputs, id)
	}
	for i := range max(c.outputs, 1) {
		n.Outputs = append(n.Outputs, g.NewTensor(fmt.Sprintf("y%d", i)))
	}
	g.Nodes, g.Outputs = []*graph.Node{n}, n.Outputs
	elem, err := c.outputTypes(s.Model, feeds, d)
	if err != nil {
		return s, err
	}
	for i, y := range n.Outputs {
		g.Tensors[y].Declared = &graph.Declared{Type: graph.Type{Kind: graph.KindTensor, Elem: elem[i]}}
	}
	g.Link()
	return s, nil
}

// outputTypes returns the dtypes of a case's outputs, whose reals are of dtype d. An extreme
// one, which would take the evaluator too long, has outputs of the type of its first input.
func (c *nodeCase) outputTypes(m *graph.Model, feeds map[string]*reference.Tensor, d graph.DType) (list []graph.DType, err error) {
	if c.extreme {
		if c.in[0].I != nil {
			d = c.in[0].Type
		}
		return slices.Repeat([]graph.DType{d}, len(m.Graph.Outputs)), nil
	}
	got, err := reference.Eval(m, feeds)
	if err != nil {
		return nil, err
	}
	for _, y := range m.Graph.Outputs {
		w := got[m.Graph.Tensors[y].Name]
		if list = append(list, w.Type); w.F != nil {
			list[len(list)-1] = d
		}
	}
	return list, nil
}
