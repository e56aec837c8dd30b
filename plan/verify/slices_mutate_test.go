package verify_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// slicedModel is a planned model in slices, with its source.
type slicedModel struct {
	source, file []byte
	p            *plan.Plan
}

// slicedTexts are models with one of each kind of slice.
var slicedTexts = []struct {
	name string
	x    text
	opt  passes.Options
	has  func(ops map[string]int, p *plan.Plan) bool
	step bool // the source is a step of training it
}{
	{"a stream", sliceable, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 40}}, func(_ map[string]int, p *plan.Plan) bool {
		return len(p.Slices.Constants) > 0 && p.Slices.Regions[0].Outputs[0].Over != ""
	}, false},
	{"copies and weights", masked, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 50}}, func(_ map[string]int, p *plan.Plan) bool {
		return len(p.Slices.Copies) > 0 && len(p.Slices.Weights) > 0
	}, false},
	{"parts", attentive, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 60}}, func(ops map[string]int, p *plan.Plan) bool {
		return len(p.Slices.Parts) > 0 && ops["Split"] == 0
	}, false},
	{"halos", text{main: `
		in x float32[1,4,32,8]
		init k float32[16,4,3,3] = ...
		init d float32[16,1,5,3] = ...
		init v float32[4,16,1,1] = ...
		a = Conv(x, k) pads=[1, 1, 1, 1]
		b = Relu(a)
		c = Conv(b, d) pads=[2, 1, 2, 1] group=16
		e = MaxPool(c) kernel_shape=[3, 3] pads=[1, 1, 1, 1] strides=[2, 1]
		f = Conv(e, v)
		out f
	`}, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, func(ops map[string]int, _ *plan.Plan) bool { return ops["Conv"] > 4 && ops["MaxPool"] > 1 }, false},
	{"rows of neighbours", text{main: `
		in x float32[1,1,16,16]
		init a float32[8,1,1,1] = ...
		init k float32[8,8,3,3] = ...
		init s float32[8] = ...
		c = Conv(x, a)
		n = InstanceNormalization(c, s, s)
		d = Conv(n, k) pads=[1, 1, 1, 1]
		m = InstanceNormalization(d, s, s)
		out m
	`}, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Bytes: 12288}}, func(_ map[string]int, p *plan.Plan) bool {
		return slices.ContainsFunc(p.Slices.Regions, func(r plan.SlicedRegion) bool {
			return r.Outputs[0].Over != "" && *r.Outputs[0].Axis >= 2 && slices.Contains(r.Nodes, "d")
		})
	}, false},
	{"sums", text{main: `
		in x float32[64,16]
		init w float32[16,512] = ...
		init u float32[16,512] = ...
		h = MatMul(x, w)
		r = Relu(h)
		e = Mul(h, r)
		g = Gemm(x, e) transA=1
		m = ReduceMean(r) keepdims=0
		t = ReduceMax(e) keepdims=1
		s = Sub(g, u)
		out s
		out m
		out t
	`}, passes.Options{Slices: passes.SlicesAny, ExtraPercent: 1000}, func(ops map[string]int, _ *plan.Plan) bool {
		return ops["Gemm"] > 1 && ops["Div"] == 1 && ops["Max"] > 0
	}, false},
	{"micro-batches", text{main: `
		in x float32[512,32]
		init w float32[32,96] = ...
		init b float32[96] = ...
		init v float32[96,10] = ...
		h = MatMul(x, w)
		i = Add(h, b)
		j = Relu(i)
		y = MatMul(j, v)
		out y
	`}, passes.Options{Slices: passes.SlicesAny, Limit: &passes.Limit{Percent: 45}}, func(ops map[string]int, _ *plan.Plan) bool { return ops["Gemm"] > 2 && ops["ReduceSum"] > 2 }, true},
	{"attention in pieces", weighing, passes.Options{Slices: passes.SlicesAny, Limit: &passes.Limit{Bytes: 4100}}, func(ops map[string]int, p *plan.Plan) bool { return len(p.Slices.Regions[0].Running) == 1 }, false},
	{"rows by attributes", text{opset: 8, main: `
		in x float32[1,4,32,8]
		init k float32[16,4,3,3] = ...
		init v float32[4,16,1,1] = ...
		a = Conv(x, k) pads=[1, 1, 1, 1]
		b = Relu(a)
		e = MaxPool(b) kernel_shape=[3, 3] pads=[1, 1, 1, 1] strides=[2, 1]
		f = Conv(e, v)
		out f
	`}, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, func(ops map[string]int, _ *plan.Plan) bool { return ops["Slice"] > 1 && ops["Tile"] == 1 }, false},
	{"recurrent weights", text{main: `
		in x float32[10,8,16]
		init w float32[1,48,16] = ...
		init r float32[1,48,16] = ...
		init b float32[1,96] = ...
		a = Relu(x)
		y, h = GRU(a, w, r, b) hidden_size=16
		z = Relu(y)
		q = ArgMax(z) axis=3
		out q
	`}, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, func(ops map[string]int, _ *plan.Plan) bool { return ops["GRU"] > 1 }, false},
	{"fused operators with biases", text{main: `
		in x float32[1,64,16]
		init w float32[16,64] = ...
		init c float32[64] = ...
		init u float32[64,16] = ...
		init g float32[16] = ...
		a = MatMul(x, w)
		b = com.microsoft::BiasGelu(a, c)
		d = com.microsoft::FusedMatMul(b, u)
		y = com.microsoft::SkipLayerNormalization(d, x, g)
		out y
	`}, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, func(ops map[string]int, _ *plan.Plan) bool {
		return ops["BiasGelu"] > 1 && ops["SkipLayerNormalization"] > 1
	}, false},
	{"two halves of the same rows", text{main: `
		in x float32[1,8,16,16]
		init k float32[16,1,3,3] = ...
		a = Concat(x, x) axis=1
		b = Conv(a, k) pads=[1, 1, 1, 1] group=16
		c = Relu(b)
		d = MaxPool(c) kernel_shape=[4, 4] strides=[4, 4]
		out d
	`}, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 75}}, func(ops map[string]int, _ *plan.Plan) bool { return ops["Concat"] > 1 }, false},
	{"two halves that are summed", text{main: `
		in x float32[32,16]
		init w float32[16,256] = ...
		a = Concat(x, x) axis=0
		h = MatMul(a, w)
		r = Relu(h)
		g = Gemm(a, r) transA=1
		m = ReduceMax(r) keepdims=0
		out g
		out m
	`}, passes.Options{Slices: passes.SlicesAny, ExtraPercent: 1000}, func(ops map[string]int, _ *plan.Plan) bool { return ops["Concat"] > 1 && ops["Gemm"] > 1 }, false},
	{"parts of what a part makes", text{main: `
		in x float32[1,32,8]
		init w float32[8,24] = ...
		init v float32[8,48] = ...
		y = MatMul(x, w)
		a, b, c = Split(y) axis=2 num_outputs=3
		p = Relu(a)
		s = Relu(c)
		z = MatMul(b, v)
		d, e, f = Split(z) axis=2 num_outputs=3
		g = Mul(d, e)
		i = Add(g, f)
		j = ReduceSum(i) keepdims=0
		out j
		out p
		out s
	`}, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, func(_ map[string]int, p *plan.Plan) bool { return len(p.Slices.Parts) > 4 }, false},
	{"open lengths", text{main: `
		in x float32[batch,4,32,8]
		init k float32[16,4,3,3] = ...
		init v float32[8,2] = ...
		a = Conv(x, k) pads=[1, 1, 1, 1]
		b = Relu(a)
		shape = Constant() value_ints=[-1, 32, 8]
		c = Reshape(b, shape)
		f = MatMul(c, v)
		out f
	`}, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000, Ranges: map[string]string{"batch": "1..2"}}, func(ops map[string]int, p *plan.Plan) bool {
		return ops["Shape"] == 1 && ops["Add"] == 1 && ops["Reshape"] > 1 && p.Ranges != nil
	}, false},
	{"slices inside of slices", nested, nestedOptions, isNested, false},
	{"maxima", text{main: `
		in x float32[32,2,16,16]
		init k float32[4,2,3,3] = ...
		init b float32[4] = ...
		init v float32[256,5] = ...
		c = Conv(x, k, b) pads=[1, 1, 1, 1]
		r = Relu(c)
		p = MaxPool(r) kernel_shape=[2, 2] strides=[2, 2]
		f = Flatten(p)
		y = MatMul(f, v)
		out y
	`}, passes.Options{Slices: passes.SlicesAny, Limit: &passes.Limit{Percent: 60}}, func(ops map[string]int, _ *plan.Plan) bool { return ops["MaxPool"] > 1 && ops["Mod"] > 1 }, true},
}

// nested is a network whose images run one by one, and each of them in rows.
var nested = text{main: `
	in x float32[2,4,16,16]
	init k float32[32,4,1,1] = ...
	init d float32[32,1,3,3] = ...
	init v float32[4,32,1,1] = ...
	init e float32[4,4,3,3] = ...
	init b float32[4] = ...
	a = Conv(x, k)
	p = Relu(a)
	c = Conv(p, d) pads=[1, 1, 1, 1] group=32
	f = Conv(c, v)
	g = Conv(f, e, b) pads=[1, 1, 1, 1]
	out g
`}

var nestedOptions = passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 33}, Device: passes.Device{FLOPS: 1e8, Bandwidth: 1e8}}

// isNested reports whether a region runs inside of a slice.
func isNested(_ map[string]int, p *plan.Plan) bool {
	return slices.ContainsFunc(p.Slices.Regions, func(r plan.SlicedRegion) bool { return r.Within != nil })
}

// slicedModels are the plans of slicedTexts, made when a test first asks for them.
var slicedModels = map[int]slicedModel{}

// planSliced plans one of slicedTexts as the command does. Tests share the plan: they
// change copies.
func planSliced(t testing.TB, i int) slicedModel {
	t.Helper()
	if x, made := slicedModels[i]; made {
		return x
	}
	c := &slicedTexts[i]
	m := c.x.build(t)
	if c.step {
		found, err := passes.Optimize(t.Context(), m, passes.Options{Train: &autodiff.Options{}})
		if err != nil {
			t.Fatal(err)
		}
		m = parse(t, encode(t, found.Model))
	}
	source := m.Source.Bytes
	found, err := passes.Optimize(t.Context(), m, c.opt)
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(found.Model)
	if err != nil {
		t.Fatal(err)
	}
	found.Plan.Model = plan.ImageOf("out.onnx", im)
	slicedModels[i] = slicedModel{source, encode(t, found.Model), found.Plan}
	return slicedModels[i]
}

// corruption is one corruption of a planned file.
type corruption struct {
	what string
	name string   // of the node or tensor that is wrong
	near []string // of the nodes that read the tensor
	do   func(m *graph.Model)
}

// others are operators that take the place of one.
var others = map[string]string{"Relu": "Sigmoid", "Add": "Sub", "Mul": "Div", "Sub": "Add", "Max": "Min", "ReduceMax": "ReduceMin", "ReduceSum": "ReduceSumSquare", "MaxPool": "LpPool", "Div": "Mul", "Exp": "Tanh", "IsNaN": "Not"}

// functionChanges lists corruptions of function i, which has nodes of slices.
func functionChanges(m *graph.Model, i int, callers []string) (list []corruption) {
	add := func(k int, what string, do func(f *graph.Function, n *graph.Node)) {
		n := m.Functions[i].Body.Nodes[k]
		list = append(list, corruption{m.Functions[i].Name + ": " + n.OpName() + ": " + what, n.Name, callers, func(m *graph.Model) {
			f := m.Functions[i]
			do(f, f.Body.Nodes[k])
			f.Body.Link()
		}})
	}
	for k, n := range m.Functions[i].Body.Nodes {
		if other := others[n.Op]; other != "" {
			add(k, "operator", func(_ *graph.Function, n *graph.Node) { n.Op = other })
		}
		for j, a := range n.Attrs {
			if a.Type == graph.AttrInts {
				add(k, "attribute "+a.Name, func(_ *graph.Function, n *graph.Node) {
					b := &graph.Attr{Name: a.Name, Type: a.Type, Ints: slices.Clone(a.Ints)}
					b.Ints[0]++
					n.Attrs[j] = b
				})
			}
		}
		add(k, "a new attribute", func(_ *graph.Function, n *graph.Node) {
			n.Attrs = append(slices.Clone(n.Attrs), &graph.Attr{Name: "extra", Type: graph.AttrInt, Int: 1})
		})
		if len(n.Inputs) > 1 && n.Inputs[0] != n.Inputs[1] {
			add(k, "input 0 twice", func(_ *graph.Function, n *graph.Node) { n.Inputs[1] = n.Inputs[0] })
		}
		for j := range n.Inputs {
			add(k, fmt.Sprintf("input %d: the function's last", j), func(f *graph.Function, n *graph.Node) {
				if last := f.Body.Inputs[len(f.Body.Inputs)-1]; n.Inputs[j] != last {
					n.Inputs[j] = last
				} else {
					n.Inputs[j] = f.Body.Inputs[0]
				}
			})
		}
		tag, _ := n.Prop("onnxmem.slice")
		role, index, _ := strings.Cut(tag, " ")
		add(k, "no role", func(_ *graph.Function, n *graph.Node) { n.DropProp("onnxmem.slice") })
		add(k, "index", func(_ *graph.Function, n *graph.Node) { n.SetProp("onnxmem.slice", role+" "+index+"1") })
		add(k, "name", func(_ *graph.Function, n *graph.Node) {
			other := "0"
			if index == other {
				other = "1"
			}
			n.SetProp("onnxmem.slice", role+" "+other)
		})
		add(k, "role", func(_ *graph.Function, n *graph.Node) {
			n.SetProp("onnxmem.slice", map[string]string{"node": "rows", "rows": "node"}[role]+" "+index)
		})
	}
	return list
}

// changesOf lists corruptions of every node and initializer.
func changesOf(m *graph.Model) (list []corruption) {
	g := m.Graph
	add := func(i int, what string, do func(m *graph.Model, n *graph.Node)) {
		n := g.Nodes[i]
		var near []string
		switch tag, _ := n.Prop("onnxmem.slice"); {
		case strings.Contains(tag, " call "):
			for _, w := range g.Nodes {
				if w.Op == graph.PutRows {
					near = append(near, w.Name) // what a call makes less of is missed there
				}
			}
		case strings.Contains(tag, " rows "):
			for _, r := range g.Tensors[n.Outputs[0]].Readers {
				near = append(near, g.Nodes[r].Name) // more rows of one input need more of the others
			}
		}
		list = append(list, corruption{n.OpName() + ": " + what, n.Name, near, func(m *graph.Model) { do(m, m.Graph.Nodes[i]) }})
	}
	for i, n := range g.Nodes {
		tag, _ := n.Prop("onnxmem.slice")
		words := strings.SplitN(tag, " ", 4)
		if len(words) < 4 {
			words = []string{"", "", "outside", ""}
		}
		for k, a := range n.Attrs {
			switch a.Type {
			case graph.AttrInt:
				add(i, "attribute "+a.Name, func(_ *graph.Model, n *graph.Node) {
					n.Attrs[k] = &graph.Attr{Name: a.Name, Type: a.Type, Int: a.Int + 1}
				})
			case graph.AttrFloat:
				add(i, "attribute "+a.Name, func(_ *graph.Model, n *graph.Node) {
					n.Attrs[k] = &graph.Attr{Name: a.Name, Type: a.Type, Float: a.Float + 1}
				})
			case graph.AttrInts:
				for j := range a.Ints {
					add(i, fmt.Sprintf("attribute %s[%d]", a.Name, j), func(_ *graph.Model, n *graph.Node) {
						b := &graph.Attr{Name: a.Name, Type: a.Type, Ints: slices.Clone(a.Ints)}
						b.Ints[j]++
						n.Attrs[k] = b
					})
				}
			}
		}
		if other := others[n.Op]; other != "" {
			add(i, "operator", func(_ *graph.Model, n *graph.Node) { n.Op = other })
		}
		add(i, "a new attribute", func(_ *graph.Model, n *graph.Node) {
			n.Attrs = append(slices.Clone(n.Attrs), &graph.Attr{Name: "extra", Type: graph.AttrInt, Int: 1})
		})
		if words[2] != "base" { // any element may stand where rows are to be written
			for j, t := range n.Inputs {
				if t < 0 {
					continue
				}
				if list, ok := vectorOf(g.Tensors[t]); ok {
					for _, by := range []int64{-1, 1} {
						for e := range list {
							add(i, fmt.Sprintf("input %d: element %d by %d", j, e, by), func(m *graph.Model, n *graph.Node) {
								changed := slices.Clone(list)
								changed[e] += by
								n.Inputs = slices.Clone(n.Inputs)
								n.Inputs[j] = vectorIn(m.Graph, changed)
							})
						}
					}
				}
				// The nearest other tensor of the same type that is made before.
				for u := len(g.Tensors) - 1; u >= 0; u-- {
					x, y := g.Tensors[t], g.Tensors[u]
					if graph.TensorID(u) != t && y.Maker < graph.NodeID(i) && sameShape(x, y) && (x.Data == nil) == (y.Data == nil) {
						add(i, fmt.Sprintf("input %d: %s for %s", j, y.Name, x.Name), func(_ *graph.Model, n *graph.Node) {
							n.Inputs = slices.Clone(n.Inputs)
							n.Inputs[j] = graph.TensorID(u)
						})
						break
					}
				}
			}
		}
		if len(n.Inputs) > 1 && n.Inputs[0] >= 0 && n.Inputs[1] >= 0 && n.Inputs[0] != n.Inputs[1] && sameShape(g.Tensors[n.Inputs[0]], g.Tensors[n.Inputs[1]]) {
			add(i, "inputs 0 and 1 exchanged", func(_ *graph.Model, n *graph.Node) {
				n.Inputs = slices.Clone(n.Inputs)
				n.Inputs[0], n.Inputs[1] = n.Inputs[1], n.Inputs[0]
			})
			add(i, "input 0 twice", func(_ *graph.Model, n *graph.Node) {
				n.Inputs = slices.Clone(n.Inputs)
				n.Inputs[1] = n.Inputs[0]
			})
		}
		if tag == "" {
			add(i, "a role", func(_ *graph.Model, n *graph.Node) {
				n.SetProp("onnxmem.slice", "0 0 node "+g.Tensors[n.Outputs[0]].Name)
			})
			continue
		}
		add(i, "no role", func(_ *graph.Model, n *graph.Node) { n.DropProp("onnxmem.slice") })
		for k, other := range []string{"1", "1", "rows", "x"} {
			if words[k] == other {
				other = "0"
			}
			add(i, fmt.Sprintf("tag, word %d: %s", k, other), func(_ *graph.Model, n *graph.Node) {
				changed := slices.Clone(words)
				changed[k] = other
				n.SetProp("onnxmem.slice", strings.Join(changed, " "))
			})
		}
	}
	callers := map[string][]string{}
	for _, n := range g.Nodes {
		if n.Domain == graph.SwapDomain {
			callers[n.Op] = append(callers[n.Op], n.Name)
		}
	}
	for i, f := range m.Functions {
		switch f.Name {
		case graph.PutRows:
		case graph.ConvWeightGrad:
			list = append(list, corruption{"function " + f.Name, f.Name, callers[f.Name], func(m *graph.Model) {
				for _, n := range m.Functions[i].Body.Nodes {
					if n.Op == "Conv" {
						n.Inputs[0], n.Inputs[1] = n.Inputs[1], n.Inputs[0]
					}
				}
			}})
			continue
		default:
			list = append(list, functionChanges(m, i, callers[f.Name])...)
			continue
		}
		list = append(list, corruption{"function " + f.Name, f.Name, callers[f.Name], func(m *graph.Model) {
			b := m.Functions[i].Body
			b.Nodes[2].Inputs[2] = b.Inputs[3] // another end of the head
		}})
	}
	for i, o := range g.Outputs {
		list = append(list, corruption{"another output", g.Tensors[o].Name, nil, func(m *graph.Model) { m.Graph.Outputs[i] = m.Graph.Inputs[0] }})
	}
	for id, t := range g.Tensors {
		if t.Data == nil || len(t.Data.Raw) == 0 || len(t.Readers) == 0 {
			continue
		}
		var near []string
		for _, r := range t.Readers {
			near = append(near, g.Nodes[r].Name)
		}
		list = append(list, corruption{"initializer " + t.Name, t.Name, near, func(m *graph.Model) {
			d := *m.Graph.Tensors[id].Data
			d.Raw = slices.Clone(d.Raw)
			d.Raw[len(d.Raw)-4] ^= 1
			m.Graph.Tensors[id].Data = &d
		}})
	}
	return list
}

func sameShape(x, y *graph.Tensor) bool {
	return x.Type.Elem == y.Type.Elem && slices.Equal(x.Type.Shape, y.Type.Shape)
}

// vectorOf returns the elements of a list that is an initializer.
func vectorOf(t *graph.Tensor) ([]int64, bool) {
	if t.Data == nil || t.Data.Type != graph.Int64 || len(t.Data.Dims) != 1 {
		return nil, false
	}
	return t.Data.Integers(8)
}

// vectorIn adds a list to a graph.
func vectorIn(g *graph.Graph, list []int64) graph.TensorID {
	id := g.NewTensor(fmt.Sprintf("changed%d", len(g.Tensors)))
	raw := []byte{}
	for _, v := range list {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	g.Tensors[id].Data = &graph.Data{Name: g.Tensors[id].Name, Type: graph.Int64, Dims: []int64{int64(len(list))}, Raw: raw, Bytes: int64(len(raw))}
	return id
}

// TestSlicesMutated corrupts planned files in slices in every way that it knows, one at a
// time. Every corruption is found, and a message names the node that is wrong or one that
// reads it.
func TestSlicesMutated(t *testing.T) {
	for i, c := range slicedTexts {
		t.Run(c.name, func(t *testing.T) {
			x := planSliced(t, i)
			if x.p.Slices == nil {
				t.Fatal("no slices")
			}
			ops := map[string]int{}
			m := parse(t, x.file)
			for _, n := range m.Graph.Nodes {
				if tag, _ := n.Prop("onnxmem.slice"); tag != "" {
					ops[n.Op]++
				}
			}
			if !c.has(ops, x.p) {
				t.Fatalf("the plan lacks what the case is about: %v\n%+v", ops, x.p.Slices)
			}
			if r, err := verify.Plan(m, x.p, verify.Options{Source: parse(t, x.source)}); err != nil || !r.Valid || slices.Contains(r.Claimed, "slices") {
				t.Errorf("%v\n%v", err, r)
			}
			every := 1
			switch {
			case sweep.On():
			case c.name == "maxima": // it takes longer than all other cases together
				every = 20
			default:
				every = 3
			}
			mutate(t, x, every)
		})
	}
}

// Slices that were not asked for are those of the loss: a plan cannot say so of others.
func TestSlicesOfNoLoss(t *testing.T) {
	x := planSliced(t, 0)
	p := clone(t, x.p)
	p.Slices.Mode = plan.SlicesOfLoss
	r, err := verify.Plan(parse(t, x.file), p, verify.Options{Source: parse(t, x.source)})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Violations) != 1 || r.Violations[0].Code != verify.CodeSlices || !strings.Contains(r.Violations[0].Message, "nodes of the loss") {
		t.Errorf("expected a violation since no node is of a loss, found %v", r.Violations)
	}
}

// harmless reports whether the file computes the same after a corruption. Rows may be taken
// of an input, perhaps in a function, instead of what is written over it, in which they are
// the same; or of what an earlier slice has written. Or the zeros change in which rows are put,
// all of which are written over.
func harmless(what string) bool {
	if change, slice := strings.CutPrefix(what, "Slice: input 0: "); slice {
		now, was, _ := strings.Cut(change, " for ")
		a, i, put := strings.Cut(now, "/put")
		b, k, puts := strings.Cut(was, "/put")
		if put && puts && a == b && len(i) == len(k) && i < k {
			return true
		}
	}
	if strings.HasPrefix(what, "initializer onnxmem.") && strings.Contains(what, ".zero.") {
		return true
	}
	return (strings.HasPrefix(what, "Slice: input 0: ") || strings.HasPrefix(what, "Region")) && strings.Contains(what, "/put") && !strings.Contains(strings.Split(what, " for ")[0], "/put")
}

// mutate applies one of so many corruptions, from the first on.
func mutate(t *testing.T, x slicedModel, every int) {
	t.Helper()
	good := parse(t, x.file)
	source := parse(t, x.source)
	if faults, err := verify.SliceFaults(good, x.p, source); err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	counts := map[string]int{}
	for i, c := range changesOf(good) {
		if i%every != 0 {
			continue
		}
		m := parse(t, x.file)
		c.do(m)
		m.Graph.Link()
		faults, err := verify.SliceFaults(m, x.p, source)
		named := func(text string) bool {
			return slices.ContainsFunc(append(c.near, c.name), func(name string) bool {
				return strings.Contains(text, fmt.Sprintf("%q", name)) || strings.Contains(text, fmt.Sprintf("%q", name+"/")[:len(name)+2])
			})
		}
		switch {
		case err != nil:
			counts["refused by inference"]++
		case slices.ContainsFunc(faults, named):
			counts["found by name"]++
		case len(faults) > 0 && strings.Contains(c.what, "tag, word "):
			counts["found in its slice"]++ // a tag says where rows go that other nodes of the slice make
		case len(faults) > 0:
			counts["found"]++
			t.Errorf("%s, %s: found elsewhere: %.300q", c.name, c.what, faults)
		case harmless(c.what):
			counts["harmless"]++
		default:
			counts["not found"]++
			t.Errorf("%s, %s: not found", c.name, c.what)
		}
	}
	t.Log(counts)
}
