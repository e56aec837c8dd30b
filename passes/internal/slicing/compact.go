package slicing

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// RoleCall is the role of a call of a local function that has nodes of a slice. In the
// place of a tensor it has the name of the function. A node of such a function has a role
// and an index into the region's names as its metadata.
const RoleCall = "call"

// spare is the share of the peak by which calls may raise it: 1/spare.
const spare = 64

// Compact replaces the nodes of slices by calls of local functions, so that the file has
// the nodes of a region once, and not once for each slice. The model is one that Rewrite
// made of the regions, which stand in the order of their numbers, with inferred types; it does not change. names lists for each region the tensors to which the metadata of the
// functions' nodes refer.
//
// A function has consecutive nodes of one slice. What rows they make and read is the
// call's matter: rows are taken inside of the function, by constants that the call
// passes. So all slices with the same operators and attributes share functions, and so do
// regions with the same. What writes rows into an output or adds to a sum stays outside,
// where it works in place.
//
// While a call runs, all that it reads and all its results take memory, and the results
// do so twice. A slice therefore consists of several calls if one would raise the peak.
func (p *Program) Compact(m *graph.Model, list []*Choice, room Room) (out *graph.Model, names [][]string, err error) {
	c := compact{p: p, g: m.Graph, allowed: room.of(list), names: make([][]string, len(list)), index: make([]map[string]int, len(list)), joined: joints(m.Graph)}
	for i := range c.index {
		c.index[i] = map[string]int{}
	}
	c.parts()
	c.divide()
	model := *m
	model.Graph = m.Graph.Clone()
	if err := c.write(&model); err != nil {
		return nil, nil, err
	}
	return &model, c.names, nil
}

// Room says how many bytes calls with nodes of slices may take.
type Room struct {
	Peak int64 // of the model without calls, in its best order
	Less int64 // by which estimates turned out too large
}

// of returns for each region by how many bytes
// calls may raise its peak, so that the peak of all rises by a small share. It may be less
// than 0 where calls in an order that is found turned out to need more.
func (x Room) of(list []*Choice) []int64 {
	out := make([]int64, len(list))
	for i, c := range list {
		out[i] = max(x.Peak-c.Peak, 0) + x.Peak/spare - x.Less
	}
	return out
}

// compact is the state of one Compact.
type compact struct {
	p       *Program
	g       *graph.Graph
	allowed []int64 // by region: bytes by which calls may raise the peak
	names   [][]string
	index   []map[string]int // by region: of a name among the names
	runs    []*run
	joined  map[graph.TensorID]joint
}

// run has the nodes of one slice, which are consecutive.
type run struct {
	region, slice int
	nodes         []graph.NodeID
	roles         []role
	calls         []span // of the nodes, disjoint and ascending
}

// role is what the metadata of a node say: what it does, and the index of a name.
type role struct {
	what  string
	index int // -1: no function can have the node
}

// span is a range of the nodes of a run, without its end.
type span struct{ from, to int }

// parts finds the runs, and collects the names of the tensors of nodes that functions can
// have.
func (c *compact) parts() {
	added := c.sums()
	var now *run
	for i, n := range c.g.Nodes {
		x, sliced := TagOf(n)
		if !sliced {
			now = nil
			continue
		}
		if now == nil || now.region != x.Region || now.slice != x.Slice {
			now = &run{region: x.Region, slice: x.Slice}
			c.runs = append(c.runs, now)
		}
		k, known := c.index[x.Region][x.Tensor]
		switch {
		case x.Role != roleNode && x.Role != roleRows || added[regionTensor{x.Region, x.Tensor}] || !copyable(n) || x.Role == roleRows && c.dies(n.Inputs[0], x.Region):
			k = -1
		case !known:
			k = len(c.names[x.Region])
			c.index[x.Region][x.Tensor] = k
			c.names[x.Region] = append(c.names[x.Region], x.Tensor)
		}
		now.nodes, now.roles = append(now.nodes, graph.NodeID(i)), append(now.roles, role{x.Role, k})
	}
}

// Tag is what the metadata of a node of a slice say.
type Tag struct {
	Region, Slice int
	Role, Tensor  string
}

// TagOf reads the metadata of a node; false if it belongs to no slice.
func TagOf(n *graph.Node) (x Tag, sliced bool) {
	text, sliced := n.Prop(Prop)
	if !sliced {
		return x, false
	}
	words := strings.SplitN(text, " ", 4)
	x.Region, _ = strconv.Atoi(words[0]) // as Rewrite wrote them
	x.Slice, _ = strconv.Atoi(words[1])
	x.Role, x.Tensor = words[2], words[3]
	return x, true
}

// Copy reports whether the node is a copy of one of the model before.
func (x Tag) Copy() bool { return x.Role == roleNode }

// dies reports whether slices of a region read rows of a tensor of which nobody else reads
// anything: all rows may be taken before the first slice, and those of each slice die in
// it. So no call reads the tensor.
func (c *compact) dies(t graph.TensorID, region int) bool {
	x := c.g.Tensors[t]
	if x.Output || x.Data != nil {
		return false
	}
	if x.Maker >= 0 {
		if from, sliced := TagOf(c.g.Nodes[x.Maker]); sliced && from.Region == region {
			return false
		}
	}
	for _, q := range x.Readers {
		if to, sliced := TagOf(c.g.Nodes[q]); !sliced || to.Region != region || to.Role != roleRows {
			return false
		}
	}
	return true
}

// regionTensor is a tensor in a region.
type regionTensor struct {
	region int
	tensor string
}

// sums returns the tensors to which copies of a node add in place, from slice to slice.
func (c *compact) sums() map[regionTensor]bool {
	added := map[regionTensor]bool{}
	for _, n := range c.g.Nodes {
		x, sliced := TagOf(n)
		if !sliced || x.Role != roleNode {
			continue
		}
		for _, a := range n.Semantics.Inplace {
			t := n.Inputs[a.In]
			if t < 0 || c.g.Tensors[t].Maker < 0 {
				continue
			}
			if from, sliced := TagOf(c.g.Nodes[c.g.Tensors[t].Maker]); sliced && from.Region == x.Region && from.Slice != x.Slice {
				added[regionTensor{x.Region, x.Tensor}] = true
			}
		}
	}
	return added
}

// copyable reports whether a function can have a node: one without bodies, whose
// attributes can be compared.
func copyable(n *graph.Node) bool {
	if len(n.Captures) > 0 || n.Semantics.Call != nil || ops.IsConstant(n) {
		return false
	}
	for _, a := range n.Attrs {
		if a.Graph != nil || a.Graphs != nil || a.Sparse != nil || a.Tensors != nil || a.TypeOf != nil || a.Ref != "" || a.Tensor != nil && a.Tensor.Raw == nil {
			return false
		}
	}
	return true
}

// shape says of nodes what a function has of them: operators, attributes, metadata, and
// which node reads what. Inputs are the tensors that the nodes read and do not make, in
// the order in which they read them.
func (c *compact) shape(r *run, s span) (text string, inputs []graph.TensorID) {
	var b strings.Builder
	local := map[graph.TensorID]string{}
	for i := s.from; i < s.to; i++ {
		n := c.g.Nodes[r.nodes[i]]
		fmt.Fprintf(&b, "%q %q %q %s %d (", n.Domain, n.Op, n.Overload, r.roles[i].what, r.roles[i].index)
		for _, t := range n.Inputs {
			name, known := local[t]
			switch {
			case t < 0:
				name = "-"
			case !known:
				name = fmt.Sprint("in", len(inputs))
				local[t] = name
				inputs = append(inputs, t)
			}
			b.WriteString(name + " ")
		}
		for k, t := range n.Outputs {
			if t >= 0 {
				local[t] = fmt.Sprint(i-s.from, ".", k)
			}
			fmt.Fprintf(&b, ">%t", t >= 0)
		}
		for _, a := range n.Attrs {
			fmt.Fprintf(&b, "; %q %d %b %d %q %b %d %q", a.Name, a.Type, a.Float, a.Int, a.String, a.Floats, a.Ints, a.Strings)
			if d := a.Tensor; d != nil {
				fmt.Fprintf(&b, " %d %d %x", d.Type, d.Dims, d.Raw)
			}
		}
		b.WriteString(")\n")
	}
	return b.String(), inputs
}

// divide finds the calls of each run. Runs with the same operators and attributes are
// divided in the same way.
func (c *compact) divide() {
	alike := map[string][]*run{}
	var order []string
	for _, r := range c.runs {
		text, _ := c.shape(r, span{0, len(r.nodes)})
		if alike[text] == nil {
			order = append(order, text)
		}
		alike[text] = append(alike[text], r)
	}
	for _, text := range order {
		var largest *loads
		allowed := int64(0)
		for i, r := range alike[text] {
			x := c.loads(r)
			if largest == nil || x.peak > largest.peak {
				largest = x
			}
			if a := c.allowed[r.region]; i == 0 || a < allowed {
				allowed = a
			}
		}
		calls := largest.divide(largest.peak + allowed)
		for _, r := range alike[text] {
			r.calls = calls
		}
	}
}

// loads says what the nodes of a run hold in memory when they run one after the other.
// What the run does not make is left out, and so is what lives longer anyway: outputs that
// slices put together or sum.
type loads struct {
	c        *compact
	r        *run
	at       map[graph.TensorID]int // the storage of each tensor that the run makes
	storages []kept
	peak     int64
}

// kept is the storage of a tensor that a run makes, and of its views.
type kept struct {
	bytes       int64
	first, last int // positions in the run; last is the number of nodes if it is read behind them
	tensors     []graph.TensorID
	over        int  // the storage over which it is written, -1: none
	outer       bool // a view of what the run does not make
}

// loads simulates a run.
func (c *compact) loads(r *run) *loads {
	x := &loads{c: c, r: r, at: map[graph.TensorID]int{}}
	position := make(map[graph.NodeID]int, len(r.nodes))
	for i, v := range r.nodes {
		position[v] = i
	}
	for i, v := range r.nodes {
		n := c.g.Nodes[v]
		for k, t := range n.Outputs {
			if t < 0 {
				continue
			}
			s := -1
			outer := false
			for _, a := range n.Semantics.Views {
				if a.Out == k && n.Inputs[a.In] >= 0 {
					of, made := x.at[n.Inputs[a.In]]
					if outer = !made; made {
						s = of
					}
				}
			}
			if s < 0 {
				s = len(x.storages)
				k := kept{first: i, last: i, over: -1, outer: outer}
				if !outer && (r.roles[i].index >= 0 || r.roles[i].what == roleRows) {
					k.bytes = c.p.round(c.g.Tensors[t].Bytes)
				}
				x.storages = append(x.storages, k)
			}
			x.at[t] = s
			st := &x.storages[s]
			st.tensors = append(st.tensors, t)
			st.last = max(st.last, i)
			if c.g.Tensors[t].Output {
				st.last = len(r.nodes)
			}
			for _, q := range c.g.Tensors[t].Readers {
				if at, inside := position[q]; inside {
					st.last = max(st.last, at)
				} else {
					st.last = len(r.nodes)
				}
			}
		}
	}
	x.overwrite()
	from := x.from(0)
	for i := range r.nodes {
		x.peak = max(x.peak, from.next(i))
	}
	return x
}

// overwrite finds the storages that are written over one that dies.
func (x *loads) overwrite() {
	taken := map[int]bool{}
	for i, v := range x.r.nodes {
		n := x.c.g.Nodes[v]
		for _, a := range n.Semantics.Inplace {
			if n.Outputs[a.Out] < 0 || n.Inputs[a.In] < 0 {
				continue
			}
			s, made := x.at[n.Inputs[a.In]]
			t := x.at[n.Outputs[a.Out]]
			if made && s != t && !taken[s] && x.storages[t].over < 0 && x.storages[t].first == i && x.storages[s].last == i && x.storages[s].bytes == x.storages[t].bytes && !x.storages[s].outer && !x.storages[t].outer {
				x.storages[t].over, taken[s] = s, true
			}
		}
	}
}

// walk goes through the nodes of a run from one on.
type walk struct {
	*loads
	start int
	live  int64
	dying map[int]int64 // by position: bytes that die behind it
}

func (x *loads) from(start int) *walk { return &walk{loads: x, start: start, dying: map[int]int64{}} }

// next runs node i, and returns the load of what the walk has made while it runs.
func (w *walk) next(i int) (load int64) {
	for _, t := range w.c.g.Nodes[w.r.nodes[i]].Outputs {
		if t < 0 {
			continue
		}
		s := w.at[t]
		st := &w.storages[s]
		if st.tensors[0] != t {
			continue
		}
		if st.over >= 0 && w.storages[st.over].first >= w.start {
			w.dying[i] -= st.bytes // what it is written over does not die here
		} else {
			w.live += st.bytes
		}
		w.dying[st.last] += st.bytes
	}
	load = w.live
	w.live -= w.dying[i]
	return load
}

// held returns the bytes of what lives behind the nodes before a position, and is read
// there or later.
func (x *loads) held(at int) (bytes int64) {
	for i := range x.storages {
		if st := &x.storages[i]; st.first < at && st.last >= at {
			bytes += st.bytes
		}
	}
	return bytes
}

// returnable reports whether the tensors that nodes make for others can be results of a
// call: none is a view of what the nodes read, and no two have one storage.
func (x *loads) returnable(s span) bool {
	seen := map[int]bool{}
	for i := s.from; i < s.to; i++ {
		for _, t := range x.c.g.Nodes[x.r.nodes[i]].Outputs {
			if t < 0 || !x.c.readBehind(x.r, s, t) {
				continue
			}
			at := x.at[t]
			if st := &x.storages[at]; st.outer || st.first < s.from || seen[at] {
				return false
			}
			seen[at] = true
		}
	}
	return true
}

// readBehind reports whether nodes outside of a span read a tensor that it makes.
func (c *compact) readBehind(r *run, s span, t graph.TensorID) bool {
	if c.g.Tensors[t].Output {
		return true
	}
	first, last := r.nodes[s.from], r.nodes[s.to-1]
	for _, q := range c.g.Tensors[t].Readers {
		if q < first || q > last {
			return true
		}
	}
	return false
}

// longest is the largest number of nodes of a function.
const longest = 1000

// divide returns the calls, each as long as possible, such that what the run holds stays
// within a limit in bytes.
func (x *loads) divide(limit int64) (calls []span) {
	for a := 0; a < len(x.r.nodes); {
		held, peak, end := x.held(a), int64(0), a+1
		w := x.from(a)
		for b := a; b < min(a+longest, len(x.r.nodes)) && x.r.roles[b].index >= 0; b++ {
			peak = max(peak, w.next(b))
			if held+peak > limit {
				break
			}
			if b > a && held+peak+w.live <= limit && x.returnable(span{a, b + 1}) && !x.c.dividesJoint(x.r, span{a, b + 1}) {
				end = b + 1
			}
		}
		if end > a+1 {
			calls = append(calls, span{a, end})
		}
		a = end
	}
	return calls
}
