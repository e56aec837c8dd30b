package box

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/schedule"
)

// joinAtOnce is the largest number of points without the chosen sharing, or with a larger
// ratio than the grid, that join the grid in one round: what one of them lacks, its
// neighbours usually lack, too.
const joinAtOnce = 8

// Model makes the bare problems of a model at the points of a box.
type Model interface {
	// Choose gives the graphs their problems at the points of a grid, which are ascending, and
	// lets them choose.
	Choose(ctx context.Context, grid []int) (Graphs, error)

	// Prove proves at a point what was chosen. It is called on several cores at once; worker
	// tells them apart, as [Each] does.
	Prove(ctx context.Context, s *Solution, worker, point int) (Proven, error)

	// Again is asked if all points have what was chosen. It reports whether something was left
	// out, so that the choice must be made again.
	Again(s *Solution) bool
}

// Proven is what was found at a point. Figures are bytes.
type Proven struct {
	Refused  string // why the model refuses it; "" if it does not
	Unshared bool   // tensors were chosen to share a buffer that cannot do so here

	Arena, Bound int64
	Peak         int64        // the largest load of the buffers
	Bounds       []PointBound // of each graph, the main graph last
}

// Solution is what was chosen for all points of a box, and proven.
type Solution struct {
	Box    *dimrange.Box
	All    bool // each point is proven; else those of the grid alone
	Graphs Graphs
	Sizes  *Sizes
	Points []int // that are proven, ascending
	Proven []Proven

	Progress func(done, points int) // may be nil
	grid     map[int]bool
}

// NewSolution begins with a small grid of a box.
func NewSolution(b *dimrange.Box, all bool) *Solution {
	s := &Solution{Box: b, All: all, grid: map[int]bool{}}
	for _, i := range b.Grid() {
		s.grid[i] = true
	}
	return s
}

// Again returns a solution that begins with the grid with which this one has ended.
func (s *Solution) Again() *Solution {
	return &Solution{Box: s.Box, All: s.All, Progress: s.Progress, grid: maps.Clone(s.grid)}
}

// Solve chooses, proves, and chooses again with the points at which the proof fails, until
// it holds at all of them. It ends, because the box is finite.
func (s *Solution) Solve(ctx context.Context, x *Search, m Model) (err error) {
	for {
		if s.Graphs, err = m.Choose(ctx, slices.Sorted(maps.Keys(s.grid))); err != nil {
			return err
		}
		s.Sizes = FitSizes(s.Box, s.Graphs)
		if err := s.prove(ctx, m); err != nil {
			return err
		}
		more, unshared := s.failed(x)
		if !unshared && m.Again(s) {
			continue
		}
		if len(more) == 0 {
			return nil
		}
		for _, i := range more[:min(len(more), joinAtOnce)] {
			s.grid[s.Points[i]] = true
		}
	}
}

// prove proves all points of the box, or those of the grid.
func (s *Solution) prove(ctx context.Context, m Model) error {
	s.Points = slices.Sorted(maps.Keys(s.grid))
	if s.All {
		s.Points = make([]int, s.Box.Points)
		for i := range s.Points {
			s.Points[i] = i
		}
	}
	s.Proven = make([]Proven, len(s.Points))
	var done atomic.Int64
	var report sync.Mutex
	err := Each(ctx, len(s.Points), func(worker, i int) (err error) {
		s.Proven[i], err = m.Prove(ctx, s, worker, s.Points[i])
		if n := int(done.Add(1)); s.Progress != nil && (n%64 == 0 || n == len(s.Points)) {
			report.Lock()
			defer report.Unlock()
			s.Progress(n, len(s.Points))
		}
		return err
	})
	s.Sizes.DropWrong()
	return err
}

// failed returns the points that are to join the grid, as indices into the list: those at which
// tensors cannot share a buffer or, if there are none, those that are farther from their bounds
// than the grid, the farthest first.
func (s *Solution) failed(x *Search) (list []int, unshared bool) {
	var worse []int
	most := s.Graphs.Main().Chosen.Worst()
	for i, p := range s.Proven {
		switch {
		case p.Refused != "":
		case p.Unshared:
			list = append(list, i)
		case Ratio(p.Arena, p.Bound) > most && !s.grid[s.Points[i]] && !x.TimeIsUp():
			worse = append(worse, i)
		}
	}
	if len(list) > 0 {
		return list, true
	}
	slices.SortStableFunc(worse, func(i, j int) int {
		p, q := s.Proven[i], s.Proven[j]
		return cmp.Compare(Ratio(q.Arena, q.Bound), Ratio(p.Arena, p.Bound))
	})
	return worse, false
}

// Corner is what was found at the largest point.
func (s *Solution) Corner() *Proven { return &s.Proven[len(s.Proven)-1] }

// Accepted returns the points that the model does not refuse, and why it refuses the first of the
// others; "" if there are none.
func (s *Solution) Accepted() (points []int, refusal string) {
	for i, p := range s.Proven {
		switch {
		case p.Refused == "":
			points = append(points, s.Points[i])
		case refusal == "":
			refusal = p.Refused
		}
	}
	return points, refusal
}

// Extremes returns the points of the smallest arena and of the largest ratio of arena and bound,
// as indices into the list, and at how many points both are equal.
func (s *Solution) Extremes() (smallest, worst, optimal int) {
	smallest, worst = -1, -1
	for i, p := range s.Proven {
		if p.Refused != "" {
			continue
		}
		if smallest < 0 || p.Arena < s.Proven[smallest].Arena {
			smallest = i
		}
		if worst < 0 || Ratio(p.Arena, p.Bound) > Ratio(s.Proven[worst].Arena, s.Proven[worst].Bound) {
			worst = i
		}
		if p.Arena == p.Bound {
			optimal++
		}
	}
	return smallest, worst, optimal
}

// Proofs lists the certificates of the bounds of a graph, each once, those that prove most points
// first.
func (s *Solution) Proofs(g *Graph) []schedule.Certificate {
	var bounds []*PointBound
	for i := range s.Proven {
		if p := &s.Proven[i]; p.Refused == "" {
			bounds = append(bounds, &p.Bounds[g.Index])
		}
	}
	return g.proofs(bounds)
}
