package bug

import (
	"sync"
	"sync/atomic"
)

// Group is a group of goroutines whose panics are passed on to the goroutine that
// waits for them, where they can be recovered. The zero value is an empty group.
type Group struct {
	wait  sync.WaitGroup
	first atomic.Pointer[Error]
}

// Go runs f in a goroutine.
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

// Wait waits for all goroutines. If one has panicked, Wait panics with an *Error
// that has the stack of that goroutine.
func (g *Group) Wait() {
	g.wait.Wait()
	if b := g.first.Swap(nil); b != nil {
		panic(b)
	}
}
