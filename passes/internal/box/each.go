package box

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

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
