package budget

import (
	"context"
	"slices"
)

// work counts the work done so far. The search ends when the count reaches a limit,
// so that the same problem gives the same result on any machine, or when the context
// ends.
type work struct {
	ctx   context.Context
	done  int64 // in units of one sweep position
	most  int64 // the limit of done; past it, a search returns its best result so far
	ended bool

	without []string // parts of the search to leave out, by name: for the ablation
}

func (w *work) leavesOut(part string) bool { return slices.Contains(w.without, part) }

func (w *work) count(n int) { w.done += int64(n) }

// halted reports whether the context has ended.
func (w *work) halted() bool {
	w.ended = w.ended || w.ctx != nil && w.ctx.Err() != nil
	return w.ended
}

// exhausted reports whether the work limit is reached or the context has ended.
func (w *work) exhausted() bool { return w.done > w.most || w.halted() }

// cause returns why the context ended the work, or nil.
func (w *work) cause() error {
	if !w.ended {
		return nil
	}
	return context.Cause(w.ctx)
}
