package bug

import (
	"sync"
	"sync/atomic"
)

// Group is a group of goroutines. It passes a panic of one of them on to the
// goroutine that waits, which can recover it. The zero value is an empty group.
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
// that holds the stack of the first that did.
func (g *Group) Wait() {
	g.wait.Wait()
	if b := g.first.Swap(nil); b != nil {
		panic(b)
	}
}
