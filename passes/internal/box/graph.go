package box

import "github.com/onnxmem/onnxmem/schedule"

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
	Main  bool  // it is the main graph: a solver works for it, if there is one
	Index int   // of the graph in Graphs
	Outer int   // of the graph around the node whose body it is; -1: it is the main graph
	Node  int32 // that node

	Points     []Point    // the corner last
	Fixed      bool       // the nodes stay in the order of the file
	Precedence [][2]int32 // nodes of which the first must stay before the second
	Covered    []bool     // by tensor: its bytes lie in those of others; nil: none does
	Parents    [][]int32  // tensors that lie one behind the other
	Listed     bool       // the order is the one that a runtime takes by default for some listing
	Keep       *Ceiling   // that the corner keeps if it can; nil: none

	Chosen *Stack
	Known  []schedule.Certificate // that prove the bounds
	Solver *schedule.SolverReport // what the solver did; nil: it was not asked

	first  int               // of its buffers among those of all graphs
	bounds map[int]Bound     // by point
	orders map[int][][]int32 // by point: the best ones with the sharing of all points
	found  [][]int32         // what the solver knows of the corner
	asked  bool              // it has worked
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

// Know sets the bound of the corner and its best orders, also of the solver, which were found before.
func (g *Graph) Know(bound int64, orders [][]int32) {
	p := g.Corner()
	p.Bound, g.orders[p.Index], g.asked = bound, orders, true
}
