package program

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// ranged is what the points of a plan for ranges of dimensions have in common. A point has
// a length for each dimension that has several.
type ranged struct {
	p      *plan.Plan
	given  map[string]int64 // lengths of the other dimensions, as far as they are given
	names  []string         // of the dimensions with several lengths, ascending
	layers []layer          // the main graph and the bodies, as plan.Graphs lists them
	stay   []stays
	moved  []movedBytes
	axes   []openAxis // of the inputs

	elements sync.Map // of constants, as checks of nodes read them: *ops.Value by constantID
}

// layer is the main graph or a body of a plan for ranges of dimensions.
type layer struct {
	g       *graph.Graph       // at the corner
	buffers []int              // of the arena, the workspace or the host, but for workspaces within: indices into the plan's
	sizeOf  []int              // of these: the index of the polynomial, or -1
	tensors [][]graph.TensorID // of these buffers
	shared  []sharedTensor
	scalars map[graph.TensorID]*graph.Data // of Constant nodes
}

// constantID names a constant in all copies of a model.
type constantID struct {
	layer int
	id    graph.TensorID
}

// stays is a tensor in the buffer of a parameter, state or cache. The type of a parameter or
// state is the same at all points; a cache has its room.
type stays struct {
	id    graph.TensorID
	is    graph.Type // at the corner
	cache bool
	room  int64 // bytes of the buffer
}

// sharedTensor is a tensor that its node makes in a buffer with other tensors.
type sharedTensor struct {
	id     graph.TensorID
	before []graph.TensorID // tensors that nodes before that one made in the buffer
	over   bool             // none of them is read later: it may be written over them
	moved  bool             // its bytes are bytes of an operand that lie there: see movedBytes
}

// newRanged prepares the points of a plan whose corner has been verified. g is the model's
// graph at the corner.
func newRanged(m *graph.Model, p *plan.Plan) (*ranged, error) {
	r := &ranged{p: p, given: map[string]int64{}}
	r.names, _ = p.Box()
	for name, d := range p.Dims {
		if !d.Assumed && !d.Follows && !slices.Contains(r.names, name) {
			r.given[name] = d.Value
		}
	}
	r.axes = openAxesOf(m.Graph, p)
	r.moved = movedIn(m.Graph, p)
	tiers := map[string]bool{}
	for _, t := range p.Tiers() {
		tiers[t.Name] = true
	}
	for k, g := range plan.Graphs(m.Graph) {
		buffers, sizeOf := p.Buffers, p.Ranges.SizeOf
		if k > 0 {
			buffers, sizeOf = p.Subgraphs[k-1].Buffers, p.Subgraphs[k-1].Ranges.SizeOf
		}
		l := layer{g: g, scalars: map[graph.TensorID]*graph.Data{}}
		named := ByName(g)
		if k > 0 {
			l.shared = viewsOfCaptures(g, buffers)
		}
		for i := range buffers {
			b := &buffers[i]
			shared := sharedIn(g, idsOf(named, b))
			for i := range shared {
				shared[i].moved = slices.ContainsFunc(r.moved, func(x movedBytes) bool { return k == 0 && x.out == shared[i].id })
			}
			switch {
			case b.Pool == plan.Arena || b.Pool == plan.Workspace || b.Pool == plan.Host || tiers[b.Pool]:
				if b.Node == nil {
					l.buffers, l.sizeOf, l.tensors = append(l.buffers, i), append(l.sizeOf, sizeOf[i]), append(l.tensors, idsOf(named, b))
				}
			case plan.Stays(b.Kind):
				for _, id := range idsOf(named, b) {
					r.stay = append(r.stay, stays{id, g.Tensors[id].Type, b.Kind == plan.KindCache, b.Bytes})
				}
			case b.Kind == plan.KindConstant:
				for i := range shared {
					shared[i].over = false
				}
			default:
				return nil, Refuse(m, "ranges: buffer %d is in pool %q: expected the arena, one with a capacity, or the host", i, graph.Short(b.Pool))
			}
			l.shared = append(l.shared, shared...)
		}
		for i, n := range g.Nodes {
			if n.Semantics.Call != nil {
				return nil, Refuse(m, "%w", graph.Errorf("ranges: expected no call of a local function").AtNode(g.Label(graph.NodeID(i))))
			}
			if ops.IsConstant(n) && len(n.Outputs) == 1 {
				l.scalars[n.Outputs[0]] = constants.OfNode(n, g.Tensors[n.Outputs[0]].Name)
			}
		}
		r.layers = append(r.layers, l)
	}
	return r, nil
}

// idsOf returns the tensors of a buffer.
func idsOf(named map[string]graph.TensorID, b *plan.Buffer) []graph.TensorID {
	ids := make([]graph.TensorID, len(b.Tensors))
	for i, name := range b.Tensors {
		ids[i] = named[name]
	}
	return ids
}

// sharedIn lists the tensors of a buffer that share it with earlier ones. Nodes stand in
// the planned order.
func sharedIn(g *graph.Graph, ids []graph.TensorID) (list []sharedTensor) {
	if len(ids) < 2 {
		return nil
	}
	ids = slices.Clone(ids)
	slices.SortStableFunc(ids, func(a, b graph.TensorID) int { return int(g.Tensors[a].Maker) - int(g.Tensors[b].Maker) })
	for k, id := range ids[1:] {
		maker := g.Tensors[id].Maker
		s := sharedTensor{id: id, before: ids[:k+1], over: true}
		for _, t := range s.before {
			s.over = s.over && !g.Tensors[t].Output && !slices.ContainsFunc(g.Tensors[t].Readers, func(n graph.NodeID) bool { return n > maker })
		}
		list = append(list, s)
	}
	return list
}

// viewsOfCaptures lists the tensors of a body that have no buffer: they are views of what it
// captures.
func viewsOfCaptures(g *graph.Graph, buffers []plan.Buffer) (list []sharedTensor) {
	placed := map[string]bool{}
	for i := range buffers {
		for _, name := range buffers[i].Tensors {
			placed[name] = true
		}
	}
	var outside []graph.TensorID
	for id, t := range g.Tensors {
		if t.Capture {
			outside = append(outside, graph.TensorID(id))
		}
	}
	for _, n := range g.Nodes {
		for _, id := range n.Outputs {
			if id >= 0 && g.Tensors[id].Dynamic == "" && !placed[g.Tensors[id].Name] {
				list = append(list, sharedTensor{id: id, before: slices.Clone(outside)})
				outside = append(outside, id)
			}
		}
	}
	return list
}

// possible reports whether a tensor may lie where the plan has it, in a graph that is
// inferred at a point: as a view of one of those before, or in place of one that nobody
// reads later.
func (s *sharedTensor) possible(g *graph.Graph, round func(int64) int64) bool {
	if s.moved {
		return true // if its bytes lie where they should
	}
	n := g.Nodes[g.Tensors[s.id].Maker]
	of := func(a graph.Alias) (in graph.TensorID, is bool) {
		in = n.Inputs[a.In]
		return in, n.Outputs[a.Out] == s.id && slices.Contains(s.before, in)
	}
	for _, a := range n.Semantics.Views {
		if _, is := of(a); is {
			return true
		}
	}
	for _, a := range n.Semantics.Inplace {
		if in, is := of(a); is && s.over && round(g.Tensors[in].Bytes) == round(g.Tensors[s.id].Bytes) {
			return true
		}
	}
	return false
}

// At returns the program at one point of a plan for ranges of dimensions: what New returns
// for a plan of that point alone, with the order, the sharing and the stacking of the plan.
// It infers a copy of the model, and shares the constants of p, which must be closed after
// it. dims has a length for each dimension with several. At fails, and names the dimension,
// if the plan is not for these lengths. Several goroutines may call it at once.
func (p *Program) At(dims map[string]int64) (*Program, error) {
	r := p.ranged
	if r == nil {
		return nil, Refuse(p.Model, "ranges: the plan is for one length of each dimension")
	}
	if err := r.p.CheckPoint(dims); err != nil {
		return nil, Refuse(p.Model, "%w", err)
	}
	m := *p.Model
	m.Graph = p.Model.Graph.Clone()
	at := &Program{Model: &m, of: p, layers: map[*graph.Graph]int{}, point: make(map[string]int64, len(r.names)), dims: map[string]int64{}, Given: map[string]values.Value{}, Constants: p.Constants, Next: p.Next, Groups: p.Groups}
	graphs := plan.Graphs(m.Graph)
	for k, g := range graphs {
		at.layers[g] = k
	}
	lengths := maps.Clone(r.given)
	for _, name := range r.names {
		lengths[name], at.point[name] = dims[name], dims[name]
	}
	inf, err := ops.Infer(&m, ops.Options{Dims: lengths, Values: r.p.Values, SpareDims: r.p.Mode == "training"})
	if err != nil {
		return nil, Refuse(p.Model, "the model has no valid shapes at %s: %w", at.Where(), err)
	}
	if at.Plan, err = r.planAt(graphs, at.point); err != nil {
		return nil, Refuse(p.Model, "the plan contradicts the model at %s: %w", at.Where(), err)
	}
	at.Known = inf.Values
	for _, d := range inf.Dims {
		at.dims[d.Name] = d.Value
	}
	if err := at.take(inf); err != nil {
		return nil, err
	}
	return at, nil
}

// Where writes the point of a program as the command line takes it.
func (p *Program) Where() string {
	var list []string
	for _, name := range p.of.ranged.names {
		list = append(list, fmt.Sprintf("%s=%d", graph.Short(name), p.point[name]))
	}
	return strings.Join(list, ", ")
}

// planAt returns the plan at a point. graphs are the main graph and the bodies as inferred
// there. It checks that the tensors have sizes, that the sharing of the plan is possible,
// that the sizes are those that the plan states, and that they fit.
func (r *ranged) planAt(graphs []*graph.Graph, dims map[string]int64) (*plan.Plan, error) {
	align := r.p.Alignment
	round := func(n int64) int64 { return (n + align - 1) &^ (align - 1) }
	about := func(g *graph.Graph, id graph.TensorID, format string, args ...any) error {
		e := graph.Errorf(format, args...)
		e.Tensor = g.Tensors[id].Name
		return e
	}
	for _, s := range r.stay {
		switch t := graphs[0].Tensors[s.id]; {
		case s.cache && (!t.Type.Exact() || t.Type.Elem != s.is.Elem || t.Bytes > s.room):
			return nil, about(graphs[0], s.id, "expected a cache of no more bytes than for the largest lengths, %v, found %v", s.is, t.Type)
		case !s.cache && t.Type.String() != s.is.String():
			return nil, about(graphs[0], s.id, "expected %v, as for the largest lengths, since it stays from run to run, found %v", s.is, t.Type)
		}
	}
	all := make([]map[string]int64, len(graphs))
	for k, g := range graphs {
		l := &r.layers[k]
		for i := range l.shared {
			if s := &l.shared[i]; !s.possible(g, round) {
				return nil, about(g, s.id, "expected a result that can share the storage of %q", graph.Short(g.Tensors[s.before[len(s.before)-1]].Name))
			}
		}
		all[k] = make(map[string]int64, len(g.Tensors))
		for i := range l.buffers {
			bytes := int64(0)
			for _, id := range l.tensors[i] {
				t := g.Tensors[id]
				if t.Dynamic != "" {
					return nil, about(g, id, "expected a known size, found none: %s", t.Dynamic)
				}
				all[k][t.Name] = t.Bytes
				bytes = max(bytes, t.Bytes)
			}
			if of := l.sizeOf[i]; of >= 0 && len(l.tensors[i]) > 0 {
				if n, ok := r.p.Ranges.Sizes[of].At(dims); !ok || round(n) != round(bytes) {
					return nil, about(g, l.tensors[i][0], "expected %d bytes, as the plan says, found %d", n, bytes)
				}
			}
		}
	}
	q, err := r.p.At(dims, all)
	if err != nil {
		return nil, err
	}
	q = q.Flat()
	if most := r.p.Summary.ArenaBytes; q.Summary.ArenaBytes > most {
		return nil, fmt.Errorf("expected an arena of at most the %d bytes of the largest lengths, found %d", most, q.Summary.ArenaBytes)
	}
	if err := r.checkMoved(graphs[0], q, round); err != nil {
		return nil, err
	}
	for k, g := range graphs {
		buffers := q.Buffers
		if k > 0 {
			buffers = q.Subgraphs[k-1].Buffers
		}
		for i, b := range r.layers[k].buffers {
			buffers[b].Bounded = slices.ContainsFunc(r.layers[k].tensors[i], func(id graph.TensorID) bool { return g.Tensors[id].Bounded })
		}
	}
	return q, nil
}

// Point returns the lengths at which a program is that At returned, of each dimension with
// several; nil for others.
func (p *Program) Point() map[string]int64 { return maps.Clone(p.point) }

// IsRanged reports whether the plan is for ranges of dimensions.
func (p *Program) IsRanged() bool { return p.ranged != nil }

// IsPoint reports whether a program is one that At returned.
func (p *Program) IsPoint() bool { return p.of != nil }

// IsAt reports whether a program is at a point.
func (p *Program) IsAt(dims map[string]int64) bool {
	for name, n := range p.point {
		if dims[name] != n {
			return false
		}
	}
	return true
}

// layer returns the number of a session's graph in the list of plan.Graphs, if the program
// is at a point of ranges.
func (p *Program) layer(g *graph.Graph) (k int, is bool) {
	k, is = p.layers[g]
	return k, is
}

// Origin returns a tensor of a session's graph as all programs at points of the same plan
// have it.
func (p *Program) Origin(g *graph.Graph, id graph.TensorID) *graph.Tensor {
	if k, is := p.layer(g); is {
		return p.of.ranged.layers[k].g.Tensors[id]
	}
	return g.Tensors[id]
}

// ConstantOf returns the elements of a tensor of a session's graph that the file holds, else nil:
// the same at all points of a plan for ranges of dimensions.
func (p *Program) ConstantOf(g *graph.Graph, id graph.TensorID) *graph.Data {
	t := g.Tensors[id]
	if k, is := p.layer(g); is && t.Data == nil {
		return p.of.ranged.layers[k].scalars[id]
	}
	return constants.Of(g, t)
}

// ElementsOf returns the elements of a constant of the file as checks of nodes read them, if the
// program is at a point of ranges: find finds them once for all points.
func (p *Program) ElementsOf(g *graph.Graph, id graph.TensorID, find func() *ops.Value) (v *ops.Value, is bool) {
	k, is := p.layer(g)
	if !is || g.Tensors[id].Data == nil && p.of.ranged.layers[k].scalars[id] == nil {
		return nil, false
	}
	elements, name := &p.of.ranged.elements, constantID{k, id}
	x, known := elements.Load(name)
	if !known {
		x, _ = elements.LoadOrStore(name, find())
	}
	return x.(*ops.Value), true
}

// AddShared makes the plan share the buffer of a tensor with that of one that its node reads: for
// tests.
func (p *Program) AddShared(name, with string) {
	named := ByName(p.Model.Graph)
	l := &p.ranged.layers[0]
	l.shared = append(l.shared, sharedTensor{id: named[name], before: []graph.TensorID{named[with]}})
}
