// Package meter counts the work of a search and says when the search has to stop.
//
// Work is counted, never timed: the same problem gives the same result on any
// machine. A budget is an amount of work; a limit, elsewhere, is bytes.
package meter

import (
	"context"
	"math"
)

// Meter counts the work of one search over all problems that it looks at.
type Meter struct {
	Flow   int64 // vertices and edges that maximum flows visited
	Placed int64 // nodes that list scheduling placed
	Split  int64 // nodes of the problems that the current recursion on cuts opened
	States int   // states of exact searches
	Runs   int   // nodes that exact searches ran

	Budget Budget

	ctx    context.Context
	ended  bool
	parent *Meter
}

// Budget is how much work a search may do.
type Budget struct {
	Work   int64 // as Meter.Work counts
	States int   // of all exact searches
	Runs   int   // of nodes, in all exact searches
}

// Reason says why a search stops.
type Reason int

// The reasons to stop; Continue is none.
const (
	Continue Reason = iota
	Ended           // the context ended
	Spent           // the budget of work is spent
)

// New returns a meter without a budget of work and of nothing else. A nil context
// never ends.
func New(ctx context.Context) *Meter {
	return &Meter{ctx: ctx, Budget: Budget{Work: math.MaxInt64}}
}

// Separate returns a meter with counters of its own, which start at 0, and without a
// budget of work. It ends when m does.
func (m *Meter) Separate() *Meter {
	return &Meter{parent: m, Budget: Budget{Work: math.MaxInt64}}
}

// Work is the work so far, in vertices and edges of flows. To place a node in an order,
// with the heaps that this takes, or to run one in an exact search costs as much as some
// hundred of them: 100 million are the work of about a second.
func (m *Meter) Work() int64 { return m.WorkWith(0) }

// WorkWith is Work after so many further runs of nodes.
func (m *Meter) WorkWith(runs int) int64 {
	return m.Flow + 100*(m.Placed+int64(m.Runs)+int64(runs))
}

// Part returns at most a number of units of work, and at most a quarter of the budget
// that is left: what a stage may take without those after it going short.
func (m *Meter) Part(most int64) int64 {
	return max(0, min(most, (m.Budget.Work-m.Work())/4))
}

// Stop returns the reason to stop, or Continue.
func (m *Meter) Stop() Reason {
	switch {
	case m.Ended():
		return Ended
	case m.Work() > m.Budget.Work:
		return Spent
	}
	return Continue
}

// Ended reports whether the context has ended. Once it has, it stays so.
func (m *Meter) Ended() bool {
	if m.parent != nil {
		return m.parent.Ended()
	}
	m.ended = m.ended || m.ctx != nil && m.ctx.Err() != nil
	return m.ended
}

// Interrupted reports whether the search has noticed that the context ended, without
// another look.
func (m *Meter) Interrupted() bool { return m.ended }

// Poll is Ended that looks only once in a thousand steps.
func (m *Meter) Poll(step int) bool { return step%1024 == 0 && m.Ended() }

// Exhausted reports whether the exact searches have used up their budget.
func (m *Meter) Exhausted() bool {
	return m.States >= m.Budget.States || m.Runs >= m.Budget.Runs
}
