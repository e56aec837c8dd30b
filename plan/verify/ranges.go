package verify

import (
	"fmt"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// A plan for ranges of dimensions has the buffers of the corner, where all lengths are
// largest. This file proves what it says of the other points, by inference at each or, if
// they are too many, by one inference with bounded lengths, and at the points of the table:
//
//   - The tensors have known sizes, and no buffer, so no arena, is larger than at the
//     corner. The offsets of a point follow from the stacking, in which no two buffers
//     overlap, whatever their sizes.
//   - Views and in-place results are those that are possible at every point: the rest of
//     the verifier sees these alone. With aliases, the tensors lie where their bytes are at
//     every point, too.
//   - A lower bound of each point, with the sharing that is possible there, follows from
//     the certificates by minimum cuts; it is not below the arena divided by the worst
//     ratio.
//   - The table, the smallest and the worst point have the right figures, and each
//     polynomial gives the sizes of its buffers.

// maxRangePoints is the largest number of points that are inferred.
const maxRangePoints = 1 << 20

// maxPointWork limits the work on the bound of one point.
const maxPointWork = 1 << 22

// onlyCorner reports whether the points of ranges other than the corner are not checked.
func (v *verifier) onlyCorner() bool { return v.Plan.Ranges != nil && v.opt.SkipBounds }

// points checks the ranges of a plan, and leaves to the nodes of the model only the
// sharing that all points have.
func (v *verifier) points() bool {
	if v.Plan.Ranges == nil {
		for _, name := range sortedKeys(v.Plan.Dims) {
			if d := v.Plan.Dims[name]; d.Low != nil || d.Values != nil || d.Step != 0 || d.Follows {
				v.Fault(CodeRange, "dims: %q has several lengths: expected ranges", graph.Short(name))
			}
		}
		for k := range v.Plan.Subgraphs {
			if v.Plan.Subgraphs[k].Ranges != nil {
				v.Fault(CodeRange, "subgraphs: %d has a stacking: expected ranges", k)
			}
		}
		return true
	}
	if err := v.Plan.CheckRanges(); err != nil {
		v.Fault(CodeRange, "%v", err)
		return true
	}
	graphs := plan.Graphs(v.Model.Graph)
	for _, g := range graphs {
		for _, n := range g.Nodes {
			if n.Semantics.Call != nil {
				v.Fault(CodeRange, "ranges: node %q calls a function: expected none", graph.Short(n.Name))
				return true
			}
		}
	}
	if len(v.Plan.Subgraphs) != len(graphs)-1 {
		v.Fault(CodeSubgraph, "subgraphs: expected %d, found %d", len(graphs)-1, len(v.Plan.Subgraphs))
		return true
	}
	if v.Plan.Ranges.Inferred > maxRangePoints {
		v.Fault(CodeRange, "ranges: expected at most %d points that are inferred, found %d", maxRangePoints, v.Plan.Ranges.Inferred)
		return true
	}
	c := newPointChecker(v)
	c.rangeCertificates()
	if v.onlyCorner() {
		v.r.Ranges = "the corner alone was checked"
		v.Claim("ranges")
		c.followsAtCorner()
		c.keepTaken()
		return true
	}
	c.run()
	v.pointsOf = c
	return true
}

// rangeCertificates checks the form of the certificates.
func (c *pointChecker) rangeCertificates() {
	for k := range c.layers {
		l := &c.layers[k]
		for i, x := range l.certificates {
			switch {
			case x.Kind != plan.CertificateCut && x.Kind != plan.CertificateFirst && x.Kind != plan.CertificateLast:
				c.v.Fault(CodeCertificate, "ranges: %scertificate %d: no proof is known for kind %q", l.where, i, graph.Short(x.Kind))
			case len(x.Steps) == 0 || x.Kind == plan.CertificateCut && len(x.Steps) > 1 || len(x.Nodes) != len(x.Steps):
				c.v.Fault(CodeCertificate, "ranges: %scertificate %d: expected the steps of nodes, one for a cut, and their names, found %d and %d", l.where, i, len(x.Steps), len(x.Nodes))
			default:
				for k, step := range x.Steps { // in range: CheckRanges
					if n := l.g.Nodes; step >= len(n) || n[step].Name != x.Nodes[k] {
						c.v.Fault(CodeCertificate, "ranges: %scertificate %d: expected the name of the node of step %d, found %q", l.where, i, step, graph.Short(x.Nodes[k]))
					}
				}
			}
		}
	}
}

// pointChecker checks the points of ranges.
type pointChecker struct {
	v       *verifier
	r       *plan.Ranges
	names   []string // of the dimensions, ascending
	lengths [][]int64
	fixed   map[string]int64 // lengths of the other dimensions
	layers  []stackedGraph   // the main graph, then the bodies as the plan lists them
	rows    map[int][]*plan.RangePoint
	points  []int // those that are inferred, ascending; the last is the corner
	results []pointResult
	moves   map[string]bool // dimensions without a range that have another length at some point than at the corner
}

// pointResult is what was found at a point.
type pointResult struct {
	refused    bool
	refusal    string
	arena      int64
	peak       int64
	optimal    bool // the bound is the arena
	fault      string
	code       string
	wrongSizes []int          // polynomials
	claims     []proof.Claim  // of the rows at the point
	lengths    []ops.BoundDim // of dimensions without a range
}

// stackedGraph is the main graph, or a body, with what the plan says of it.
type stackedGraph struct {
	g        *graph.Graph // at the corner
	where    string       // of a body
	outer    int          // of a body: the index of the graph around it; -1: it is the main graph
	step     int          // its node there
	bytes    int64        // of the arena, or of the body's workspace
	buffers  []plan.Buffer
	tensors  [][]graph.TensorID // by buffer
	spans    [][]graph.TensorID // by span
	steps    int
	stacking []int
	sizeOf   []int
	behind   []int       // by buffer: the one right behind it, or none; nil: no buffer has any
	tiers    []plan.Pool // of the main graph, if there are several: those in which its buffers are stacked

	certificates []plan.RangeCertificate
}

// common is the sharing that several points have, by node of all graphs.
type common struct {
	known          bool
	views, inplace [][]graph.Alias
}

func newPointChecker(v *verifier) *pointChecker {
	c := &pointChecker{v: v, r: v.Plan.Ranges, fixed: map[string]int64{}, rows: map[int][]*plan.RangePoint{}, moves: map[string]bool{}}
	c.names, c.lengths = v.Plan.Box()
	for name, d := range v.Plan.Dims {
		if !d.Assumed && !d.Follows && !slices.Contains(c.names, name) {
			c.fixed[name] = d.Value
		}
	}
	for k, g := range plan.Graphs(v.Model.Graph) {
		l := stackedGraph{g: g, outer: none, bytes: v.Plan.Summary.ArenaBytes, buffers: v.Plan.Buffers, steps: max(1, len(v.Plan.Steps)), stacking: c.r.Stacking, sizeOf: c.r.SizeOf, certificates: c.r.Certificates}
		if k > 0 { // CheckRanges has seen that there is a stacking, and a graph around it before
			p := &v.Plan.Subgraphs[k-1]
			l = stackedGraph{g: g, where: fmt.Sprintf("in subgraph %d, ", k-1), step: p.Step, bytes: p.Bytes, buffers: p.Buffers, steps: max(1, len(p.Steps)), stacking: p.Ranges.Stacking, sizeOf: p.Ranges.SizeOf, certificates: p.Ranges.Certificates}
			if p.Parent != nil {
				l.outer = *p.Parent + 1
			}
		}
		if k == 0 {
			l.tiers = v.Plan.Tiers()
		}
		if k == 0 && len(v.Plan.Spans) > 0 {
			l.behind, _ = v.Plan.Behind() // CheckRanges has seen that there is no error
		}
		ids := make(map[string]graph.TensorID, len(g.Tensors))
		for id, t := range g.Tensors {
			if !t.Capture {
				ids[t.Name] = graph.TensorID(id)
			}
		}
		known := func(names []string) (list []graph.TensorID) {
			for _, name := range names {
				if id, is := ids[name]; is {
					list = append(list, id)
				}
			}
			return list
		}
		l.tensors = make([][]graph.TensorID, len(l.buffers))
		for b := range l.buffers {
			l.tensors[b] = known(l.buffers[b].Tensors)
		}
		if k == 0 {
			for x := range v.Plan.Spans {
				l.spans = append(l.spans, known(v.Plan.Spans[x].Tensors))
			}
		}
		c.layers = append(c.layers, l)
	}
	return c
}

// keepTaken leaves to the nodes the sharing that the plan takes: what the caller checks at
// the point of each run.
func (c *pointChecker) keepTaken() {
	for k := range c.layers {
		c.layers[k].keepTaken(c.layers[k].g)
	}
}

// keepTaken leaves to the nodes of a graph, inferred at some point, the sharing that the
// plan takes.
func (l *stackedGraph) keepTaken(g *graph.Graph) {
	at := make([]int, len(g.Tensors))
	for i := range at {
		at[i] = none
	}
	for b, list := range l.tensors {
		for _, id := range list {
			at[id] = b
		}
	}
	for x, list := range l.spans {
		for _, id := range list {
			at[id] = len(l.tensors) + x
		}
	}
	for _, n := range g.Nodes {
		apart := func(a graph.Alias) bool {
			in, out := n.Inputs[a.In], n.Outputs[a.Out]
			return in < 0 || out < 0 || at[in] != at[out] // both in none: a view of what a body captures
		}
		n.Semantics.Views = slices.DeleteFunc(slices.Clone(n.Semantics.Views), apart)
		n.Semantics.Inplace = slices.DeleteFunc(slices.Clone(n.Semantics.Inplace), apart)
	}
}

// at returns the lengths of the dimensions at a point; the last one changes fastest.
func (c *pointChecker) at(point int) map[string]int64 {
	dims := map[string]int64{}
	for k := len(c.names) - 1; k >= 0; k-- {
		n := len(c.lengths[k])
		dims[c.names[k]] = c.lengths[k][point%n]
		point /= n
	}
	return dims
}

// find returns the number of a point, or none.
func (c *pointChecker) find(dims map[string]int64) int {
	point := 0
	for k, name := range c.names {
		n, given := dims[name]
		i, found := slices.BinarySearch(c.lengths[k], n)
		if !given || !found {
			return none
		}
		point = point*len(c.lengths[k]) + i
	}
	if len(dims) != len(c.names) {
		return none
	}
	return point
}

// run checks all points.
func (c *pointChecker) run() {
	v, r := c.v, c.r
	row := func(what string, p *plan.RangePoint) bool {
		i := c.find(p.Dims)
		if i < 0 {
			v.Fault(CodeTable, "ranges: %s: expected a point of the ranges, found %v", what, p.Dims)
			return false
		}
		c.rows[i] = append(c.rows[i], p)
		return true
	}
	last := -1
	for i := range r.Table {
		if !row("table", &r.Table[i]) {
			return
		}
		at := c.find(r.Table[i].Dims)
		if at <= last {
			v.Fault(CodeTable, "ranges: table: row %d: expected ascending points", i)
			return
		}
		last = at
	}
	if !row("smallest", &r.Smallest) || !row("worst", &r.Worst) {
		return
	}
	if r.Proof == plan.ProofBounded {
		for i := range r.Table {
			c.points = append(c.points, c.find(r.Table[i].Dims))
		}
		if last != r.Points-1 {
			v.Fault(CodeTable, "ranges: table: expected the corner in the last row")
			return
		}
	} else {
		c.points = make([]int, r.Points)
		for i := range c.points {
			c.points[i] = i
		}
	}
	for _, p := range []*plan.RangePoint{&r.Smallest, &r.Worst} {
		if _, known := slices.BinarySearch(c.points, c.find(p.Dims)); !known {
			v.Fault(CodeTable, "ranges: at %s: expected a point of the table", graph.AtLengths(p.Dims))
			return
		}
	}
	shared := c.enumerate()
	if r.Proof == plan.ProofBounded {
		c.bounded(shared)
	}
	i := 0
	for _, l := range c.layers {
		for _, n := range l.g.Nodes {
			n.Semantics.Views, n.Semantics.Inplace = shared.views[i], shared.inplace[i]
			i++
		}
	}
	c.sum()
}

// enumerate infers every point, on all cores, with a copy of the graph for each. It
// returns the sharing that all points have.
func (c *pointChecker) enumerate() *common {
	c.results = make([]pointResult, len(c.points))
	var next atomic.Int64
	var workers bug.Group
	list := make([]*common, min(runtime.GOMAXPROCS(0), len(c.points)))
	for w := range list {
		m := *c.v.Model
		m.Graph = c.v.Model.Graph.Clone()
		own := &common{}
		list[w] = own
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(c.points) && !c.v.Over(); i = int(next.Add(1)) - 1 {
				c.results[i] = c.check(&m, c.points[i], own)
			}
		})
	}
	workers.Wait()
	c.v.Poll()
	all := &common{}
	for _, own := range list {
		if own.known {
			all.add(own.views, own.inplace)
		}
	}
	if !all.known { // every point is refused: the corner was not
		for _, l := range c.layers {
			all.views, all.inplace = append(all.views, make([][]graph.Alias, len(l.g.Nodes))...), append(all.inplace, make([][]graph.Alias, len(l.g.Nodes))...)
		}
	}
	return all
}

// bounded infers the model with lengths that are at most those of the corner. It keeps the
// sharing that is possible then, and checks that no tensor can be larger than at the corner.
func (c *pointChecker) bounded(shared *common) {
	m := *c.v.Model
	m.Graph = c.v.Model.Graph.Clone()
	all := c.at(c.r.Points - 1)
	maps.Copy(all, c.fixed)
	var positive []string
	for k, name := range c.names {
		if c.lengths[k][0] > 0 {
			positive = append(positive, name)
		}
	}
	inf, err := ops.Infer(&m, ops.Options{Dims: all, AtMost: c.names, Positive: positive, Values: c.v.Plan.Values, SpareDims: c.v.trains()})
	if err != nil {
		c.v.Fault(CodeRange, "ranges: the model cannot be inferred with bounded lengths: %v", err)
		return
	}
	(&verifier{Subject: &subject.Subject{Model: &m, Plan: c.v.Plan}}).keepRuntime()
	var views, inplace [][]graph.Alias
	for k, g := range plan.Graphs(m.Graph) {
		for _, n := range g.Nodes {
			views, inplace = append(views, n.Semantics.Views), append(inplace, n.Semantics.Inplace)
		}
		for i, t := range g.Tensors {
			if own := c.layers[k].g.Tensors[i]; (t.Dynamic == "") != (own.Dynamic == "") || t.Dynamic == "" && t.Bytes > own.Bytes {
				c.v.Fault(CodeRange, "ranges: with bounded lengths, tensor %q may be larger than at the corner", graph.Short(t.Name))
			}
		}
	}
	shared.add(views, inplace)
	c.boundedSizes(&m, inf)
}

// add keeps what is in both.
func (s *common) add(views, inplace [][]graph.Alias) {
	if !s.known {
		s.known, s.views, s.inplace = true, slices.Clone(views), slices.Clone(inplace)
		return
	}
	for n := range s.views {
		s.views[n], s.inplace[n] = both(s.views[n], views[n]), both(s.inplace[n], inplace[n])
	}
}

// both returns what is in both lists, in the order of a. It changes neither.
func both(a, b []graph.Alias) []graph.Alias {
	if slices.Equal(a, b) {
		return a
	}
	var list []graph.Alias
	for _, x := range a {
		if slices.Contains(b, x) {
			list = append(list, x)
		}
	}
	return list
}

// check checks one point, and takes what it cannot share out of the common sharing.
func (c *pointChecker) check(m *graph.Model, point int, shared *common) (p pointResult) {
	dims := c.at(point)
	all := maps.Clone(dims)
	maps.Copy(all, c.fixed)
	inf, err := ops.Infer(m, ops.Options{Dims: all, Values: c.v.Plan.Values, SpareDims: c.v.trains()})
	if err != nil {
		return pointResult{refused: true, refusal: err.Error()}
	}
	p.lengths = c.others(inf)
	w := &verifier{
		Subject: &subject.Subject{Model: m, Plan: c.v.Plan}, peaks: map[*graph.Call]int64{},
		updates: c.v.updates, updatesKey: c.v.updatesKey, trained: c.v.trained, gradients: c.v.gradients,
	}
	w.keepRuntime()
	fault := func(code, text string) pointResult {
		p.code, p.fault = code, text
		return p
	}
	graphs := plan.Graphs(m.Graph)
	shared.add(w.sharing(graphs))
	for k, g := range graphs {
		if name := c.unlike(k, g); name != "" {
			return fault(CodeRange, "tensor "+graph.Short(name)+" has a known size at the corner or here, and not at both")
		}
	}
	if text := c.stays(w); text != "" {
		return fault(CodeRange, text)
	}
	values := c.polynomials(dims)
	var sizes, offsets []int64                                                 // of the main graph
	works, least := make([][]int64, len(graphs)), make([][]int64, len(graphs)) // by graph and node: its workspace here, and the least for any order of its bodies
	for k, g := range graphs {
		works[k], least[k] = make([]int64, len(g.Nodes)), make([]int64, len(g.Nodes))
	}
	for k := len(graphs) - 1; k >= 0; k-- { // those within a body follow it
		l := &c.layers[k]
		var larger int
		sizes, larger = l.sizes(w, graphs[k], works[k], values)
		if larger != none {
			return fault(CodeRange, fmt.Sprintf("%sbuffer %d is larger than at the corner, or has no known size", l.where, larger))
		}
		var arena, peak int64
		var full string
		if offsets, arena, peak, full = l.stack(w, sizes); full != "" {
			return fault(CodePool, full)
		}
		if point == c.r.Points-1 {
			for _, b := range l.stacking {
				if offsets[b] != l.buffers[b].Offset {
					return fault(CodeStacking, l.where+"the stacking puts a buffer elsewhere than its offset says")
				}
			}
		}
		l.compare(w, values, sizes, &p)
		if k == 0 {
			p.arena, p.peak = arena, peak
		} else if l.step < len(works[l.outer]) {
			works[l.outer][l.step] = max(works[l.outer][l.step], arena)
			least[l.outer][l.step] = max(least[l.outer][l.step], l.bound(w, graphs[k], least[k], arena))
		}
	}
	if larger := c.hosted(w); larger != none {
		return fault(CodeRange, fmt.Sprintf("buffer %d of host memory is larger than at the corner", larger))
	}
	c.bound(w, least[0], point, &p)
	if c.v.Plan.Sharing.Aliases && p.fault == "" {
		p.code, p.fault = c.layers[0].aliases(w, sizes, offsets)
	}
	if w.sums.Overflow {
		return fault(CodeSize, "a sum of sizes overflows 63 bits")
	}
	if w.err != nil {
		return fault(CodeRange, w.err.Error())
	}
	return p
}

// hosted returns a buffer in host memory whose tensors are larger in a model that is inferred at
// a point, or none.
func (c *pointChecker) hosted(w *verifier) int {
	for b := range c.v.Plan.Buffers {
		if c.v.Plan.Buffers[b].Pool != plan.Host {
			continue
		}
		for _, id := range c.layers[0].tensors[b] {
			if w.round(w.Model.Graph.Tensors[id].Bytes) > c.v.Plan.Buffers[b].Bytes {
				return b
			}
		}
	}
	return none
}

// stays says what is wrong with the tensors that stay from run to run, in a model that is
// inferred at a point. Parameters and states have the type of the corner; a cache may be
// smaller, and has the type of its next value.
func (c *pointChecker) stays(w *verifier) string {
	tensors := w.Model.Graph.Tensors
	for b := range c.v.Plan.Buffers {
		buf := &c.v.Plan.Buffers[b]
		if !plan.Stays(buf.Kind) {
			continue
		}
		for _, id := range c.layers[0].tensors[b] {
			t, corner := tensors[id], c.layers[0].g.Tensors[id]
			switch {
			case buf.Kind != plan.KindCache && t.Type.String() != corner.Type.String():
				return "tensor " + graph.Short(t.Name) + " stays from run to run, but has another type at the corner"
			case buf.Kind == plan.KindCache && (t.Type.Elem != corner.Type.Elem || w.round(t.Bytes) > buf.Bytes):
				return "cache " + graph.Short(t.Name) + " is larger than at the corner, or has another element type"
			case len(buf.Tensors) > 0 && w.updates[buf.Tensors[0]] == t.Name && t.Type.String() != tensors[c.layers[0].tensors[b][0]].Type.String():
				return "the next value of " + graph.Short(buf.Tensors[0]) + " has another type"
			}
		}
	}
	return ""
}

// sharing returns the sharing that is possible in graphs, by node of all: in-place results
// have as many bytes as what they overwrite.
func (v *verifier) sharing(graphs []*graph.Graph) (views, inplace [][]graph.Alias) {
	for _, g := range graphs {
		for _, n := range g.Nodes {
			pairs := n.Semantics.Inplace
			differ := func(a graph.Alias) bool { return !v.equalSizes(g, n, a) }
			if slices.ContainsFunc(pairs, differ) {
				pairs = slices.DeleteFunc(slices.Clone(pairs), differ)
			}
			views, inplace = append(views, n.Semantics.Views), append(inplace, pairs)
		}
	}
	return views, inplace
}

// equalSizes reports whether a result has as many bytes as what it overwrites.
func (v *verifier) equalSizes(g *graph.Graph, n *graph.Node, a graph.Alias) bool {
	if a.In >= len(n.Inputs) || a.Out >= len(n.Outputs) || n.Inputs[a.In] < 0 || n.Outputs[a.Out] < 0 {
		return true // no pair
	}
	return v.round(g.Tensors[n.Inputs[a.In]].Bytes) == v.round(g.Tensors[n.Outputs[a.Out]].Bytes)
}

// unlike returns the name of a tensor of graph k that has a known size either at the corner
// or in g; "" if there is none.
func (c *pointChecker) unlike(k int, g *graph.Graph) string {
	for id, t := range g.Tensors {
		if (t.Dynamic == "") != (c.layers[k].g.Tensors[id].Dynamic == "") {
			return t.Name
		}
	}
	return ""
}

// sizes returns the sizes of the buffers that are stacked, in a graph that is inferred at a
// point, whose nodes have the given workspaces. values are those of the polynomials there.
// larger is one of them that is larger than at the corner, or none.
func (l *stackedGraph) sizes(w *verifier, g *graph.Graph, works, values []int64) (sizes []int64, larger int) {
	sizes, larger = make([]int64, len(l.buffers)), none
	for _, b := range l.stacking {
		if n := l.buffers[b].Node; n != nil && *n >= 0 && *n < len(works) {
			sizes[b] = works[*n]
		} else if len(l.tensors[b]) == 0 { // it has parts of tensors alone
			i := l.sizeOf[b]
			if i < 0 || values[i] < 0 {
				return sizes, b
			}
			sizes[b] = w.round(values[i])
		}
		for _, id := range l.tensors[b] {
			sizes[b] = max(sizes[b], w.round(g.Tensors[id].Bytes))
		}
		if sizes[b] > l.buffers[b].Bytes {
			larger = b
		}
	}
	return sizes, larger
}

// stack places the buffers, each on top of those of its pool, and returns the sum of what the
// pools need and the largest load. full says which pool is too small.
func (l *stackedGraph) stack(w *verifier, sizes []int64) (offsets []int64, arena, peak int64, full string) {
	offsets = make([]int64, len(sizes))
	loads := make([]int64, l.steps)
	if l.tiers == nil {
		arena = l.stackPool(w, l.stacking, sizes, offsets, loads)
		return offsets, arena, slices.Max(loads), ""
	}
	for _, t := range l.tiers {
		own := slices.DeleteFunc(slices.Clone(l.stacking), func(b int) bool { return l.buffers[b].Pool != t.Name })
		end := l.stackPool(w, own, sizes, offsets, loads)
		if end > t.Capacity && full == "" {
			full = fmt.Sprintf("pool %s needs %d bytes: expected at most %d, its capacity", graph.Short(t.Name), end, t.Capacity)
		}
		arena = w.add(arena, end)
	}
	return offsets, arena, slices.Max(loads), full
}

// stackPool places the buffers of one pool, from below, adds their sizes to the loads, and returns
// the end of the last one.
func (l *stackedGraph) stackPool(w *verifier, stacking []int, sizes, offsets, loads []int64) (arena int64) {
	tops := make([]int64, l.steps)
	var row []int // buffers that lie one behind the other
	for rank, b := range stacking {
		buf := &l.buffers[b]
		if sizes[b] > 0 && buf.First >= 0 && buf.Last >= buf.First && buf.Last < l.steps {
			row = append(row, b)
		}
		if l.behind != nil && l.behind[b] != none && rank+1 < len(stacking) && l.behind[b] == stacking[rank+1] {
			continue
		}
		// At any step at which a buffer is live, it lies above the tops of that step.
		low, before := int64(0), int64(0)
		for _, b := range row {
			buf := &l.buffers[b]
			low = max(low, slices.Max(tops[buf.First:buf.Last+1])-before)
			before = w.add(before, sizes[b])
		}
		for _, b := range row {
			buf := &l.buffers[b]
			offsets[b] = low
			low = w.add(low, sizes[b])
			for i := buf.First; i <= buf.Last; i++ {
				tops[i], loads[i] = max(tops[i], low), w.add(loads[i], sizes[b])
			}
			arena = max(arena, low)
		}
		row = row[:0]
	}
	return arena
}

// aliases checks, in a model that is inferred at a point, that the tensors lie where their
// bytes are, and are live as long as the plan says, with the sizes and offsets that the
// buffers have there. It takes from the nodes the sharing that the plan does not take.
func (l *stackedGraph) aliases(w *verifier, sizes, offsets []int64) (code, fault string) {
	g := w.Model.Graph
	l.keepTaken(g)
	s := w.newScope(g, mainGraph, "")
	if !s.sorted() {
		return // reported for the corner
	}
	s.share()
	list := slices.Clone(l.buffers)
	for _, b := range l.stacking {
		list[b].Bytes, list[b].Offset = sizes[b], offsets[b]
	}
	s.placeArena(list)
	w.sound(s)
	if len(w.Violations) > 0 {
		return w.Violations[0].Code, w.Violations[0].Message
	}
	return "", ""
}

// polynomials returns the value of each polynomial at a point; -1: it has none.
func (c *pointChecker) polynomials(dims map[string]int64) []int64 {
	values := make([]int64, len(c.r.Sizes))
	for i, poly := range c.r.Sizes {
		v, ok := poly.At(dims)
		if !ok {
			v = -1
		}
		values[i] = v
	}
	return values
}

// compare lists the polynomials that give a wrong size.
func (l *stackedGraph) compare(w *verifier, values, sizes []int64, p *pointResult) {
	for _, b := range l.stacking {
		i := l.sizeOf[b]
		if i >= 0 && (values[i] < 0 || w.round(values[i]) != sizes[b]) && !slices.Contains(p.wrongSizes, i) {
			p.wrongSizes = append(p.wrongSizes, i)
		}
	}
}

// bound proves that no order of this point needs less than the arena or, failing that, less
// than the plan's worst ratio and its rows say. works has workspaces of the nodes that no
// order of their bodies needs less than.
func (c *pointChecker) bound(w *verifier, works []int64, point int, p *pointResult) {
	s := w.newScope(w.Model.Graph, mainGraph, "")
	s.Work = works
	if !s.sorted() {
		return // reported for the corner
	}
	s.share()
	c.keepResident(s)
	if c.v.Plan.Sharing.Aliases {
		if s = s.relaxed(); s == nil {
			p.code, p.fault = CodeCertificate, tooManyParts
			return
		}
	}
	least := atRatio(p.arena, c.r.Worst)
	for _, row := range c.rows[point] {
		least = max(least, row.LowerBoundBytes)
	}
	if rows := c.rows[point]; c.v.opt.Proofs != "" && len(rows) > 0 {
		p.claims = s.pointProof(c.r.Certificates, rows)
	}
	b := s.bounds(maxPointWork)
	if b == nil {
		return
	}
	best := int64(0)
	if len(s.g.Nodes) == 0 {
		best = b.Total // there is only one order
	}
	for _, target := range []int64{p.arena, least} {
		for _, x := range c.r.Certificates {
			if best >= target {
				break
			}
			best = max(best, proven(b, x, target))
		}
		if target == p.arena {
			p.optimal = best >= target
		}
		if best >= least {
			return
		}
	}
	p.code, p.fault = CodeCertificate, "no certificate proves the bound that the worst ratio or the table claims"
}

// bound returns bytes that no order of a body needs less than at a point, where its arena has
// the given size.
func (l *stackedGraph) bound(w *verifier, g *graph.Graph, works []int64, arena int64) (best int64) {
	s := w.newScope(g, body, l.where)
	s.Work = works
	if !s.sorted() {
		return 0 // reported for the corner
	}
	s.share()
	b := s.bounds(maxPointWork)
	if b == nil {
		return 0
	}
	if len(g.Nodes) == 0 {
		return b.Total // there is only one order
	}
	for _, x := range l.certificates {
		if best >= arena {
			break
		}
		best = max(best, proven(b, x, arena))
	}
	return best
}

// keepResident leaves out of the loads what lies between a parameter or state and its new
// value, in their buffer.
func (c *pointChecker) keepResident(s *scope) {
	for b := range c.v.Plan.Buffers {
		if !plan.Stays(c.v.Plan.Buffers[b].Kind) {
			continue
		}
		before := int32(none)
		for _, id := range c.layers[0].tensors[b] {
			if i := s.storageOf[id]; i != none && i != before {
				if s.Storages[i].Resident = true; before != none {
					s.Chained = append(s.Chained, core.Update{Old: before, New: i})
				}
				before = i
			}
		}
	}
}

// proven returns a bound that a certificate proves; exact if it is below the target.
func proven(b *core.Bounds, x plan.RangeCertificate, target int64) int64 {
	set := make([]int32, len(x.Steps))
	for i, step := range x.Steps {
		if step >= len(b.Before) {
			return 0 // the plan has more steps than the graph has nodes
		}
		set[i] = int32(step)
	}
	slices.Sort(set)
	if len(set) == 0 || len(slices.Compact(slices.Clone(set))) < len(set) {
		return 0
	}
	var a core.Answer
	switch x.Kind {
	case plan.CertificateCut:
		a = b.AtNode(set[0], target)
	case plan.CertificateFirst:
		a = b.First(set, target)
	case plan.CertificateLast:
		a = b.LastOf(set, target)
	}
	if a.Unknown {
		return 0
	}
	return a.Bytes
}

// atRatio returns the least bound with which the arena has at most the ratio of the worst
// point: arena * bound / arena of the worst point, rounded up.
func atRatio(arena int64, worst plan.RangePoint) int64 {
	if worst.ArenaBytes <= 0 || worst.LowerBoundBytes < 0 || arena <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(arena), uint64(worst.LowerBoundBytes))
	if hi >= uint64(worst.ArenaBytes) {
		return arena // the bound would be above the arena
	}
	q, rest := bits.Div64(hi, lo, uint64(worst.ArenaBytes))
	if rest > 0 {
		q++
	}
	return int64(min(q, uint64(arena)))
}

// sum compares what was found at the points with what the plan says of all of them.
func (c *pointChecker) sum() {
	v, r := c.v, c.r
	refused, optimal, smallest := 0, 0, none
	least, most := map[string]int64{}, map[string]int64{} // accepted lengths
	largest := int64(0)
	wrong := map[int]bool{}
	for k := range c.results {
		p, i := &c.results[k], c.points[k]
		c.v.claims = append(c.v.claims, p.claims...)
		if p.refused {
			if refused++; refused == 1 && p.refusal != r.Refusal {
				v.Claim("ranges.refusal") // other versions may word it differently
			}
			if len(r.Accepted) > 0 && c.accepts(i) {
				v.Fault(CodeRange, "ranges: accepted: the model refuses %v: %s", c.at(i), p.refusal)
			}
			continue
		}
		for name, n := range c.at(i) {
			if old, known := least[name]; !known || n < old {
				least[name] = n
			}
			most[name] = max(most[name], n)
		}
		if len(r.Accepted) > 0 && !c.accepts(i) {
			v.Fault(CodeRange, "ranges: accepted: the model takes %v: expected it among them", c.at(i))
		}
		if p.fault != "" {
			v.Fault(p.code, "ranges: at %s: %s", graph.AtLengths(c.at(i)), p.fault)
		}
		c.follows(i, p.lengths)
		if p.optimal {
			optimal++
		}
		for _, k := range p.wrongSizes {
			wrong[k] = true
		}
		if smallest < 0 || p.arena < c.results[smallest].arena {
			smallest = k
		}
		largest = max(largest, p.arena)
		for _, row := range c.rows[i] {
			if row.ArenaBytes != p.arena || row.PeakBytes != p.peak || row.LowerBoundBytes > p.peak || row.LowerBoundBytes < 0 {
				v.Fault(CodeTable, "ranges: at %s: expected an arena of %d bytes, a peak of %d and a bound up to that, found %d, %d and %d",
					graph.AtLengths(c.at(i)), p.arena, p.peak, row.ArenaBytes, row.PeakBytes, row.LowerBoundBytes)
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(wrong)) {
		v.Fault(CodeRange, "ranges: sizes: polynomial %d: expected the sizes of its buffers at every point", k)
	}
	c.followed()
	switch {
	case refused != r.Refused:
		v.Fault(CodeRange, "ranges: expected %d refused points, found %d", refused, r.Refused)
	case refused == 0 && r.Refusal != "":
		v.Fault(CodeRange, "ranges: refusal: expected none, as the model takes all points")
	}
	for _, name := range sortedKeys(r.Accepted) {
		if a := r.Accepted[name]; a.Low != least[name] || a.High != most[name] {
			v.Fault(CodeRange, "ranges: accepted: %q: expected lengths from %d to %d, found %d to %d", graph.Short(name), least[name], most[name], a.Low, a.High)
		}
	}
	if optimal < r.OptimalPoints {
		v.Fault(CodeCertificate, "ranges: optimal_points: expected at most %d, found %d", optimal, r.OptimalPoints)
	}
	if i := c.find(r.Smallest.Dims); smallest >= 0 && i != c.points[smallest] {
		v.Fault(CodeTable, "ranges: smallest: expected %v, found %v", c.at(c.points[smallest]), r.Smallest.Dims)
	}
	for _, row := range []*plan.RangePoint{&r.Smallest, &r.Worst} {
		if c.refuses(row) {
			v.Fault(CodeTable, "ranges: at %s: expected a point that the model takes", graph.AtLengths(row.Dims))
		}
	}
	for i := range r.Table {
		if c.refuses(&r.Table[i]) {
			v.Fault(CodeTable, "ranges: table: at %s: expected a point that the model takes", graph.AtLengths(r.Table[i].Dims))
		}
	}
	switch {
	case len(v.Violations) > 0:
	case r.Proof == plan.ProofBounded:
		v.r.Ranges = fmt.Sprintf("proven for all %d points by bounded lengths, and %d compared with their bounds", r.Points, len(c.results))
	default:
		v.r.Ranges = fmt.Sprintf("proven at all %d points", len(c.results)-refused)
	}
	if largest > v.Plan.Summary.ArenaBytes {
		v.Fault(CodeRange, "ranges: the largest arena is %d bytes: expected at most that of the corner, %d", largest, v.Plan.Summary.ArenaBytes)
	}
}

// refuses reports whether the model refuses the point of a row, which was inferred.
func (c *pointChecker) refuses(row *plan.RangePoint) bool {
	k, known := slices.BinarySearch(c.points, c.find(row.Dims))
	return known && c.results[k].refused
}

// accepts reports whether a point is one that the plan's rule accepts.
func (c *pointChecker) accepts(point int) bool {
	dims := c.at(point)
	for name, a := range c.r.Accepted {
		if n := dims[name]; n < a.Low || n > a.High || (n-a.Low)%a.Step != 0 {
			return false
		}
	}
	return true
}
