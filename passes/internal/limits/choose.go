package limits

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/costs"
	"github.com/onnxmem/onnxmem/plan"
)

// Chosen is what a search for slices has chosen.
type Chosen struct {
	Choice
	Model    *graph.Model // nil: nothing runs in slices
	Slices   *Sliced      // what the plan says of them
	Fixed    bool         // the nodes stay in the order of the model
	Known    *Base        // has searches for the model; nil: none were made
	Measured *costs.Measured
	Frontier []plan.FrontierPoint
}

// Slices weighs slices against all other means.
func Slices(ctx context.Context, of Task) (*Chosen, error) {
	w, err := newWeigher(ctx, of, meansOf(&of.Permits))
	if err != nil {
		return nil, err
	}
	defer w.forget()
	opt, c := &of.Asked, &Chosen{Measured: w.s.Costs.Measured}
	if opt.Frontier {
		if c.Frontier, err = w.frontier(ctx); err != nil {
			return nil, err
		}
	}
	var found *way
	switch {
	case opt.Limit != nil:
		limit := opt.Limit.Of(w.unlimited())
		if found, err = w.keeping(ctx, limit); err == nil && found == nil {
			err = w.error(ctx, limit.Bytes)
		}
		if c.Limit = limit; found != nil && limit.Arena {
			c.Target = found.limit
		}
	case opt.Extra > 0:
		if found, err = w.within(ctx, opt.Extra); found != nil && (found.from != nil || found.sliced == nil) {
			c.Limit = &Limit{Bytes: found.limit}
		}
	}
	if err != nil || found == nil {
		return c, err
	}
	return c, w.adopt(ctx, c, found)
}

// adopt chooses the graph of a way. The searches that have been made for it are kept for the passes
// that would make them again.
func (w *weigher) adopt(ctx context.Context, c *Chosen, found *way) error {
	if c.Known = w.plain; found.from != nil {
		c.Known = found.from
	}
	m := found.sliced
	if m == nil {
		return nil
	}
	anyCount, err := m.anyCount(ctx, w.least)
	if err != nil {
		return err
	}
	c.Slices = &Sliced{m, w.unlimited(), w.plain.bound(), anyCount, w.least, w.relaxed}
	if c.Model, err = m.from.rewrite(m); err != nil {
		return err
	}
	return w.s.sameEverywhere(c.Model)
}
