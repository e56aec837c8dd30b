package planner

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Binding says which lengths and values the inputs of a model have.
type Binding struct {
	Given   ops.Options
	Runtime string // that runs the plan; "": onnxmem
}

// Infer sets the types of a model, and what its nodes may share in the runtime.
func (b *Binding) Infer(m *graph.Model) (*ops.Inference, error) {
	found, err := ops.Infer(m, b.Given)
	if err != nil {
		return nil, err
	}
	restrict(m, b.Runtime)
	return found, nil
}

// At returns the binding with other lengths of dimensions.
func (b Binding) At(dims map[string]int64) Binding {
	b.Given.Dims = dims
	return b
}

// restrict leaves to the nodes of an inferred model what a runtime shares; "" is ours.
func restrict(m *graph.Model, runtime string) {
	if r := ops.LookupRuntime(runtime); r != nil {
		ops.Restrict(m, r)
	}
}

// Trial is a model that may become the one that is planned.
type Trial struct {
	Model     *graph.Model
	Inference *ops.Inference
	Main      *Region
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
	return &Trial{Model: m, Inference: found, Main: r}, r.PlanBodies(ctx, how)
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
