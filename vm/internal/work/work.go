// Package work spreads a kernel's parts over workers. How a kernel cuts its
// work into parts depends on shapes alone, never on how many workers there are,
// and each part writes what no other part does: so results are the same bits on
// any number of cores.
package work

import (
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// Pool is the workers of one session, with their scratch. It serves one
// goroutine at a time.
type Pool struct {
	workers int
	shared  unsafe.Pointer
	each    unsafe.Pointer
	stride  int // bytes of scratch for each worker

	body  func(part, worker int)
	parts int64
	next  atomic.Int64
	start []chan struct{}
	done  sync.WaitGroup
	fault atomic.Pointer[bug.Error] // of the first worker that panicked

	stop   atomic.Bool
	onPoll func()
}

// ErrStopped is what a kernel panics with, through Poll or For, once its pool was
// told to stop: nothing of it goes on with what is only half there. Whoever runs
// kernels recovers it.
var ErrStopped = errors.New("stopped")

// New starts a pool; the caller is one of its workers. Close ends it.
func New(workers int) *Pool {
	p := &Pool{workers: max(workers, 1)}
	for k := 1; k < p.workers; k++ {
		c := make(chan struct{})
		p.start = append(p.start, c)
		go func() {
			// A fault of a kernel is a panic, which take hands on.
			debug.SetPanicOnFault(true)
			for range c {
				p.take(k)
				p.done.Done()
			}
		}()
	}
	return p
}

// Close ends the workers.
func (p *Pool) Close() {
	for _, c := range p.start {
		close(c)
	}
	p.start = nil
}

// Workers is how many parts may run at once.
func (p *Pool) Workers() int { return p.workers }

// Stop ends the kernel that runs, from any goroutine: For and Poll panic with
// ErrStopped from now on, until Resume.
func (p *Pool) Stop() { p.stop.Store(true) }

// Resume makes a pool that was stopped work again.
func (p *Pool) Resume() { p.stop.Store(false) }

// Stopping reports whether the pool was told to stop: what looks must return
// soon, its results are not used.
func (p *Pool) Stopping() bool {
	if p.onPoll != nil {
		p.onPoll()
	}
	return p.stop.Load()
}

// Poll panics with ErrStopped if the pool was told to stop. For does so before each
// part; a part, or what a kernel does outside of parts, that may take more than
// some milliseconds polls by itself. It may be called by a part on any worker.
func (p *Pool) Poll() {
	if p.Stopping() {
		panic(ErrStopped)
	}
}

// OnPoll calls f each time that the pool is asked whether it is to stop, on the
// goroutine that asks: so tests count how often a kernel does, or stop it there.
func (p *Pool) OnPoll(f func()) { p.onPoll = f }

// PollEvery is how much work, in elements that are moved or computed, may lie
// between two polls: some tens of microseconds.
const PollEvery = 1 << 16

// Steps calls body for pieces [from, to) of n elements, and polls before each:
// what is done with many elements in one loop, or in one call, can be stopped.
func (p *Pool) Steps(n int, body func(from, to int)) {
	for from := 0; from < n; from += PollEvery {
		p.Poll()
		body(from, min(from+PollEvery, n))
	}
}

// SetScratch says where kernels find memory for themselves: one block that the
// parts of a kernel share, and stride bytes for each worker.
func (p *Pool) SetScratch(shared, each unsafe.Pointer, stride int) {
	p.shared, p.each, p.stride = shared, each, stride
}

// Shared is the scratch that all parts of a kernel see, from byte off on.
func (p *Pool) Shared(off int) unsafe.Pointer { return unsafe.Add(p.shared, off) }

// Each is a worker's own scratch, from byte off on.
func (p *Pool) Each(worker, off int) unsafe.Pointer {
	return unsafe.Add(p.each, worker*p.stride+off)
}

// For runs body for each part from 0 to parts-1, in no order. It allocates
// nothing; body should be made once, when the kernel is prepared. It panics with
// ErrStopped, once no part runs any more, if the pool was told to stop.
func (p *Pool) For(parts int, body func(part, worker int)) {
	if parts <= 1 || p.workers == 1 {
		for i := range parts {
			p.Poll()
			body(i, 0)
		}
		p.Poll() // what the last part saw of it, it may have left to us
		return
	}
	p.body, p.parts = body, int64(parts)
	p.next.Store(0)
	helpers := min(len(p.start), parts-1)
	p.done.Add(helpers)
	for _, c := range p.start[:helpers] {
		c <- struct{}{}
	}
	p.take(0)
	p.done.Wait()
	p.body = nil
	if f := p.fault.Swap(nil); f != nil {
		panic(f)
	}
	p.Poll()
}

// take runs parts until none is left.
func (p *Pool) take(worker int) {
	defer func() {
		if r := recover(); r != nil {
			if r != any(ErrStopped) {
				p.fault.CompareAndSwap(nil, bug.Recovered("", r))
			}
			p.next.Store(p.parts)
		}
	}()
	for !p.Stopping() {
		i := p.next.Add(1) - 1
		if i >= p.parts {
			return
		}
		p.body(int(i), worker)
	}
}
