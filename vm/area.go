package vm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// spot is a place in memory.
type spot struct {
	at    unsafe.Pointer
	bytes int64
}

// area is where the tensors of one graph lie, and the workspaces of its nodes.
type area struct {
	tensors map[graph.TensorID]spot
	work    map[graph.NodeID]spot
}

// mainArea is that of the main graph.
func (b *builder) mainArea() (*area, error) {
	if b.s.opt.Apart {
		return b.apart(b.s.pr.m.Graph)
	}
	return b.planned(b.s.pr.m.Graph, b.s.pr.p.Buffers, spot{b.s.arena.base, int64(len(b.s.arena.m))}), nil
}

// planned reads the places of a plan, which has been verified: those of the pools
// resident and host lie there, all others in the block at base.
func (b *builder) planned(g *graph.Graph, buffers []plan.Buffer, base spot) *area {
	named := make(map[string]graph.TensorID, len(g.Tensors))
	for id, t := range g.Tensors {
		if !t.Capture {
			named[t.Name] = graph.TensorID(id)
		}
	}
	a := &area{tensors: make(map[graph.TensorID]spot, len(g.Tensors)), work: map[graph.NodeID]spot{}}
	for i := range buffers {
		p := &buffers[i]
		pool := base.at
		if p.Pool == plan.Resident {
			if p.Kind == plan.KindConstant {
				continue // it is read where it lies in its file
			}
			pool = b.s.resident.base
		}
		if p.Bytes == 0 {
			continue // there may be no pool
		}
		if p.Pool == plan.Host {
			pool = b.s.host.base
		}
		at := spot{unsafe.Add(pool, p.Offset), p.Bytes}
		if p.Node != nil {
			a.work[graph.NodeID(*p.Node)] = at
		}
		for _, name := range p.Tensors {
			a.tensors[named[name]] = at
		}
	}
	return a
}

// marginBytes lie before and behind each storage of a session whose tensors lie
// apart.
const marginBytes = 64

// apart gives every tensor of a graph a storage of its own.
func (b *builder) apart(g *graph.Graph) (*area, error) {
	a := &area{tensors: map[graph.TensorID]spot{}, work: map[graph.NodeID]spot{}}
	total := int64(marginBytes)
	off := make([]int64, len(g.Tensors))
	for id, t := range g.Tensors {
		if t.Capture || t.Data != nil || t.Dynamic != "" {
			continue
		}
		off[id] = total
		total += (t.Bytes+63)&^63 + marginBytes
	}
	own, err := newBlock(total, "storage apart")
	if err != nil {
		return nil, err
	}
	b.s.own = append(b.s.own, own)
	for id, t := range g.Tensors {
		if off[id] > 0 {
			a.tensors[graph.TensorID(id)] = spot{own.at(off[id]), (t.Bytes + 63) &^ 63}
		}
	}
	return a, nil
}
