package bug

import (
	"sync"
	"sync/atomic"
)

// Group is goroutines whose panics reach the one that waits for them, which can be
// recovered. The zero value is an empty group.
type Group struct {
	wait  sync.WaitGroup
	first atomic.Pointer[Error]
}

// Go calls f in a goroutine.
func (g *Group) Go(f func()) {
	g.wait.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				g.first.CompareAndSwap(nil, Recovered("", r))
			}
		}()
		f()
	})
}

// Wait waits for all goroutines. If one has panicked, it panics with an *Error, which
// has the stack of the goroutine.
func (g *Group) Wait() {
	g.wait.Wait()
	if b := g.first.Swap(nil); b != nil {
		panic(b)
	}
}
