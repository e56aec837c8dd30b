package folding

import (
	"context"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// Task is a model of which constants may be folded, and how plans of it are made.
type Task struct {
	planner.Trial // the model, whose types are known

	Rules *planner.Rules
	How   *planner.Search
	Given *graph.Model // that was read

	Trained  bool  // the model is a training step
	Most     int64 // bytes that folding may compute in all
	Products bool  // products may read their second operand as it lies
}

// Choice is what is folded of a model.
type Choice struct {
	Model  *graph.Model // nil: the model stays
	Result *Result      // nil: nothing is folded
	Hint   *Saving      // what products that read operands as they lie would save; nil: little, or they may
}

// Choose chooses which constants are folded: those that make the memory of the plan no larger.
func Choose(ctx context.Context, t Task) (*Choice, error) {
	f := &Folder{
		Rules: t.Rules, Given: t.Given, Trained: t.Trained, Runtime: t.Bind.Runtime, Limit: t.Most, Model: t.Model,
		Plan: func(m *graph.Model, most int64) (planner.Figures, error) { return t.figures(ctx, m, most) },
	}
	all, err := f.Foldable(f.Model)
	if err != nil {
		return nil, err
	}
	products := f.Products(f.Model, all)
	if len(all)+len(products) == 0 {
		return &Choice{}, nil
	}
	before, now := planner.Figures{}, planner.Figures{}
	any := func() (*Folder, error) { // what folds once the products were replaced
		x := *f
		var done []FoldedProduct
		x.Model, done = Multiply(t.Model, products, len(t.Inference.Dims)+len(t.Inference.Given) > 0)
		x.Values, x.Done = nil, &Result{Products: done, Nodes: Transposes(products)}
		_, err := t.Bind.Infer(x.Model)
		return &x, err
	}
	if t.Products && len(products) > 0 {
		if before, err = f.Estimate(nil, math.MaxInt64); err != nil {
			return nil, err
		}
		x, err := any()
		if err != nil {
			return nil, err
		}
		if now, err = x.Estimate(nil, before.Total); err != nil || now.Total > before.Total {
			return &Choice{}, err
		}
		f, products = x, nil
	}
	did, now, err := f.FoldConstants(&before, now)
	if err != nil {
		return nil, err
	}
	c := &Choice{}
	if !t.Products && len(products) > 0 {
		if c.Hint, err = f.HintAny(before, now, products, any); err != nil {
			return nil, err
		}
	}
	if did != nil || f.Done != nil {
		f.Describe(did, before)
		c.Result = f.Done
	}
	if f.Model != t.Model {
		c.Model = f.Model
	}
	c.Result.place(f.Model.Graph)
	return c, nil
}

// figures plans a model that was made of the present one, or finds that its total is larger than most.
func (t *Task) figures(ctx context.Context, m *graph.Model, most int64) (planner.Figures, error) {
	x := t.How.Quick()
	made, err := t.Bind.Trial(ctx, m, t.Rules, x)
	if err != nil {
		return planner.Figures{}, err
	}
	return made.Figures(ctx, most, x)
}

// place notes in which graphs of the model the tensors and products are. f may be nil.
func (f *Result) place(g *graph.Graph) {
	if f == nil {
		return
	}
	graphs, paths := GraphsIn(g), PathsIn(g)
	for i := range f.Products {
		f.Products[i].At = paths[graphs[f.Products[i].In].G]
	}
	for i := range f.Tensors {
		f.Tensors[i].At = paths[f.Tensors[i].G]
	}
}
