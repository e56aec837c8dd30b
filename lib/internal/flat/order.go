package flat

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/plan/verify/bare"
	"github.com/onnxmem/onnxmem/schedule"
)

// Ordered is an order of all nodes.
type Ordered struct {
	Order        []int32
	Peak, Bound  int64 // bytes
	ProgramPeak  int64
	Proven       bool
	Ended        bool // also where the peak is proven: another order may have it
	Certificates []bare.Certificate
}

// Order looks for an order of small peak, as the command does.
func (g *Graph) Order(ctx context.Context, effort schedule.Effort) (*Ordered, error) {
	p, err := g.problem()
	if err != nil {
		return nil, err
	}
	found, err := schedule.Solve(ctx, p, schedule.Options{Effort: effort})
	if err != nil {
		return nil, err
	}
	if err := found.TakeLeastArea(p); err != nil {
		return nil, err
	}
	r := &Ordered{
		Order: found.Order, Peak: found.Evaluation.Peak, Bound: found.Bound, ProgramPeak: found.ProgramPeak,
		Proven: found.Optimal, Ended: ctx.Err() != nil,
	}
	for _, c := range found.Certificates {
		r.Certificates = append(r.Certificates, bare.Certificate{Kind: c.Kind, Nodes: c.Nodes, Bytes: c.Value})
	}
	return r, nil
}

// Lifetimes are the buffers of an order: each holds one tensor with its ranges, or several of
// which one is written over the other.
type Lifetimes struct {
	Buffer             []int32 // by tensor: the index of its buffer; -1: it has none
	Lower, Upper, Size []int64 // by buffer; those that hold no tensor are workspaces
}

// Lifetimes returns the buffers of an order, for [Buffers]. A buffer with pieces is there from
// the first of them on, and pieces are written over nothing: so an arena may need more than the
// peak of the order.
func (g *Graph) Lifetimes(order []int32) (*Lifetimes, error) {
	p, r, err := g.joined()
	if err != nil {
		return nil, err
	}
	e, err := p.Evaluate(order)
	if err != nil {
		return nil, &Refused{err}
	}
	taken := e.Taken
	if r != nil {
		taken = r.withoutPieces(taken)
	}
	list, err := p.Lifetimes(order, taken)
	if err != nil {
		return nil, &Refused{err}
	}
	if r != nil {
		list = g.wholes(list, r)
	}
	l := &Lifetimes{Buffer: slices.Repeat([]int32{-1}, len(p.Tensors))}
	for i, b := range list {
		for _, t := range b.Tensors {
			l.Buffer[t] = int32(i)
		}
		l.Lower, l.Upper, l.Size = append(l.Lower, int64(b.First)), append(l.Upper, int64(b.Last)+1), append(l.Size, b.Bytes)
	}
	if r != nil {
		for t, root := range r.root {
			l.Buffer[t] = l.Buffer[root]
		}
	}
	return l, nil
}

// withoutPieces leaves out what is written over a piece, and pieces that are written over others.
func (r *ranges) withoutPieces(taken []schedule.Pair) (list []schedule.Pair) {
	piece := make([]bool, len(r.root))
	for _, ids := range r.pieces {
		for _, t := range ids {
			piece[t] = true
		}
	}
	for _, x := range taken {
		if !piece[x.Result] && !piece[x.Over] {
			list = append(list, x)
		}
	}
	return list
}

// wholes makes one buffer of a tensor and its pieces.
func (g *Graph) wholes(list []schedule.Lifetime, r *ranges) (out []schedule.Lifetime) {
	whole := map[int32]int32{} // by piece, and by itself
	for t, ids := range r.pieces {
		whole[t] = t
		for _, i := range ids {
			whole[i] = t
		}
	}
	index := map[int32]int{} // by whole
	for _, b := range list {
		t, has := int32(-1), false
		if len(b.Tensors) > 0 {
			t, has = whole[b.Tensors[0]]
		}
		k, known := index[t]
		if !has || !known {
			if has {
				index[t], b.Bytes = len(out), g.Size[t]
				b.Tensors = append([]int32{t}, r.pieces[t]...)
			}
			out = append(out, b)
			continue
		}
		out[k].First, out[k].Last = min(out[k].First, b.First), max(out[k].Last, b.Last)
	}
	return out
}

// VerifyOrder checks an order and the certificates of its bound, by code that the search does
// not use; with search, also those of kind search.
func (g *Graph) VerifyOrder(ctx context.Context, order []int32, certificates []bare.Certificate, search bool) (bare.Verdict, error) {
	p, err := g.checked()
	if err != nil {
		return bare.Verdict{}, err
	}
	v, err := p.Order(ctx, order, certificates, search)
	if err != nil && ctx.Err() == nil {
		err = &Invalid{err}
	}
	return v, err
}
