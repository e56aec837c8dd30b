package budget

import "context"

// work counts what is done, and ends it: at a limit, so that the same problem
// gives the same result on any machine, or when a context ends.
type work struct {
	ctx   context.Context
	done  int64 // positions of sweeps, or what takes as long
	most  int64 // of done; what runs then ends with what it has
	ended bool
}

func (w *work) count(n int) { w.done += int64(n) }

// halted reports whether the context has ended.
func (w *work) halted() bool {
	w.ended = w.ended || w.ctx != nil && w.ctx.Err() != nil
	return w.ended
}

// exhausted reports whether the work is to end: there is a context or a limit to it.
func (w *work) exhausted() bool { return w.done > w.most || w.halted() }

// cause returns why the context ended the work, or nil.
func (w *work) cause() error {
	if !w.ended {
		return nil
	}
	return context.Cause(w.ctx)
}
