package solvers

import (
	"context"
	"time"
)

// atEnd calls a function when the context ends, unless the returned function is called
// before; that one reports whether it did, and returns when the first one has.
func atEnd(ctx context.Context, do func()) (end func() bool) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		do()
	})
	return func() bool {
		if stop() {
			return false
		}
		<-done
		return true
	}
}

// untilDeadline is how many seconds a context has left, at least 0; -1: it has no deadline.
func untilDeadline(ctx context.Context) float64 {
	d, ok := ctx.Deadline()
	if !ok {
		return -1
	}
	return max(0, time.Until(d).Seconds())
}
