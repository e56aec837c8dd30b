package limits

import (
	"context"

	"github.com/onnxmem/onnxmem/plan"
)

// LossInRows runs the loss of a training step in slices of its rows, with the same bits, if the peak
// of the best order is larger without, or a smaller one is wanted. Only a loss that widens its scores
// gains: its gradient has the bytes of the scores themselves.
func LossInRows(ctx context.Context, of Task) (*Chosen, error) {
	if at, _, found := lossStart(of.Model.Graph); !found || !at.widened {
		return &Chosen{Measured: of.Costs.Measured}, nil
	}
	w := &weigher{s: of}
	s := &w.s
	s.Costs.Measured = s.Costs.Measure(s.Model.Graph)
	x, at, err := s.newLossSlicer(ctx)
	if err != nil || x == nil {
		return &Chosen{Measured: of.Costs.Measured}, err
	}
	c := &Chosen{Measured: s.Costs.Measured}
	w.plain = &Base{s: s}
	if err := w.plain.order(ctx); err != nil {
		return nil, err
	}
	c.Known = w.plain
	less := s.Asked.Limit != nil || s.Asked.Extra > 0 || s.Asked.Frontier
	if peak := float64(w.unlimited()); float64(at.load) < peak && (!less || float64(at.bytes) < lossLeast*peak) {
		return c, nil // it is not what the peak is at
	}
	b, err := x.lossBase(ctx, at)
	if err != nil || b == nil || !less && b.unlimited() >= w.unlimited() || b.unlimited() > w.unlimited() {
		return c, err
	}
	c.Known = b
	none := plan.SliceBound{Why: plan.BoundInputs, Nodes: []string{}, Tensors: []string{}} // other regions were not looked for
	c.Slices = &Sliced{b.sliced, w.unlimited(), w.plain.bound(), none, none, none}
	if c.Model, err = x.rewrite(b.sliced); err != nil {
		return nil, err
	}
	return c, nil
}
