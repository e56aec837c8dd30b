package schedule

import (
	"math"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// windowsFrom is the columns of a program above which windows come first: CP-SAT proves the
// optimum of less within seconds.
const windowsFrom = 10_000

// windowColumns is the most columns of the program of a window. CP-SAT seldom decides more
// within ten seconds.
const windowColumns = 60_000

// windowWidth is how many steps the first windows reach to either side.
const windowWidth = 16

// windowShare is the part of the time of all windows that one program may take.
const windowShare = 4

// solverWindows orders the steps around the peak of the best order again and again, in wider
// windows each time that nothing lower is found; the first reach width steps to either side.
// What comes before a window and after it stays as it is, so a window is a problem of its
// own. Precedence that a lower peak forces in it excludes most windows by itself; the solver
// decides about the others. It ends when no window whose program is small enough is lower, or
// the time of one program is up. The order of the whole gets better by it; its bound does not.
func (p *subproblem) solverWindows(width int) {
	a := p.s.foreign
	if a.silent {
		a.counts++
		return
	}
	var until time.Time
	if !a.until.IsZero() {
		share := a.take()
		until, a.each = time.Now().Add(share), max(share/windowShare, time.Second)
		defer func() { a.each = 0 }()
	}
	w := &solverWindow{leveller: newLeveller(p), a: a}
	for w.peak > p.bound && a.err == nil && a.ctx.Err() == nil && (until.IsZero() || time.Now().Before(until)) {
		lower := w.ownLower()
		for width := width; !lower; width += width / 2 {
			var more bool
			if lower, more = w.lowerWidth(width, until); !more {
				break
			}
		}
		if !lower {
			break
		}
		w.peak, w.step = indexed.Peak(w.loads)
		if w.peak < p.best.peak {
			p.see(slices.Clone(w.order))
		}
	}
}

// solverWindow is an order under way whose windows a solver orders.
type solverWindow struct {
	*leveller
	a *foreign
}

// windowWork is the work that our own search has to lower the highest step before a solver is
// asked.
const windowWork = 2_000_000

// ownLower lowers the highest step by our own search of a few states.
func (w *solverWindow) ownLower() bool {
	if w.p.s.without["level"] {
		return false
	}
	m := w.p.s.meter
	before, states := m.Budget, m.States
	defer func() {
		m.Budget = before
		m.Budget.States += m.States - states
	}()
	for _, w.states = range levelStates {
		m.Budget = meter.Budget{Work: m.Work() + windowWork, States: math.MaxInt, Runs: math.MaxInt}
		if w.lower() {
			return true
		}
	}
	return false
}

// lowerWidth looks for a lower order in the windows of one width that have the highest step.
// It also reports whether a program was small enough, so that wider ones are worth a try.
func (w *solverWindow) lowerWidth(width int, until time.Time) (lower, more bool) {
	for _, shift := range [3]int{0, -width / 2, width / 2} {
		from, to := max(0, w.step-width+shift), min(len(w.order), w.step+width+shift+1)
		if !until.IsZero() && time.Now().After(until) || w.a.err != nil || w.a.ctx.Err() != nil {
			return false, false
		}
		if to-from == len(w.order) { // no window
			return false, false
		}
		nodes := slices.Clone(w.order[from:to])
		w.parts.PlaceAround(w.p.g, nodes, w.place, int32(from))
		h := w.parts.Extract(w.p.g, nodes, w.live[from])
		found, small := w.ask(h)
		if found != nil {
			w.put(h, nodes, found, from)
			return true, true
		}
		more = more || small
	}
	return false, more
}

// ask asks for an order of a window below the peak; nil: none is found. It also reports whether
// all programs were small enough.
func (w *solverWindow) ask(h *indexed.Problem) (order []int32, small bool) {
	a, s := w.a, w.p.s
	q := s.open(h, w.p.bound)
	q.whole = nil
	q.see(indexed.Ascending(h.Nodes))
	before, most, why := a.report.Programs, a.most, a.report.Why
	a.most, a.refused = windowColumns, false
	v, order := q.attempt(w.peak-h.Granularity(), 0, s.meter.Flow+maxForcing/10, maxForcing/30)
	a.most, a.report.Why = most, why // the whole has a reason of its own
	a.report.Windows += a.report.Programs - before
	if v != feasible {
		order = nil
	}
	return order, !a.refused
}
