package flat

import (
	"context"

	"github.com/onnxmem/onnxmem/plan/verify/bare"
	"github.com/onnxmem/onnxmem/schedule"
)

// Ordered is an order of all nodes.
type Ordered struct {
	Order         []int32
	Peak, Bound   int64 // bytes
	ProgramPeak   int64
	Proven, Ended bool
	Certificates  []bare.Certificate
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
		Proven: found.Optimal, Ended: found.Ended != nil,
	}
	for _, c := range found.Certificates {
		r.Certificates = append(r.Certificates, bare.Certificate{Kind: c.Kind, Nodes: c.Nodes, Bytes: c.Value})
	}
	return r, nil
}

// Lifetimes are the buffers of an order: each holds one tensor, or several of which one is
// written over the other.
type Lifetimes struct {
	Buffer             []int32 // by tensor: the index of its buffer; -1: it has none
	Lower, Upper, Size []int64 // by buffer; those that hold no tensor are workspaces
}

// Lifetimes returns the buffers of an order, for [Buffers].
func (g *Graph) Lifetimes(order []int32) (*Lifetimes, error) {
	p, err := g.problem()
	if err != nil {
		return nil, err
	}
	e, err := p.Evaluate(order)
	if err != nil {
		return nil, &Refused{err}
	}
	list, err := p.Lifetimes(order, e.Taken)
	if err != nil {
		return nil, &Refused{err}
	}
	l := &Lifetimes{Buffer: make([]int32, len(p.Tensors))}
	for i := range l.Buffer {
		l.Buffer[i] = -1
	}
	for i, b := range list {
		for _, t := range b.Tensors {
			l.Buffer[t] = int32(i)
		}
		l.Lower, l.Upper, l.Size = append(l.Lower, int64(b.First)), append(l.Upper, int64(b.Last)+1), append(l.Size, b.Bytes)
	}
	return l, nil
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
