package reference

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel calls f for each of n parts, on all cores. If a call panics, parallel panics
// with the same value.
func parallel(n int, f func(part int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var next atomic.Int64
	var wait sync.WaitGroup
	var failed any
	var once sync.Once
	for range workers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			defer func() {
				if r := recover(); r != nil {
					once.Do(func() { failed = r })
				}
			}()
			for {
				part := int(next.Add(1)) - 1
				if part >= n {
					return
				}
				f(part)
			}
		}()
	}
	wait.Wait()
	if failed != nil {
		panic(failed)
	}
}
