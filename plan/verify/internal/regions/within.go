package regions

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// A region may run in slices inside of a slice of another region. Its nodes are those of
// that slice, which no node of the file makes: the tensors T/s<i> of the slice, each with
// some rows of T. So the graph before the slices gets them, too, as nodes that the verifier
// derives from the source by its own account of the operators. What a tensor holds is
// always said of a tensor of the source where that can be said: all of T/s<i> is rows of T.

// within adds what regions inside of slices consist of to the graph before. It reports
// whether it could look at all of it.
func (b *before) within(v *prover) bool {
	b.slices, b.made, b.ofSlice = map[graph.TensorID]rowRange{}, map[string]graph.TensorID{}, map[*graph.Node]*graph.Node{}
	for i := range v.Plan.Slices.Regions {
		if x := &v.Plan.Slices.Regions[i]; x.Within != nil && !b.addSlice(v, i, x) {
			return false
		}
	}
	b.g.Link()
	b.values = append(b.values, make([]*ops.Value, len(b.g.Tensors)-len(b.values))...)
	return true
}

// addSlice adds the tensors and nodes of region i of the plan, which runs inside of a slice.
func (b *before) addSlice(v *prover, i int, x *plan.SlicedRegion) bool {
	d := &dividing{b: b, parts: map[rowRange]graph.TensorID{}}
	listed, order, used := map[string]graph.TensorID{}, []string{}, map[graph.TensorID]bool{}
	for _, t := range x.Within.Tensors {
		of, source := b.find(t.Of)
		shape := []int64{}
		if source != nil {
			shape = b.shape(of)
		}
		where := rowRange{of, t.Axis, t.From, t.From + t.Rows}
		id, again := b.made[t.Tensor]
		_, taken := b.names[t.Tensor]
		switch {
		case source == nil && b.lacks:
			return false
		case source == nil || t.Axis < 0 || t.Axis >= len(shape) || t.From < 0 || t.Rows < 1 || t.Rows > shape[t.Axis] || t.From > shape[t.Axis]-t.Rows:
			v.Fault(Code, "slices: region %d: within: %q: expected rows of an axis of a tensor of the source, found %d rows from row %d of axis %d of %q on", i, graph.Short(t.Tensor), t.Rows, t.From, t.Axis, graph.Short(t.Of))
			continue
		case listed[t.Tensor] != 0 || taken && !again || again && b.slices[id] != where:
			v.Fault(Code, "slices: region %d: within: expected %q once, and as the same rows in every region, found it again", i, graph.Short(t.Tensor))
			continue
		case !again:
			id = b.g.NewTensor(t.Tensor)
			b.g.Tensors[id].Type = rowsType(source.Type, t.Axis, t.Rows)
			b.names[t.Tensor], b.made[t.Tensor], b.slices[id] = id, id, where
		}
		listed[t.Tensor] = id
		d.parts[where] = id
	}
	for _, name := range x.Nodes {
		id, known := listed[name]
		if !known || b.g.Tensors[id].Maker >= 0 {
			v.Fault(Code, "slices: region %d: nodes: expected a tensor of the slice that no other region makes, found %q", i, graph.Short(name))
			continue
		}
		where := b.slices[id]
		maker := b.g.Tensors[where.of].Maker
		if maker < 0 {
			v.Fault(Code, "slices: region %d: within: %q: expected rows of what a node of the source makes, found %q", i, graph.Short(name), graph.Short(b.g.Tensors[where.of].Name))
			continue
		}
		old := b.g.Nodes[maker]
		if !v.knowsRows(old) {
			return false
		}
		n := d.node(old, where)
		if n == nil {
			v.Fault(Code, "slices: region %d: within: %q: expected rows that %s makes of rows that are listed, found rows [%d, %d) of axis %d", i, graph.Short(name), b.g.Label(maker), where.lo, where.hi, where.axis)
			continue
		}
		n.Outputs = []graph.TensorID{id}
		for _, t := range append(slices.Clone(n.Inputs), id) {
			if _, inSlice := b.slices[t]; inSlice && !used[t] {
				used[t] = true
				order = append(order, b.g.Tensors[t].Name)
			}
		}
		b.g.Tensors[id].Maker = graph.NodeID(len(b.g.Nodes))
		b.g.Nodes = append(b.g.Nodes, n)
		b.ofSlice[n] = old
	}
	for k, t := range x.Within.Tensors {
		if k >= len(order) || t.Tensor != order[k] {
			v.Fault(Code, "slices: region %d: within: expected what its nodes read and make, in that order, found %q", i, graph.Short(t.Tensor))
			break
		}
	}
	return true
}

// relative returns contents as those of tensor t of a slice, if they are: rows of it
// instead of rows of a tensor of the source.
func (b *before) relative(x contents, t graph.TensorID) contents {
	r, inSlice := b.slices[t]
	if !inSlice || x.kind != hasRows {
		return x
	}
	y := b.relative(x, r.of)
	length := b.shape(r.of)[r.axis]
	switch {
	case y.of != r.of:
		return x
	case y.axis == none:
		y.axis, y.lo, y.hi = r.axis, 0, length
	case y.axis == r.axis && y.lo == anyRow:
		y.lo, y.hi = r.lo, r.lo+y.hi
		if y.hi < r.hi {
			y.of, y.lo, y.hi = t, anyRow, y.hi-r.lo
			return y
		}
	}
	if y.axis != r.axis || y.lo < r.lo || y.hi > r.hi {
		return x
	}
	y.of, y.lo, y.hi = t, y.lo-r.lo, y.hi-r.lo
	if y.lo == 0 && y.hi == r.hi-r.lo {
		y.axis, y.lo, y.hi = none, 0, 0
	}
	return y
}

// frame is a slice of a region.
type frame struct{ region, slice int }

// frames returns the slices in which a node of a slice runs, the outermost first.
func (c *sliced) frames(p *sliceNode) []frame {
	list := []frame{{p.region, p.slice}}
	for at := p.region; ; {
		w := c.v.Plan.Slices.Regions[at].Within
		if w == nil || w.Region >= at { // a region that is no earlier one has been reported
			return list
		}
		list = append([]frame{{w.Region, w.Slice}}, list...)
		at = w.Region
	}
}

// outer calls a function with each region around that of a node of a slice.
func (c *sliced) outer(p *sliceNode, visit func(r *regionFound, region int)) {
	list := c.frames(p)
	for _, f := range list[:len(list)-1] {
		visit(&c.regions[f.region], f.region)
	}
}

// inRegion reports whether a node belongs to a region, or to one inside of it.
func (c *sliced) inRegion(p *sliceNode, region int) bool {
	for _, f := range c.frames(p) {
		if f.region == region {
			return true
		}
	}
	return false
}

// sourceName returns the name of the tensor of the source of which a tensor of a slice has
// rows, and that of any other tensor.
func (c *sliced) sourceName(name string) string {
	if t, inSlice := c.b.made[name]; inSlice {
		return c.b.g.Tensors[c.b.slices[t].of].Name
	}
	return name
}

// rightWithin checks that regions inside of slices name earlier regions and their slices.
func (v *prover) rightWithin() bool {
	ok := true
	list := v.Plan.Slices.Regions
	for i, r := range list {
		if w := r.Within; w != nil && (w.Region < 0 || w.Region >= i || w.Slice < 0 || w.Slice >= list[w.Region].Count) {
			v.Fault(Code, "slices: region %d: within: expected an earlier region and one of its slices, found region %d, slice %d", i, w.Region, w.Slice)
			ok = false
		}
	}
	return ok
}

// inside returns how often each slice of a region runs its nodes in slices again: for each
// node, by its first output, the slices.
func (v *prover) inside(region int) map[string][]int {
	copies := map[string][]int{}
	for _, r := range v.Plan.Slices.Regions {
		w := r.Within
		if w == nil || w.Region != region {
			continue
		}
		of := map[string]string{}
		for _, t := range w.Tensors {
			of[t.Tensor] = t.Of
		}
		for _, name := range r.Nodes {
			copies[of[name]] = append(copies[of[name]], w.Slice)
		}
	}
	return copies
}
