package work

import (
	"sync/atomic"
	"time"
)

// A gate lets helpers into the kernel that runs. The caller opens it, does parts itself, and
// shuts it, and then waits only for those who came in: a helper that is asleep, or wakes
// late, delays nobody.
type gate struct {
	// state has, from the lowest bit: how many helpers are inside, whether the caller sleeps
	// until the last of them leaves, whether the gate is open, whether the pool has ended, and
	// how often the gate was opened.
	state atomic.Uint64
	ended chan struct{} // the last helper leaves and the caller sleeps
	spins bool          // there is a core for each worker, so who waits takes nobody's
}

const (
	insideMask = 1<<16 - 1
	waiting    = 1 << 16
	opened     = 1 << 17
	over       = 1 << 18
	opening    = 1 << 19
)

// Waiting begins with a spin, as kernels often follow each other within microseconds and it
// takes tens of them to wake a goroutine. The spin is bounded, so an idle session uses no core.
const (
	spinFor    = 100 * time.Microsecond
	pausesEach = 16 // between two looks at the clock
)

// open lets helpers in.
func (g *gate) open() { g.state.Store(g.state.Load()&^(opening-1) + opening | opened) }

// end tells all helpers to return.
func (g *gate) end() { g.state.Store(g.state.Load() | over) }

// enter lets a helper in if the gate is open for another kernel than last, and returns which.
func (g *gate) enter(last uint64) (which uint64, ok bool) {
	for {
		s := g.state.Load()
		if s&opened == 0 || s/opening == last {
			return last, false
		}
		if g.state.CompareAndSwap(s, s+1) {
			return s / opening, true
		}
	}
}

// leave lets a helper out.
func (g *gate) leave() {
	if s := g.state.Add(^uint64(0)); s&insideMask == 0 && s&waiting != 0 {
		g.ended <- struct{}{}
	}
}

// shut lets nobody in any more, and waits until all have left.
func (g *gate) shut() {
	s := g.state.And(^uint64(opened)) &^ opened
	if s&insideMask == 0 || g.spins && spin(func() bool { return g.state.Load()&insideMask == 0 }) {
		return
	}
	for s = g.state.Load(); s&insideMask != 0; s = g.state.Load() {
		if g.state.CompareAndSwap(s, s|waiting) {
			<-g.ended
			return
		}
	}
}

// spin waits for done a while, and reports whether it came true.
func spin(done func() bool) bool {
	for begin := time.Now(); ; {
		for range pausesEach {
			if done() {
				return true
			}
			pause()
		}
		if time.Since(begin) > spinFor {
			return false
		}
	}
}

// helper is what a worker other than the caller waits on.
type helper struct {
	asleep atomic.Bool
	wake   chan struct{}
}

// await waits until the gate lets the helper in for another kernel than last, or until the
// pool has ended; open is then false.
func (h *helper) await(g *gate, last uint64) (which uint64, open bool) {
	var in, end bool
	look := func() bool {
		which, in = g.enter(last)
		end = !in && g.state.Load()&over != 0
		return in || end
	}
	for {
		if g.spins && spin(look) || !g.spins && look() {
			return which, in
		}
		// Who opens the gate looks at asleep afterwards, so one of the two sees the other.
		h.asleep.Store(true)
		if look() {
			if !h.asleep.CompareAndSwap(true, false) {
				<-h.wake
			}
			return which, in
		}
		<-h.wake
	}
}

// rouse wakes the helper if it is asleep.
func (h *helper) rouse() {
	if h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}
