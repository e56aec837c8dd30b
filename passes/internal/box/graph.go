package box

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/schedule"
)

// Point is the bare problem of a graph at one point.
type Point struct {
	Index   int               // of the point in the box
	Problem *schedule.Problem // with the sharing that holds at all points
	Bytes   []int64           // by tensor of the problem but those that carry precedence alone: not rounded
	Bound   int64             // bytes that no order with the sharing of this point needs less than

	Own     *schedule.Problem // with the sharing of this point: the bound is proven for it
	OwnSame bool              // both have the same sharing

	works bool // the workspaces are not those of the bound that is known
}

// Graph is a graph at several points, with the order and the stacking that were chosen for it.
type Graph struct {
	Points     []Point    // the corner last
	Fixed      bool       // the nodes stay in the order of the file
	Precedence [][2]int32 // nodes of which the first must stay before the second
	Covered    []bool     // by tensor: its bytes lie in those of others; nil: none does
	Parents    [][]int32  // tensors that lie one behind the other
	Listed     bool       // the order is the one that a runtime takes by default for some listing
	Keep       *Ceiling   // that the corner keeps if it can; nil: none
	AskSolver  bool       // for orders at the corner, if there is a solver

	Chosen *Stack
	Known  []schedule.Certificate // that prove the bounds
	Solver *schedule.SolverReport // what the solver did; nil: it was not asked

	bounds map[int]Bound     // by point
	orders map[int][][]int32 // by point: the best ones with the sharing of all points
	found  [][]int32         // what the solver knows of the corner
}

// Ceiling is a limit on the peak at the corner or, with Arena, on the arena too.
type Ceiling struct {
	Bytes int64
	Arena bool
}

// Corner is the largest point.
func (g *Graph) Corner() *Point { return &g.Points[len(g.Points)-1] }

// Set replaces the points. What was found for the problems of before is kept: the orders only
// if those that have the same index have the same sharing, too.
func (g *Graph) Set(points []Point, same bool) {
	g.Points = points
	if g.bounds == nil {
		g.bounds = map[int]Bound{}
	}
	if !same || g.orders == nil {
		g.orders = map[int][][]int32{}
	}
}

// AddWork gives a node, at the point with that place in the list, the workspace that the
// placement of its body takes, and the bytes that no order of the body needs less than.
func (g *Graph) AddWork(point int, node int32, bytes, least int64) {
	p := &g.Points[point]
	placed, own := &p.Problem.Nodes[node].Workspace, &p.Own.Nodes[node].Workspace
	*placed, *own = max(*placed, bytes), max(*own, least)
	p.works = true
}

// Choose sets the order and the stacking, the bounds of the points, and what proves them. The
// bodies of the nodes have been chosen.
func (g *Graph) Choose(ctx context.Context, x *Search) error {
	bounds := make([]Bound, len(g.Points))
	err := Each(ctx, len(g.Points), func(_, i int) (err error) {
		p := &g.Points[i]
		has, known := g.bounds[p.Index]
		if !known || p.works {
			has, err = x.Bound(ctx, p.Own)
		}
		bounds[i] = has
		return err
	})
	if err != nil {
		return err
	}
	plain := x.Strategy == "" && !g.Fixed && g.Precedence == nil
	for i := range g.Points {
		p := &g.Points[i]
		p.Bound, g.bounds[p.Index] = bounds[i].Bytes, bounds[i]
		if p.works {
			delete(g.orders, p.Index)
		}
		if plain && p.OwnSame && !p.works {
			g.orders[p.Index] = bounds[i].Orders // the problem is the same
		}
	}
	g.Known = nil
	for _, has := range bounds {
		if !slices.ContainsFunc(g.Known, func(c schedule.Certificate) bool { return Same(c, has.Proof) }) {
			g.Known = append(g.Known, has.Proof)
		}
	}
	return g.choose(ctx, x)
}

// Ratio is bytes / bound; 1 if both are 0.
func Ratio(bytes, bound int64) float64 { return float64(max(1, bytes)) / float64(max(1, bound)) }

// Each calls f for the numbers below n, on all cores; it tells which of them by a number below
// that of all cores. Errors are those of the first number that has one.
func Each(ctx context.Context, n int, f func(worker, i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for w := range Workers(n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil && !failed.Load(); i = int(next.Add(1)) - 1 {
				if errs[i] = f(w, i); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Workers returns on how many cores [Each] calls a function n times.
func Workers(n int) int { return min(runtime.GOMAXPROCS(0), n) }
