package passes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Comparison is one table that shows the result of every order strategy and every
// placement strategy on one problem.
type Comparison struct {
	Nodes, Tensors int // 0 if only buffers were given
	Buffers        int // buffers of the best order

	OrderBound  int64 // bytes: proven: no order has a smaller peak
	MaxLoad     int64 // bytes: the largest load of the buffers
	ArenaBound  int64 // bytes: proven: no arena for the buffers is smaller
	ObjectBound int64 // bytes: proven: no set of shared objects for the buffers takes less
	Rows        []Row // by group, in the order of the groups; in each group SolverRow is first

	Dims     map[string]plan.Dim // symbolic dimensions; nil unless a model was given
	Warnings []string            // nil unless a model was given
}

// Row is the result of one strategy.
type Row struct {
	Group    Group
	Strategy string

	PeakBytes     int64         // the largest sum of live bytes of the order or of the buffers; for an allocator: its live blocks when it had reserved the most
	ArenaBytes    int64         // bytes taken: the arena, all objects, or what the allocator reserved
	OverBound     float64       // per cent above the lower bound of the group: of the peak for an order, else of ArenaBytes
	Fragmentation float64       // per cent: (ArenaBytes - PeakBytes) / ArenaBytes
	Time          time.Duration // of this strategy alone
	Best          bool          // no row of the group is smaller
	Left          string        // why the strategy was not run; empty if it was
	SolverGap     *float64      // of a row of OLLA: per cent of its peak down to its solver's bound; nil: no bound
}

// Group names the rows that are compared with each other.
type Group string

// The groups: orders, each placed by [alloc.Solve]; then three groups for the
// buffers of the best order: offsets in one arena, shared objects, and allocators
// at run time.
const (
	GroupOrder     Group = "order"
	GroupPlacement Group = "placement"
	GroupObjects   Group = "objects"
	GroupAllocator Group = "allocator"
)

// SolverRow is the name of the rows of [schedule.Solve] and [alloc.Solve].
const SolverRow = "onnxmem"

// CompareOptions are the options of a comparison. The names of strategies in
// Options are ignored. Align applies to models only: sizes of bare problems and
// buffers are taken as they are.
type CompareOptions struct {
	Options
	Begin func(Group, string) // called before each row
	Olla  []OllaSolver        // rows of OLLA's program, each with a solver and a time
}

// Compare compares the strategies on the main graph of a model, after planning
// its bodies and functions. It changes m as [Optimize] does. When ctx ends,
// strategies that have not started are left out. The rows have no aliases; a warning says
// so where these would make the peak smaller.
func Compare(ctx context.Context, m *graph.Model, opt CompareOptions) (_ *Comparison, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	s, err := newState(m, opt.Options)
	if err != nil {
		return nil, err
	}
	opt.Align = s.opt.Align
	list, err := upTo(s.opt.passes(), "order")
	if err != nil {
		return nil, err
	}
	// The bodies are planned even if ctx has ended: without their sizes there is
	// nothing to compare.
	if _, err := s.run(context.WithoutCancel(ctx), list); err != nil {
		return nil, err
	}
	t, err := newComparer(ctx, opt).orders(s.now.Main.Problem())
	if err != nil {
		return nil, err
	}
	t.Tensors, t.Dims, t.Warnings = s.tensors(), s.dims(), s.warnings()
	if note, err := s.aliasesNote(ctx, t); err != nil {
		return nil, err
	} else if note != "" {
		t.Warnings = append(t.Warnings, note)
	}
	return t, m.Source.Unchanged()
}

// CompareProblem compares the strategies on a bare scheduling problem. Errors
// about it are of type [*graph.Error].
func CompareProblem(ctx context.Context, p *schedule.Problem, opt CompareOptions) (*Comparison, error) {
	if opt.Align > 1 {
		var err error
		if p, err = p.Rounded(opt.Align); err != nil {
			return nil, &graph.Error{Offset: -1, Err: err}
		}
	}
	if opt.NoInplace {
		q := *p
		q.Tensors = slices.Clone(p.Tensors)
		for t := range q.Tensors {
			q.Tensors[t].Reuses = nil
		}
		p = &q
	}
	return newComparer(ctx, opt).orders(p)
}

// CompareBuffers compares the placement strategies on buffers with lifetimes.
// Errors about them are of type [*graph.Error].
func CompareBuffers(ctx context.Context, p alloc.Problem, opt CompareOptions) (*Comparison, error) {
	if opt.Align > 1 {
		var err error
		if p, err = p.Rounded(opt.Align); err != nil {
			return nil, &graph.Error{Offset: -1, Err: err}
		}
	}
	if err := p.Validate(); err != nil {
		return nil, &graph.Error{Offset: -1, Err: err}
	}
	c := newComparer(ctx, opt)
	if err := c.placements(p); err != nil {
		return nil, err
	}
	return c.done(), nil
}

// comparer is a comparison in progress.
type comparer struct {
	opt   CompareOptions
	ctx   context.Context
	peak  int64 // the smallest peak of the orders so far; -1: none yet
	table Comparison
}

func newComparer(ctx context.Context, opt CompareOptions) *comparer {
	return &comparer{opt: opt, ctx: ctx, peak: -1}
}

// tooMany is the reason for leaving out a strategy that takes much longer than
// the others.
const tooMany = "too many buffers for this strategy: say --effort max"

// row runs one strategy, unless ctx has ended or there are more buffers than the
// strategy is meant for. SolverRow always runs: its search ends with ctx.
func (c *comparer) row(g Group, name string, most int, run func(*Row) error) error {
	r := Row{Group: g, Strategy: name}
	switch {
	case name != SolverRow && c.ctx.Err() != nil:
		r.Left = "not run: no time left"
	case most > 0 && c.table.Buffers > most && c.opt.Effort != schedule.EffortMax:
		r.Left = tooMany
	default:
		if c.opt.Begin != nil {
			c.opt.Begin(g, name)
		}
		if err := run(&r); err != nil {
			return err
		}
	}
	c.table.Rows = append(c.table.Rows, r)
	return nil
}

// orders compares the orders of a problem, then the placements of the best order.
func (c *comparer) orders(p *schedule.Problem) (*Comparison, error) {
	c.table.Nodes, c.table.Tensors = len(p.Nodes), len(p.Tensors)
	var best placedOrder
	keep := func(r *Row, o placedOrder) {
		r.PeakBytes, r.ArenaBytes = o.peak, o.found.Arena
		if len(best.buffers) == 0 || cmp.Or(cmp.Compare(o.peak, best.peak), cmp.Compare(o.found.Arena, best.found.Arena)) < 0 {
			best = o
		}
	}
	err := c.row(GroupOrder, SolverRow, 0, func(r *Row) error {
		began := time.Now()
		solved, err := schedule.Solve(c.ctx, p, schedule.Options{Effort: c.opt.Effort})
		if err != nil {
			return err
		}
		r.Time = time.Since(began)
		c.table.OrderBound = solved.Bound
		o, err := c.choose(p, solved)
		keep(r, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, s := range schedule.Strategies {
		err := c.row(GroupOrder, s.Name, 0, func(r *Row) error {
			began := time.Now()
			order := s.Func(p)
			r.Time = time.Since(began)
			o, err := c.place(p, order)
			keep(r, o)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if err := c.olla(p, keep); err != nil {
		return nil, err
	}
	if err := c.placements(alloc.Problem{Buffers: best.buffers, Alignment: c.opt.Align}); err != nil {
		return nil, err
	}
	return c.done(), nil
}

// placedOrder is an order whose buffers have been placed.
type placedOrder struct {
	peak    int64
	buffers []alloc.Buffer
	found   alloc.Result
}

// choose places the best orders of a problem, and chooses one, as the order pass does.
func (c *comparer) choose(p *schedule.Problem, solved *schedule.Result) (placedOrder, error) {
	g := &box.Graph{}
	g.Set([]box.Point{{Problem: p}}, true)
	g.Know(solved.Bound, solved.Orders)
	_, best, err := box.Choose(g, &box.Search{}, solved.Orders, func(order []int32, _ box.Fit) (placedOrder, box.Fit, error) {
		o, err := c.place(p, order)
		return o, box.Fit{Worst: box.Ratio(o.found.Arena, solved.Bound)}, err
	})
	return best, err
}

// place places the buffers of an order as the place pass does: once with all
// in-place pairs, once with only those that the peak needs. An order with a
// larger peak than an earlier one cannot win, so it is placed with the least
// effort: the program order of some training graphs would otherwise take half a
// minute for the last 0.005 %.
func (c *comparer) place(p *schedule.Problem, order []int32) (best placedOrder, err error) {
	e, err := p.Evaluate(order)
	if err != nil {
		return best, err
	}
	best.peak = e.Peak
	lost := c.peak >= 0 && e.Peak > c.peak
	if !lost {
		c.peak = e.Peak
	}
	for k, above := range [2]int64{schedule.AllPairs, e.Peak} {
		if k > 0 {
			if best.found.Optimal || len(e.Taken) == 0 {
				break
			}
			if e, err = p.EvaluateSharing(order, above); err != nil {
				return best, err
			}
		}
		buffers, err := buffersOf(p, order, e.Taken)
		if err != nil {
			return best, err
		}
		found, err := c.solve(alloc.Problem{Buffers: buffers, Alignment: c.opt.Align}, lost)
		if err != nil {
			return best, err
		}
		if k == 0 || found.Arena < best.found.Arena {
			best.buffers, best.found = buffers, found
		}
	}
	return best, nil
}

// solve calls [alloc.Solve], with the least effort if the order cannot win or ctx
// has ended. It returns a placement even then.
func (c *comparer) solve(p alloc.Problem, lost bool) (alloc.Result, error) {
	little := alloc.Options{Effort: alloc.EffortFast}
	if c.ctx.Err() == nil {
		opt := alloc.Options{Effort: planner.Placement(c.opt.Effort)}
		if lost && c.opt.Effort != schedule.EffortMax {
			opt = little
		}
		found, err := alloc.Solve(c.ctx, p, opt)
		if err == nil || c.ctx.Err() == nil {
			return found, err
		}
	}
	return alloc.Solve(context.WithoutCancel(c.ctx), p, little)
}

// placements compares the placements of the buffers.
func (c *comparer) placements(p alloc.Problem) error {
	c.table.Buffers, c.table.MaxLoad, c.table.ObjectBound = len(p.Buffers), p.MaxLoad(), p.ObjectBound()
	timed := func(r *Row, run func() int64) {
		began := time.Now()
		arena := run()
		r.Time = time.Since(began)
		r.PeakBytes, r.ArenaBytes = c.table.MaxLoad, arena
	}
	err := c.row(GroupPlacement, SolverRow, 0, func(r *Row) (err error) {
		timed(r, func() int64 {
			var found alloc.Result
			if found, err = c.solve(p, false); err == nil {
				c.table.ArenaBound = found.LowerBound
				err = checked(SolverRow, p.CheckSweep(found.Placement))
			}
			return found.Arena
		})
		return err
	})
	if err != nil {
		return err
	}
	for _, s := range alloc.Strategies {
		err := c.row(GroupPlacement, s.Name, s.MaxBuffers, func(r *Row) error {
			var a alloc.Placement
			timed(r, func() int64 { a = s.Func(p); return a.Arena })
			return checked(s.Name, p.CheckSweep(a))
		})
		if err != nil {
			return err
		}
	}
	for _, s := range alloc.ObjectStrategies {
		err := c.row(GroupObjects, s.Name, s.MaxBuffers, func(r *Row) error {
			timed(r, func() int64 { return s.Func(p).Total })
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, s := range alloc.Simulators {
		err := c.row(GroupAllocator, s.Name, 0, func(r *Row) error {
			var took alloc.Simulation
			timed(r, func() int64 { took = s.Func(p); return took.Reserved })
			r.PeakBytes = took.Load
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checked adds the name of the faulty strategy to an error.
func checked(name string, err error) error {
	if err != nil {
		return fmt.Errorf("internal error in placement by %s: %w", name, err)
	}
	return nil
}

// done computes the percentages and marks the best rows.
func (c *comparer) done() *Comparison {
	t := &c.table
	bounds := map[Group]int64{GroupOrder: t.OrderBound, GroupPlacement: t.ArenaBound, GroupObjects: t.ObjectBound, GroupAllocator: t.ArenaBound}
	least := map[Group][2]int64{}
	key := func(r *Row) [2]int64 {
		if r.Group == GroupOrder {
			return [2]int64{r.PeakBytes, r.ArenaBytes}
		}
		return [2]int64{r.ArenaBytes}
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Left != "" {
			continue
		}
		k := key(r)
		if old, ok := least[r.Group]; !ok || slices.Compare(k[:], old[:]) < 0 {
			least[r.Group] = k
		}
		if r.ArenaBytes > 0 {
			r.Fragmentation = 100 * float64(r.ArenaBytes-r.PeakBytes) / float64(r.ArenaBytes)
		}
		if bound := bounds[r.Group]; bound > 0 {
			figure := r.ArenaBytes
			if r.Group == GroupOrder {
				figure = r.PeakBytes
			}
			r.OverBound = 100 * float64(figure-bound) / float64(bound)
		}
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		r.Best = r.Left == "" && key(r) == least[r.Group]
	}
	return t
}

// buffersOf returns the buffers of an order, for placement.
func buffersOf(p *schedule.Problem, order []int32, taken []schedule.Pair) ([]alloc.Buffer, error) {
	list, err := p.Lifetimes(order, taken)
	if err != nil {
		return nil, err
	}
	buffers := make([]alloc.Buffer, len(list))
	for i, b := range list {
		buffers[i] = alloc.Buffer{Size: b.Bytes, First: b.First, Last: b.Last}
		if b.Node >= 0 {
			buffers[i].ID = p.Nodes[b.Node].Name
		} else {
			buffers[i].ID = p.Tensors[b.Tensors[0]].Name
		}
	}
	return buffers, nil
}

// aliasesNote says how small the peak of the main graph, whose nodes are in the order of the
// file, is with aliases, if that is less than in all rows of a comparison.
func (s *State) aliasesNote(ctx context.Context, t *Comparison) (string, error) {
	g := s.now.Main.AliasGraph()
	if !s.opt.mayAlias() || ctx.Err() != nil {
		return "", nil
	}
	l := g.Choose(nil)
	if l.Saved == 0 {
		return "", nil
	}
	q, _ := s.now.Main.Aliased(l, l.Pieces(nil), s.now.Main.AliasPairs())
	solved, err := schedule.Solve(ctx, q.Problem(), schedule.Options{Effort: s.opt.Effort})
	if err != nil || solved.Evaluation.Peak >= t.OrderBound {
		return "", err
	}
	return fmt.Sprintf("aliases: the rows are without; with them, a peak of %s is reached", units.Bytes(solved.Evaluation.Peak)), nil
}
