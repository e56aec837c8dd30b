package planner

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Trial is a model that may become the one that is planned.
type Trial struct {
	Bind      Binding
	Model     *graph.Model
	Inference *ops.Inference
	Main      *Region
	Ranged    *Ranged // the box of which this point is the corner; nil: there is no other point
	Time      float64 // modelled time of all nodes, in nanoseconds, if that is wanted
}

// Trial infers a model, and finds the storages of its main graph and the workspaces of its
// nodes.
func (b *Binding) Trial(ctx context.Context, m *graph.Model, x *Rules, how *Search) (*Trial, error) {
	found, err := b.Infer(m)
	if err != nil {
		return nil, err
	}
	r, err := x.Shared(m, found.Given, map[*graph.Call]*Region{})
	if err != nil {
		return nil, err
	}
	return &Trial{Bind: *b, Model: m, Inference: found, Main: r}, r.PlanBodies(ctx, how)
}

// Figures are those of a plan.
type Figures struct{ Peak, Total int64 }

// Figures plans the rest. A total above most may be a lower bound: where the peak alone leads
// to it, nothing is placed, which takes most of the time.
func (t *Trial) Figures(ctx context.Context, most int64, x *Search) (Figures, error) {
	r := t.Main
	p := r.Problem()
	if err := r.findOrders(ctx, p, x); err != nil {
		return Figures{}, err
	}
	buffers, err := r.Chains(nil)
	if err != nil {
		return Figures{}, err
	}
	for i := range buffers {
		if buffers[i].Resident {
			r.resident += buffers[i].Bytes
		}
	}
	least := r.Solved.Evaluation.Peak
	if x.Traversal != nil { // another order is chosen
		least = r.Solved.Bound
	}
	if e := (Figures{least, least + r.constants()}); e.Total > most {
		return e, nil
	}
	if err := r.arrange(ctx, p, x); err != nil {
		return Figures{}, err
	}
	if err := r.Place(ctx, x); err != nil {
		return Figures{}, err
	}
	return Figures{r.Loads.Peak, r.Arena + r.constants()}, nil
}

// constants is the size of the resident pool: the constants of a region and of its
// bodies.
func (r *Region) constants() int64 {
	n := r.resident
	for _, b := range r.Bodies {
		n += b.R.constants()
	}
	return n
}
