package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// binding says which lengths and values the inputs of a model have.
type binding struct {
	given   ops.Options
	runtime string // that runs the plan; "": onnxmem
}

// infer sets the types of a model, and what its nodes may share in the runtime.
func (b *binding) infer(m *graph.Model) (*ops.Inference, error) {
	found, err := ops.Infer(m, b.given)
	if err != nil {
		return nil, err
	}
	restrict(m, b.runtime)
	return found, nil
}

// at returns the binding with other lengths of dimensions.
func (b binding) at(dims map[string]int64) binding {
	b.given.Dims = dims
	return b
}

// restrict leaves to the nodes of an inferred model what a runtime shares; "" is ours.
func restrict(m *graph.Model, runtime string) {
	if r := ops.LookupRuntime(runtime); r != nil {
		ops.Restrict(m, r)
	}
}

// trial is a model that may become the one that is planned.
type trial struct {
	model     *graph.Model
	inference *ops.Inference
	main      *region
	time      float64 // modelled time of all nodes, in nanoseconds, if that is wanted
}

// trial infers a model, and finds the storages of its main graph and the workspaces of its
// nodes.
func (b *binding) trial(ctx context.Context, m *graph.Model, x *rules, how *search) (*trial, error) {
	found, err := b.infer(m)
	if err != nil {
		return nil, err
	}
	r, err := x.shared(m, found.Given, map[*graph.Call]*region{})
	if err != nil {
		return nil, err
	}
	return &trial{model: m, inference: found, main: r}, r.planBodies(ctx, how)
}

// figures are those of a plan.
type figures struct{ peak, total int64 }

// figures plans the rest. A total above most may be a lower bound: where the peak alone leads
// to it, nothing is placed, which takes most of the time.
func (t *trial) figures(ctx context.Context, most int64, x *search) (figures, error) {
	r := t.main
	p := r.problem()
	if err := r.findOrders(ctx, p, x); err != nil {
		return figures{}, err
	}
	buffers, err := r.chains(nil)
	if err != nil {
		return figures{}, err
	}
	for i := range buffers {
		if buffers[i].resident {
			r.resident += buffers[i].bytes
		}
	}
	least := r.solved.Evaluation.Peak
	if x.traversal != nil { // another order is chosen
		least = r.solved.Bound
	}
	if e := (figures{least, least + r.constants()}); e.total > most {
		return e, nil
	}
	if err := r.arrange(ctx, p, x); err != nil {
		return figures{}, err
	}
	if err := r.place(ctx, x); err != nil {
		return figures{}, err
	}
	return figures{r.loads.Peak, r.arena + r.constants()}, nil
}

// constants is the size of the resident pool: the constants of a region and of its
// bodies.
func (r *region) constants() int64 {
	n := r.resident
	for _, b := range r.bodies {
		n += b.r.constants()
	}
	return n
}
