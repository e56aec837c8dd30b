package slicing

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// class says when a node of a window runs.
type class uint8

const (
	open   class = iota // not decided yet
	before              // whole, before the slices
	inside              // in slices
	sums                // in slices, whose results are summed
	behind              // whole, after the slices
)

// Region is a set of nodes of the window [Start, End] of a program that can run in
// slices. The other nodes of the window run before or behind them.
type Region struct {
	Start, End int
	Seed       int // the node and the axis of its first output from which it was found
	Axis       int
	Nodes      []int // ascending
	Inputs     []graph.TensorID
	Outputs    []graph.TensorID // read outside of the region, or graph outputs

	p      *Program
	class  []class                  // of each node of the window
	cuts   []*ops.Cut               // of those that are inside
	sum    map[int]*ops.Sum         // of the nodes that are sums
	pieced []*attention             // whose scores slices cut along the axis that is normalised
	block  map[graph.TensorID]int64 // of the outputs made row by row: what slices divide are blocks of that many rows

	over map[int]int64 // of the sums: the same for the rows that they sum over
	// The fewest blocks of an output or a sum: the region cannot be cut into more slices.
	fewest int64

	numbers *pieces  // nil: not asked for yet
	whole   *float64 // the time of its nodes when they run whole, in nanoseconds; nil: not asked for yet
}

// at returns the class of a node of the window.
func (r *Region) at(node int) class { return r.class[node-r.Start] }

// cut returns the map of a node that is inside.
func (r *Region) cut(node int) *ops.Cut { return r.cuts[node-r.Start] }

// axisOf returns the axis of a tensor that slices make row by row; false if they do not.
func (r *Region) axisOf(t graph.TensorID) (axis int, rows bool) {
	if t < 0 {
		return ops.Whole, false
	}
	v := int(r.p.g.Tensors[t].Maker)
	if v < r.Start || v > r.End || r.at(v) != inside {
		return ops.Whole, false
	}
	axis = r.cut(v).Out[slices.Index(r.p.g.Nodes[v].Outputs, t)]
	return axis, axis != ops.Whole
}

// owner returns the owner of a node.
func (p *Program) owner(node int) int32 {
	if p.Owners == nil {
		return 0
	}
	return p.Owners[node]
}

// need is the axis along which a tensor is needed.
type need struct {
	axis  int // ops.Whole: all of it
	known bool
}

// Find returns the region of the window [s, e] that makes an axis of the first output
// of the node seed in slices; nil if there is none.
//
// Backwards from the seed, a node belongs to the region if what is needed of its
// outputs is needed along one axis, and it has a dimension map for that axis. What is
// needed otherwise is computed whole, before the slices. Forwards, a node that reads
// the region belongs to it if it has a map that agrees with the axes of all tensors of
// the region that it reads, or if it sums over them. What reads a sum, or cannot join,
// runs behind the slices. So no edge leads backwards, whatever the window.
func (p *Program) Find(s, e, seed, axis int) *Region {
	if p.cut(seed, axis) == nil || p.owner(seed) < 0 {
		return nil
	}
	r := &Region{
		Start: s, End: e, Seed: seed, Axis: axis, p: p, class: make([]class, e-s+1), cuts: make([]*ops.Cut, e-s+1),
		block: map[graph.TensorID]int64{},
	}
	r.backwards(seed, axis)
	if r.at(seed) != inside {
		return nil
	}
	r.forwards()
	r.absorb()
	if !r.inPieces() || !r.collect() || r.dividesJoint() {
		return nil
	}
	r.blocks()
	return r
}

// backwards decides about the nodes that the seed needs.
func (r *Region) backwards(seed, axis int) {
	p := r.p
	if p.needs == nil {
		p.needs = make([]need, len(p.g.Tensors))
	}
	needs := func(t graph.TensorID) need { return p.needs[t] }
	var list []graph.TensorID
	defer func() {
		for _, t := range list {
			p.needs[t] = need{}
		}
	}()
	want := func(t graph.TensorID, axis int) {
		if p.g.Tensors[t].Maker < graph.NodeID(r.Start) {
			return
		}
		n := p.needs[t]
		if !n.known {
			list = append(list, t)
		} else if n.axis != axis {
			axis = ops.Whole
		}
		p.needs[t] = need{axis, true}
	}
	for _, t := range p.g.Nodes[seed].Outputs {
		if t >= 0 {
			if k := p.cut(seed, axis).Out[slices.Index(p.g.Nodes[seed].Outputs, t)]; k != ops.Whole {
				want(t, k)
			}
		}
	}
	for v := seed; v >= r.Start; v-- {
		n := p.g.Nodes[v]
		cut, wanted := r.wanted(v, needs)
		if !wanted {
			continue
		}
		if cut == nil {
			r.class[v-r.Start] = before
			n.Reads(func(t graph.TensorID) { want(t, ops.Whole) })
			continue
		}
		r.class[v-r.Start], r.cuts[v-r.Start] = inside, cut
		for j, t := range n.Inputs {
			if t >= 0 {
				want(t, cut.In[j].Axis)
			}
		}
	}
}

// wanted reports whether an output of a node is needed, and returns the map by which
// its outputs can be made along the axes along which they are needed, nil if there is
// none.
func (r *Region) wanted(v int, needs func(graph.TensorID) need) (cut *ops.Cut, wanted bool) {
	n := r.p.g.Nodes[v]
	first := -1
	for k, t := range n.Outputs {
		if t < 0 || !needs(t).known {
			continue
		}
		wanted = true
		if needs(t).axis == ops.Whole || r.p.owner(v) != r.p.owner(r.Seed) {
			return nil, true
		}
		if first < 0 {
			first = k
		}
	}
	if !wanted {
		return nil, false
	}
	cut, _ = r.p.cutOutput(v, first, needs(n.Outputs[first]).axis)
	if cut == nil {
		return nil, true
	}
	for k, t := range n.Outputs {
		if t >= 0 && needs(t).known && cut.Out[k] != needs(t).axis {
			return nil, true
		}
	}
	if !r.makes(n, cut) {
		return nil, true
	}
	return cut, true
}

// makes reports whether slices make every output of a node that anything reads, or make
// what its readers take from it.
func (r *Region) makes(n *graph.Node, cut *ops.Cut) bool {
	for k, t := range n.Outputs {
		if t < 0 {
			continue
		}
		modulo := int64(0)
		if cut.Modulo != nil {
			modulo = cut.Modulo[k]
		}
		if cut.Out[k] != ops.Whole && modulo == 0 {
			continue
		}
		x := r.p.g.Tensors[t]
		if x.Output || r.p.Keep[x.Name] || len(x.Readers) > 0 && modulo == 0 {
			return false
		}
		for _, q := range x.Readers {
			if v := int(q); v < r.Start || v > r.End || !r.p.remainder(v, t, modulo) {
				return false
			}
		}
	}
	return true
}

// remainder reports whether a node takes from tensor t its remainder on division by a
// divisor of modulo.
func (p *Program) remainder(node int, t graph.TensorID, modulo int64) bool {
	n := p.g.Nodes[node]
	if n.Domain != "" || n.Op != "Mod" || n.Attr("fmod") != nil || len(n.Inputs) != 2 || n.Inputs[0] != t || n.Inputs[1] < 0 || !p.mayRunInSlices(node) {
		return false
	}
	d, ok := p.Inference.Values[n.Inputs[1]].Ints()
	return ok && len(d) == 1 && d[0] > 0 && modulo%d[0] == 0
}

// forwards decides about the nodes that the seed does not need.
func (r *Region) forwards() {
	for v := r.Start; v <= r.End; v++ {
		if r.at(v) == open {
			r.class[v-r.Start] = r.join(v)
		}
	}
}

// join decides about a node by what it reads.
func (r *Region) join(v int) class {
	n, after, cutting := r.p.g.Nodes[v], false, false
	n.Reads(func(t graph.TensorID) {
		maker := int(r.p.g.Tensors[t].Maker)
		if maker < r.Start {
			return
		}
		switch r.at(maker) {
		case inside:
			cutting = true
		case sums, behind:
			after = true
		}
	})
	if after {
		return behind
	}
	if !cutting {
		return before
	}
	if len(n.Outputs) == 0 || n.Outputs[0] < 0 || r.p.owner(v) != r.p.owner(r.Seed) {
		return behind
	}
	for axis := range r.p.shape(n.Outputs[0]) {
		if cut := r.p.cut(v, axis); cut != nil && r.agrees(n, cut.In) && r.makes(n, cut) {
			r.cuts[v-r.Start] = cut
			return inside
		}
	}
	if a := r.p.attention(v); a != nil && a.product <= r.End {
		x := n.Inputs[0]
		if axis, made := r.axisOf(x); made && axis == a.axis && r.p.fixed(x, axis) {
			r.pieced = append(r.pieced, a)
			r.cuts[v-r.Start] = a.cut(int64(r.p.shape(x)[axis]))
			return inside
		}
	}
	axes := make([]int, len(n.Inputs))
	for j, t := range n.Inputs {
		axes[j] = ops.Whole
		if a, made := r.axisOf(t); made {
			axes[j] = a
		}
	}
	if r.p.Sums && r.p.mayRunInSlices(v) {
		if sum := r.p.sumAnywhere(v, axes); sum != nil && r.p.alongParts(n, sum.In) && (!sum.Mean || r.p.divides(n.Outputs[0])) {
			if r.sum == nil {
				r.sum = map[int]*ops.Sum{}
			}
			r.sum[v] = sum
			return sums
		}
	}
	return behind
}

// absorb takes into the region what runs whole before the slices for them alone: a node
// of whose outputs all readers are in the region and read rows, as the zeros to which
// slices scatter. It leaves out nodes that read more than they make, since what they read
// would live longer.
func (r *Region) absorb() {
	for v := r.End; v >= r.Start; v-- {
		if r.at(v) != before {
			continue
		}
		if cut := r.absorbed(v); cut != nil {
			r.class[v-r.Start], r.cuts[v-r.Start] = inside, cut
		}
	}
}

// absorbed returns the map by which slices make what only they read of a node; nil if
// there is none.
func (r *Region) absorbed(v int) *ops.Cut {
	n, needs := r.p.g.Nodes[v], make([]need, len(r.p.g.Nodes[v].Outputs))
	if !r.p.grows(n) {
		return nil
	}
	for k, t := range n.Outputs {
		if t < 0 {
			continue
		}
		x := r.p.g.Tensors[t]
		if x.Output || r.p.Keep[x.Name] {
			return nil
		}
		for _, q := range x.Readers {
			axis := r.reads(int(q), t)
			if old := needs[k]; axis == ops.Whole || old.known && old.axis != axis {
				return nil
			}
			needs[k] = need{axis, true}
		}
	}
	cut, _ := r.wanted(v, func(t graph.TensorID) need { return needs[slices.Index(n.Outputs, t)] })
	return cut
}

// grows reports whether a node makes no fewer bytes than it reads.
func (p *Program) grows(n *graph.Node) bool {
	bytes := int64(0)
	for _, t := range n.Outputs {
		if t >= 0 {
			bytes += p.g.Tensors[t].Bytes
		}
	}
	for j, t := range n.Inputs {
		if t >= 0 && p.whole(t) > 0 && !slices.Contains(n.Inputs[:j], t) {
			bytes -= p.g.Tensors[t].Bytes
		}
	}
	return bytes >= 0
}

// reads returns the axis along which a node of the region reads a tensor; ops.Whole if it
// reads all of it, along two axes, or does not belong to the region.
func (r *Region) reads(v int, t graph.TensorID) int {
	if !r.has(v) {
		return ops.Whole
	}
	axis, found := ops.Whole, false
	for j, x := range r.p.g.Nodes[v].Inputs {
		if x != t {
			continue
		}
		a := r.rowsOf(v)[j].Axis
		if found && a != axis {
			return ops.Whole
		}
		axis, found = a, true
	}
	return axis
}

// agrees reports whether a map reads every tensor that the region makes along the axis
// along which it is made.
func (r *Region) agrees(n *graph.Node, in []ops.Rows) bool {
	for j, t := range n.Inputs {
		if t < 0 {
			continue
		}
		if a, made := r.axisOf(t); made && in[j].Axis != a {
			return false
		}
	}
	return true
}

// collect lists nodes, inputs and outputs. It reports whether there is an output.
func (r *Region) collect() bool {
	g := r.p.g
	for v := r.Start; v <= r.End; v++ {
		if c := r.at(v); c == inside || c == sums {
			r.Nodes = append(r.Nodes, v)
		}
	}
	for _, v := range r.Nodes {
		for _, t := range g.Nodes[v].Inputs {
			if t >= 0 && !r.Makes(t) && !r.p.needs[t].known {
				r.p.needs[t].known = true
				r.Inputs = append(r.Inputs, t)
			}
		}
		for _, t := range g.Nodes[v].Outputs {
			if t < 0 {
				continue
			}
			read := g.Tensors[t].Output || r.p.Keep[g.Tensors[t].Name] || slices.ContainsFunc(g.Tensors[t].Readers, func(q graph.NodeID) bool { return !r.has(int(q)) })
			if read {
				r.Outputs = append(r.Outputs, t)
			}
		}
	}
	for _, t := range r.Inputs {
		r.p.needs[t].known = false
	}
	return len(r.Outputs) > 0
}

// has reports whether a node belongs to the region.
func (r *Region) has(v int) bool {
	if v < r.Start || v > r.End {
		return false
	}
	c := r.at(v)
	return c == inside || c == sums
}
