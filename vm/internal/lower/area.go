package lower

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// spot is a place in memory.
type spot struct {
	at      unsafe.Pointer
	bytes   int64
	guarded *store.Guarded // nil outside of guarded sessions
}

// area holds the places of one graph's tensors, and of its nodes' workspaces.
type area struct {
	tensors []spot // by TensorID; the zero spot: the plan has none
	work    map[graph.NodeID]spot
	scratch map[graph.NodeID]spot // of the main graph: recorded workspaces, behind those of bodies and functions
}

// newArea returns an area for the tensors of a graph.
func newArea(g *graph.Graph) *area {
	return &area{tensors: make([]spot, len(g.Tensors)), work: map[graph.NodeID]spot{}}
}

// MainArea returns the area of the main graph.
func (b *builder) MainArea() (*area, error) {
	if b.s.Options.Separate {
		return b.separate(b.s.Program.Model.Graph)
	}
	if b.s.Mem.Guard != nil {
		return b.guardedMain()
	}
	a := b.planned(b.s.Program.Model.Graph, b.s.Program.Plan.Buffers, spot{at: b.s.Mem.Arena.Base, bytes: int64(len(b.s.Mem.Arena.Bytes))})
	b.s.Program.Placed.Each(func(id graph.TensorID, x program.Extent) {
		a.tensors[id] = spot{at: unsafe.Add(b.s.Mem.Arena.Base, x.Offset), bytes: x.Bytes}
	})
	if len(b.s.Program.Plan.Spans) > 0 {
		a.spans(b.s.Program.Plan, program.ByName(b.s.Program.Model.Graph), b.s.Mem.Arena.Base)
	}
	a.splitScratch(b.s.Program.Plan)
	return a, nil
}

// splitScratch takes the recorded workspaces of a plan off the ends of the nodes'
// workspaces.
func (a *area) splitScratch(p *plan.Plan) {
	if p.Workspaces == nil {
		return
	}
	a.scratch = map[graph.NodeID]spot{}
	for _, w := range p.Workspaces.Nodes {
		n := graph.NodeID(w.Step)
		whole := a.work[n]
		bytes := (w.Bytes + p.Alignment - 1) &^ (p.Alignment - 1)
		whole.bytes -= bytes
		a.work[n] = whole
		a.scratch[n] = spot{at: unsafe.Add(whole.at, whole.bytes), bytes: bytes}
	}
}

// planned reads the places from a verified plan. Buffers of the pools resident and
// host lie there, all others in the block at base.
func (b *builder) planned(g *graph.Graph, buffers []plan.Buffer, base spot) *area {
	named := program.ByName(g)
	a := newArea(g)
	for i := range buffers {
		p := &buffers[i]
		pool := base.at
		if p.Pool == plan.Resident {
			if p.Kind == plan.KindConstant {
				continue // it is read from the mapped file
			}
			pool = b.s.Mem.Resident.Base
		}
		if p.Bytes == 0 {
			continue // its pool may not exist
		}
		if p.Pool == plan.Host {
			pool = b.s.Mem.Host.Base
		}
		at := spot{at: unsafe.Add(pool, p.Offset), bytes: p.Bytes}
		if p.Node != nil {
			a.work[graph.NodeID(*p.Node)] = at
		}
		for _, name := range p.Tensors {
			a.tensors[named[name]] = at
		}
	}
	return a
}

// guarded gives every buffer of a plan pages of its own. Tensors of a buffer share
// them only if they have the same size: both then end at the wall.
func (b *builder) guarded(g *graph.Graph, buffers []plan.Buffer) (*area, error) {
	named := program.ByName(g)
	a := newArea(g)
	for i := range buffers {
		p := &buffers[i]
		if p.Pool == plan.Resident && p.Kind == plan.KindConstant || p.Bytes == 0 {
			continue
		}
		var made []spot
		for _, name := range p.Tensors {
			t := g.Tensors[named[name]]
			if t.Bounded {
				continue // it gets pages of the right size at run time
			}
			k := slices.IndexFunc(made, func(s spot) bool { return s.bytes == t.Bytes })
			if k < 0 {
				s, err := b.guardedSpot(t)
				if err != nil {
					return nil, err
				}
				k, made = len(made), append(made, s)
			}
			a.tensors[named[name]] = made[k]
		}
	}
	return a, nil
}

// guardedMain gives every buffer of the main graph pages of its own, and every tensor that
// lies in several buffers: the nodes that make those then copy.
func (b *builder) guardedMain() (*area, error) {
	g := b.s.Program.Model.Graph
	a, err := b.guarded(g, b.s.Program.Plan.Buffers)
	if err != nil {
		return nil, err
	}
	named := program.ByName(g)
	for i := range b.s.Program.Plan.Spans {
		tensors := b.s.Program.Plan.Spans[i].Tensors // views of one size
		s, err := b.guardedSpot(g.Tensors[named[tensors[0]]])
		if err != nil {
			return nil, err
		}
		for _, name := range tensors {
			a.tensors[named[name]] = s
		}
	}
	return a, nil
}

func (b *builder) guardedSpot(t *graph.Tensor) (spot, error) {
	p, err := b.s.Mem.Guard.Take(values.NameOf(t.Name), t.Bytes)
	if err != nil {
		return spot{}, err
	}
	return spot{p.At(), t.Bytes, p}, nil
}

// guardedSeparate gives every tensor of a graph pages of its own. Views share those
// of the tensor that they view, unless Options.Separate is set.
func (b *builder) guardedSeparate(g *graph.Graph) (*area, error) {
	a := newArea(g)
	view := map[graph.TensorID]bool{}
	for _, n := range g.Nodes {
		for k, t := range n.Outputs {
			view[t] = viewedOf(n, k) != graph.None && !b.s.Options.Separate
		}
	}
	for id, t := range g.Tensors {
		if t.Capture || t.Data != nil || t.Dynamic != "" || t.Bounded || t.Bytes == 0 || view[graph.TensorID(id)] {
			continue
		}
		var err error
		if a.tensors[graph.TensorID(id)], err = b.guardedSpot(t); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// MarginBytes is the size of the margins before and behind each separate tensor.
const MarginBytes = 64

// separate gives every tensor of a graph a storage of its own.
func (b *builder) separate(g *graph.Graph) (*area, error) {
	if b.s.Mem.Guard != nil {
		return b.guardedSeparate(g)
	}
	a := newArea(g)
	total := int64(MarginBytes)
	off := make([]int64, len(g.Tensors))
	for id, t := range g.Tensors {
		if t.Capture || t.Data != nil || t.Dynamic != "" {
			continue
		}
		off[id] = total
		total = units.Add(total, units.Add(t.Bytes, 63)&^63+MarginBytes)
	}
	if err := b.s.Mem.Take(total); err != nil {
		return nil, err
	}
	own, err := store.NewBlock(total, "separate tensors")
	if err != nil {
		return nil, err
	}
	b.s.Mem.Own = append(b.s.Mem.Own, own)
	if err := b.s.GPU.Mirror(own, "separate tensors"); err != nil {
		return nil, err
	}
	for id, t := range g.Tensors {
		if off[id] > 0 {
			a.tensors[graph.TensorID(id)] = spot{at: own.At(off[id]), bytes: (t.Bytes + 63) &^ 63}
		}
	}
	return a, nil
}
