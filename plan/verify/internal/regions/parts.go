package regions

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/rowmap"
)

// rowRange is a range of rows of a tensor of the graph before the slices.
type rowRange struct {
	of     graph.TensorID
	axis   int
	lo, hi int64
}

// divide adds the parts that the plan lists to the graph before the slices. For one of an
// initializer, that is a tensor. For one of a node's result, it is a node that makes these
// rows of the parts of its inputs, by the verifier's own account of the operators. What reads
// rows that an output of a Split holds then reads the part. So whatever the plan lists, the
// graph computes the same. It reports whether it could look at all parts.
func (b *before) divide(v *prover, parts []plan.SlicedPart) bool {
	if len(parts) == 0 {
		return true
	}
	d := &dividing{b: b, parts: map[rowRange]graph.TensorID{}}
	for _, x := range parts {
		of, source := b.find(x.Of)
		_, taken := b.names[x.Tensor]
		switch {
		case source == nil && b.lacks:
			return false
		case taken || x.Tensor == "":
			v.Fault(Code, "slices: part %q: expected a name that nothing else has", graph.Short(x.Tensor))
			continue
		case source == nil || source.Input:
			v.Fault(Code, "slices: part %q: expected rows of an initializer or of a node's result, found %q", graph.Short(x.Tensor), graph.Short(x.Of))
			continue
		}
		shape := b.shape(of)
		if x.Axis < 0 || x.Axis >= len(shape) || x.From < 0 || x.Rows < 1 || x.Rows > shape[x.Axis] || x.From > shape[x.Axis]-x.Rows {
			v.Fault(Code, "slices: part %q: expected rows of an axis of %q, whose shape is %v, found %d rows from row %d of axis %d on", graph.Short(x.Tensor), graph.Short(x.Of), shape, x.Rows, x.From, x.Axis)
			continue
		}
		where := rowRange{of, x.Axis, x.From, x.From + x.Rows}
		n := &graph.Node{}
		if source.Maker >= 0 {
			old := b.g.Nodes[source.Maker]
			if !v.knowsRows(old) {
				return false
			}
			if n = d.node(old, where); n == nil {
				v.Fault(Code, "slices: part %q: expected rows that %s makes of rows that are listed before, found rows [%d, %d) of axis %d", graph.Short(x.Tensor), b.g.Label(source.Maker), where.lo, where.hi, x.Axis)
				continue
			}
		}
		t := b.g.NewTensor(x.Tensor)
		b.g.Tensors[t].Type = rowsType(source.Type, x.Axis, x.Rows)
		if b.names[x.Tensor] = t; n.Op != "" {
			n.Outputs = []graph.TensorID{t}
			b.g.Nodes = append(b.g.Nodes, n)
		} else {
			b.weights[of] = append(b.weights[of], weightPart{where, t})
		}
		d.parts[where] = t
	}
	b.g.Link() // parts read the results of a Split, too: those of a product behind another one
	d.instead()
	b.g.Link()
	b.values = append(b.values, make([]*ops.Value, len(b.g.Tensors)-len(b.values))...)
	return true
}

// weightPart is a tensor that stands for rows of an initializer.
type weightPart struct {
	rowRange
	part graph.TensorID
}

func rowsType(of graph.Type, axis int, rows int64) graph.Type {
	of.Shape = slices.Clone(of.Shape)
	of.Shape[axis] = graph.Dim(rows)
	return of
}

// dividing adds parts to a graph.
type dividing struct {
	b     *before
	parts map[rowRange]graph.TensorID
}

// node returns a node that makes rows of the one output of a node; nil if there is none.
func (d *dividing) node(old *graph.Node, want rowRange) *graph.Node {
	x := rowmap.Of(d.b.m, old, d.b)
	if x == nil || len(old.Outputs) != 1 {
		return nil
	}
	m := x.Along(want.axis)
	if m == nil || m.Out[0] != want.axis {
		return nil
	}
	n := &graph.Node{Op: old.Op, Domain: old.Domain, Overload: old.Overload, Name: old.Name}
	for j, t := range old.Inputs {
		if t >= 0 && m.In[j].Axis != rowmap.Whole {
			from, to, ok := m.In[j].Of(want.lo, want.hi)
			if !ok || from == to {
				return nil
			}
			if t, ok = d.parts[rowRange{t, m.In[j].Axis, from, to}]; !ok {
				return nil
			}
		}
		n.Inputs = append(n.Inputs, t)
	}
	change := rowmap.Change{}
	if m.Change != nil {
		change = m.Change(want.lo, want.hi)
	}
	if change.Op != "" {
		n.Op = change.Op
	}
	for _, a := range old.Attrs {
		if !slices.Contains(change.Drop, a.Name) && !slices.ContainsFunc(change.Attrs, func(b *graph.Attr) bool { return a.Name == b.Name }) {
			n.Attrs = append(n.Attrs, a)
		}
	}
	n.Attrs = append(n.Attrs, change.Attrs...)
	for _, j := range slices.Sorted(maps.Keys(change.Inputs)) {
		if j > len(n.Inputs) {
			return nil
		}
		t := d.b.g.NewTensor("")
		d.b.g.Tensors[t].Type = graph.TensorOf(graph.Int64, graph.Dim(len(change.Inputs[j])))
		d.b.stated[t] = change.Inputs[j]
		if j == len(n.Inputs) {
			n.Inputs = append(n.Inputs, t)
		} else {
			n.Inputs[j] = t
		}
	}
	return n
}

// instead lets nodes read the parts that are outputs of a Split in the place of these.
func (d *dividing) instead() {
	g := d.b.g
	for _, n := range g.Nodes {
		if n.Op != "Split" || n.Domain != "" || len(n.Inputs) == 0 || n.Inputs[0] < 0 {
			continue
		}
		for axis := range g.Tensors[n.Inputs[0]].Type.Shape {
			from := int64(0)
			for _, t := range n.Outputs {
				if t < 0 {
					break
				}
				shape, whole := d.b.shape(t), d.b.shape(n.Inputs[0])
				if len(shape) != len(whole) || shape[axis] == whole[axis] {
					break
				}
				to := from + shape[axis]
				if part, listed := d.parts[rowRange{n.Inputs[0], axis, from, to}]; listed && !g.Tensors[t].Output {
					for _, q := range g.Tensors[t].Readers {
						for j, u := range g.Nodes[q].Inputs {
							if u == t {
								g.Nodes[q].Inputs[j] = part
							}
						}
					}
				}
				from = to
			}
		}
	}
}

// Integers returns the elements of an integer tensor, if they are known.
func (b *before) Integers(t graph.TensorID) ([]int64, bool) {
	if list, stated := b.stated[t]; stated {
		return list, true
	}
	if int(t) >= len(b.values) {
		return nil, false
	}
	return b.values[t].Ints()
}

// Reals returns the elements of a floating-point tensor, if they are known.
func (b *before) Reals(t graph.TensorID) ([]float64, bool) {
	if int(t) >= len(b.values) {
		return nil, false
	}
	return b.values[t].Floats()
}
