package passes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/schedule"
)

// MaxRangePoints is the largest number of points that [SolveRange] enumerates.
const MaxRangePoints = 65536

// RangeResult is one order of the nodes and one stacking of the buffers for all lengths
// of some dimensions, and what was proven at every point.
type RangeResult struct {
	Points        int    // all combinations of lengths
	Refused       int    // points at which the model has no valid shapes
	FirstRefusal  string // why, at the first of them; "" if there is none
	OptimalPoints int    // points whose arena is the lower bound
	ArenaBytes    int64  // the largest arena of all points
	Corner, Worst RangePoint
	Order         []int32 // of the nodes, by their index in the model without what was folded
}

// RangePoint is what one point needs, in bytes.
type RangePoint struct {
	Dims       map[string]int64
	ArenaBytes int64
	LowerBound int64 // of any order at this point, with all sharing that is possible there
}

// Ratio is the arena divided by the bound.
func (p RangePoint) Ratio() float64 { return ratio(p.ArenaBytes, p.LowerBound) }

// SolveRange finds one order and one stacking ([alloc/stacking]) for all lengths of the
// dimensions in ranges, each in the form LOW..HIGH, LOW..HIGH:STEP, or a list such as
// 1,2,4,8. It proves by enumeration, on all cores, that every view and in-place pair that
// it uses is possible at every point, and computes the arena and the bound of each. The
// result does not depend on the number of cores. Points at which inference refuses the
// model are counted, but the corner, where all lengths are largest, must not be one. It
// fails for training graphs, for models with bodies or local functions, and with the
// options that change the graph for one binding (limits, slices, pools, states). Like
// [Optimize], it changes m.
func SolveRange(ctx context.Context, m *graph.Model, opt Options, ranges map[string]string) (*RangeResult, error) {
	dims := map[string]dimrange.Lengths{}
	for _, name := range slices.Sorted(maps.Keys(ranges)) {
		l, err := dimrange.Parse(ranges[name])
		if err != nil {
			return nil, &OptionError{fmt.Errorf("dimension %q: %w", name, err)}
		}
		if _, twice := opt.Dims[name]; twice {
			return nil, &OptionError{fmt.Errorf("dimension %q: expected a length or a range, found both", name)}
		}
		dims[name] = l
	}
	box, err := dimrange.NewBox(dims, MaxRangePoints)
	if err != nil {
		return nil, &OptionError{err}
	}
	if opt.Train != nil || opt.Limit != nil || opt.Frontier || opt.Pools != nil || opt.Slices != SlicesOff || opt.ExtraPercent != 0 || len(opt.States) > 0 || opt.StatesAuto || opt.Workspaces != nil {
		return nil, &OptionError{errors.New("ranges of dimensions: expected no training, limit, extra time, slices, pools, states or recorded workspaces, which are for one length of each")}
	}
	s, err := newState(m, opt)
	if err != nil {
		return nil, err
	}
	b := &rangeSolver{box: box, given: s.opt.Dims, opt: s.opt, join: map[int]bool{}}
	s.opt.Dims = b.dims(box.Corner())
	early, err := upTo(s.opt.passes(), "share")
	if err != nil {
		return nil, err
	}
	if _, err := s.run(ctx, early); err != nil {
		return nil, err
	}
	b.model = s.model
	for _, n := range b.model.Graph.Nodes {
		if len(n.Bodies()) > 0 || n.Semantics.Call != nil {
			return nil, s.named(graph.Errorf("ranges of dimensions: expected no bodies and no local functions").AtNode(n.Name))
		}
	}
	for _, i := range box.Grid() {
		b.join[i] = true
	}
	return b.solve(ctx)
}

// joinAtOnce is the largest number of points without the chosen sharing that join the grid
// in one round: what one of them lacks, its neighbours usually lack, too.
const joinAtOnce = 8

// rangeSolver solves a model for a box of dimensions.
type rangeSolver struct {
	model  *graph.Model
	box    *dimrange.Box
	given  map[string]int64 // lengths of the other dimensions
	opt    Options
	join   map[int]bool // the grid: the points at which sharing, order and stacking are chosen
	common []sharing    // by node: what holds on all of the grid
}

// sharing is which outputs of a node may share the storage of an input.
type sharing struct{ views, inplace []graph.Alias }

// dims returns the lengths of all dimensions at a point.
func (b *rangeSolver) dims(point int) map[string]int64 {
	dims := b.box.At(point)
	maps.Copy(dims, b.given)
	return dims
}

// infer infers a copy of the model at a point.
func (b *rangeSolver) infer(m *graph.Model, point int) error {
	_, err := ops.Infer(m, ops.Options{Dims: b.dims(point), Values: b.opt.Values, StrictDims: b.opt.StrictDims, SpareDims: b.opt.SpareDims, Strict: b.opt.Strict})
	return err
}

// problem returns the bare problem of an inferred model.
func (b *rangeSolver) problem(ctx context.Context, m *graph.Model) (*schedule.Problem, error) {
	s := &State{opt: b.opt, given: m, model: m}
	if err := share(ctx, s); err != nil {
		return nil, err
	}
	return s.Problem(), nil
}

// solve chooses, proves, and chooses again with the points at which the proof fails, until
// it holds at all of them. It ends, because the box is finite.
func (b *rangeSolver) solve(ctx context.Context) (*RangeResult, error) {
	for {
		points, err := b.grid(ctx)
		if err != nil {
			return nil, err
		}
		chosen, err := chooseStack(ctx, points, b.opt)
		if err != nil {
			return nil, err
		}
		proven, err := b.enumerate(ctx, points[len(points)-1].problem, chosen)
		if err != nil {
			return nil, err
		}
		worse, failed := -1, 0
		for i, p := range proven {
			switch {
			case p.refused != "":
			case p.unshared:
				if failed < joinAtOnce {
					failed++
					b.join[i] = true
				}
			case ratio(p.arena, p.bound) > chosen.worst && (worse < 0 || ratio(p.arena, p.bound) > ratio(proven[worse].arena, proven[worse].bound)):
				worse = i
			}
		}
		if failed > 0 {
			continue
		}
		if worse >= 0 && !b.join[worse] {
			b.join[worse] = true
			continue
		}
		return b.result(chosen, proven), nil
	}
}

// grid infers the points of the grid, sets the sharing that all of them have, and returns
// those that the model does not refuse, the corner last.
func (b *rangeSolver) grid(ctx context.Context) ([]rangePoint, error) {
	var points []rangePoint
	b.common = nil
	for _, i := range slices.Sorted(maps.Keys(b.join)) {
		if err := b.infer(b.model, i); err != nil {
			if i == b.box.Corner() {
				return nil, err
			}
			continue
		}
		own, err := b.problem(ctx, b.model)
		if err != nil {
			return nil, err
		}
		bound, err := rangeBound(ctx, own, b.opt)
		if err != nil {
			return nil, err
		}
		points = append(points, rangePoint{index: i, bound: bound})
		first := b.common == nil
		if first {
			b.common = make([]sharing, len(b.model.Graph.Nodes))
		}
		for n, node := range b.model.Graph.Nodes {
			c, has := &b.common[n], &node.Semantics
			if first {
				c.views, c.inplace = slices.Clone(has.Views), slices.Clone(has.Inplace)
				continue
			}
			c.views, c.inplace = intersect(c.views, has.Views), intersect(c.inplace, has.Inplace)
		}
	}
	for k := range points {
		if err := b.infer(b.model, points[k].index); err != nil {
			return nil, err
		}
		var err error
		if points[k].problem, err = b.commonProblem(ctx, b.model); err != nil {
			return nil, err
		}
		if !sameStorages(points[0].problem, points[k].problem) {
			return nil, b.otherTensors(points[k].index)
		}
	}
	commonReuses(points)
	return points, nil
}

func intersect[E comparable](a, b []E) []E {
	return slices.DeleteFunc(a, func(x E) bool { return !slices.Contains(b, x) })
}

// commonProblem returns the problem of an inferred model with the common sharing alone. It
// replaces the sharing that inference found.
func (b *rangeSolver) commonProblem(ctx context.Context, m *graph.Model) (*schedule.Problem, error) {
	for n, c := range b.common {
		m.Graph.Nodes[n].Semantics.Views, m.Graph.Nodes[n].Semantics.Inplace = slices.Clone(c.views), slices.Clone(c.inplace)
	}
	return b.problem(ctx, m)
}

// sameStorages reports whether two problems have the same tensors, apart from their sizes.
func sameStorages(a, b *schedule.Problem) bool {
	return slices.EqualFunc(a.Tensors, b.Tensors, func(x, y schedule.Tensor) bool {
		return x.Name == y.Name && x.Producer == y.Producer && x.Resident == y.Resident && x.Kind == y.Kind
	})
}

// otherTensors is the error for a point at which other tensors have a known size than at
// the rest of the grid.
func (b *rangeSolver) otherTensors(point int) error {
	return graph.Errorf("ranges of dimensions: at %v, expected the tensors of known size that the other points have", b.box.At(point))
}

// commonReuses keeps the in-place pairs whose sizes are equal at all points.
func commonReuses(points []rangePoint) {
	for t := range points[0].problem.Tensors {
		reuses := slices.Clone(points[0].problem.Tensors[t].Reuses)
		for _, p := range points[1:] {
			tensors := p.problem.Tensors
			reuses = slices.DeleteFunc(reuses, func(over int32) bool {
				// Two tensors of 0 bytes need no pair, and forbid none.
				return !slices.Contains(tensors[t].Reuses, over) && tensors[t].Bytes+tensors[over].Bytes > 0
			})
		}
		for _, p := range points {
			p.problem.Tensors[t].Reuses = reuses
		}
	}
}

// rangeBound returns the proven bound of a problem.
func rangeBound(ctx context.Context, p *schedule.Problem, opt Options) (int64, error) {
	r, err := schedule.Solve(ctx, p, schedule.Options{Effort: opt.Effort})
	if err != nil {
		return 0, err
	}
	return r.Bound, r.Ended
}

// provenPoint is what was found at one point.
type provenPoint struct {
	refused      string // why inference refuses it; "" if it does not
	unshared     bool   // a view or an in-place pair that was chosen is not possible
	arena, bound int64
}

// enumerate infers every point of the box, with a copy of the graph for each worker.
func (b *rangeSolver) enumerate(ctx context.Context, corner *schedule.Problem, chosen *oneStack) ([]provenPoint, error) {
	proven, errs := make([]provenPoint, b.box.Points), make([]error, b.box.Points)
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), b.box.Points) {
		m := *b.model
		m.Graph = b.model.Graph.Clone()
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < b.box.Points && ctx.Err() == nil && !failed.Load(); i = int(next.Add(1)) - 1 {
				if proven[i], errs[i] = b.prove(ctx, &m, i, corner, chosen); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return proven, errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}

// prove infers a point, compares the sharing, and computes the arena and the bound.
func (b *rangeSolver) prove(ctx context.Context, m *graph.Model, point int, corner *schedule.Problem, chosen *oneStack) (p provenPoint, err error) {
	if err := b.infer(m, point); err != nil {
		return provenPoint{refused: err.Error()}, nil
	}
	for n, c := range b.common {
		has := &m.Graph.Nodes[n].Semantics
		if len(intersect(slices.Clone(c.views), has.Views)) < len(c.views) || len(intersect(slices.Clone(c.inplace), has.Inplace)) < len(c.inplace) {
			return provenPoint{unshared: true}, nil
		}
	}
	own, err := b.problem(ctx, m)
	if err != nil {
		return p, err
	}
	if p.bound, err = rangeBound(ctx, own, b.opt); err != nil {
		return p, err
	}
	shared, err := b.commonProblem(ctx, m)
	if err != nil {
		return p, err
	}
	if !sameStorages(corner, shared) {
		return p, b.otherTensors(point)
	}
	var sizes *errSizes
	if p.arena, err = chosen.arena(shared); errors.As(err, &sizes) {
		return provenPoint{unshared: true}, nil
	}
	return p, err
}

// result sums up what was proven.
func (b *rangeSolver) result(chosen *oneStack, proven []provenPoint) *RangeResult {
	r := &RangeResult{Points: len(proven), Order: chosen.order}
	worst := b.box.Corner()
	for i, p := range proven {
		if p.refused != "" {
			if r.Refused++; r.Refused == 1 {
				r.FirstRefusal = p.refused
			}
			continue
		}
		if p.arena == p.bound {
			r.OptimalPoints++
		}
		r.ArenaBytes = max(r.ArenaBytes, p.arena)
		if ratio(p.arena, p.bound) > ratio(proven[worst].arena, proven[worst].bound) {
			worst = i
		}
	}
	at := func(i int) RangePoint { return RangePoint{b.box.At(i), proven[i].arena, proven[i].bound} }
	r.Corner, r.Worst = at(b.box.Corner()), at(worst)
	return r
}
