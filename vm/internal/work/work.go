// Package work distributes the parts of a kernel to workers. A kernel cuts its work
// into parts by shapes and by the number of workers. No two parts write the same element,
// and each element is computed in one order of operations, however the work is cut. So the
// results are the same bits on any number of cores.
package work

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// Pool is the workers of one session, with their scratch. Only one goroutine may use it
// at a time.
type Pool struct {
	workers int
	shared  unsafe.Pointer
	each    unsafe.Pointer
	stride  int // bytes of scratch for each worker

	body    func(part, worker int)
	shares  []share
	helpers []*helper
	fault   atomic.Pointer[bug.Error] // of the first worker that panicked

	stop   atomic.Bool
	onPoll func()

	_    [64]byte // what helpers poll lies in a cache line of its own
	gate gate
	_    [64]byte
}

// A share is the parts that a worker begins with: those that follow each other, since the
// parts of the next kernel often read what the same parts of this one wrote, which is then
// in the cache of its core. Who has done its own takes from the others.
type share struct {
	next, end atomic.Int64
	_         [48]byte // a cache line each
}

// ErrStopped is the value with which Poll and For panic once their pool was stopped, so
// that no kernel continues with incomplete results. The caller of a kernel recovers it.
var ErrStopped = errors.New("stopped")

// New starts a pool. The caller is one of its workers. Close ends it.
func New(workers int) *Pool {
	p := &Pool{workers: max(workers, 1)}
	p.shares = make([]share, p.workers)
	p.gate.ended = make(chan struct{}, 1)
	p.gate.spins = p.workers <= runtime.GOMAXPROCS(0)
	for k := 1; k < p.workers; k++ {
		h := &helper{wake: make(chan struct{}, 1)}
		p.helpers = append(p.helpers, h)
		go func() {
			// A memory fault in a kernel becomes a panic, which take passes on.
			debug.SetPanicOnFault(true)
			for last := uint64(0); ; {
				var open bool
				if last, open = h.await(&p.gate, last); !open {
					return
				}
				p.take(k)
				p.gate.leave()
			}
		}()
	}
	return p
}

// Close ends the workers.
func (p *Pool) Close() {
	p.gate.end()
	for _, h := range p.helpers {
		h.rouse()
	}
	p.helpers = nil
}

// Workers is the number of parts that may run at once.
func (p *Pool) Workers() int { return p.workers }

// Stop ends the running kernel. It may be called from any goroutine. For and Poll panic
// with ErrStopped from now on, until Resume.
func (p *Pool) Stop() { p.stop.Store(true) }

// Resume lets a stopped pool run again.
func (p *Pool) Resume() { p.stop.Store(false) }

// Stopping reports whether the pool was stopped. The caller must then return soon; its
// results are not used.
func (p *Pool) Stopping() bool {
	if p.onPoll != nil {
		p.onPoll()
	}
	return p.stop.Load()
}

// Poll panics with ErrStopped if the pool was stopped. For polls before each part. A
// part that may take more than some milliseconds must poll itself, and so must the work
// of a kernel outside of its parts. A part may call Poll on any worker.
func (p *Pool) Poll() {
	if p.Stopping() {
		panic(ErrStopped)
	}
}

// OnPoll calls f at each poll, on the polling goroutine. It lets tests count the polls
// of a kernel, or stop the kernel at one of them.
func (p *Pool) OnPoll(f func()) { p.onPoll = f }

// PollEvery is the most work between two polls, in elements moved or computed: it takes
// some tens of microseconds.
const PollEvery = 1 << 16

// Steps calls body for pieces [from, to) of n elements and polls before each piece, so
// that a long loop can be stopped.
func (p *Pool) Steps(n int, body func(from, to int)) {
	for from := 0; from < n; from += PollEvery {
		p.Poll()
		body(from, min(from+PollEvery, n))
	}
}

// SetScratch sets the scratch of kernels: one block that the parts of a kernel share,
// and stride bytes for each worker.
func (p *Pool) SetScratch(shared, each unsafe.Pointer, stride int) {
	p.shared, p.each, p.stride = shared, each, stride
}

// Shared is the address of byte off of the shared scratch.
func (p *Pool) Shared(off int) unsafe.Pointer { return unsafe.Add(p.shared, off) }

// Each is the address of byte off of a worker's scratch.
func (p *Pool) Each(worker, off int) unsafe.Pointer {
	return unsafe.Add(p.each, worker*p.stride+off)
}

// For runs body for each part from 0 to parts-1, in no particular order. It allocates
// nothing; body should be created once, when the kernel is prepared. If the pool was
// stopped, it panics with ErrStopped after all running parts have ended.
func (p *Pool) For(parts int, body func(part, worker int)) {
	if parts <= 1 || p.workers == 1 {
		for i := range parts {
			p.Poll()
			body(i, 0)
		}
		p.Poll() // the last part may have returned early, without a panic
		return
	}
	p.body = body
	for k := range p.shares {
		s := &p.shares[k]
		s.next.Store(int64(parts * k / p.workers))
		s.end.Store(int64(parts * (k + 1) / p.workers))
	}
	p.gate.open()
	for _, h := range p.helpers[:min(len(p.helpers), parts-1)] {
		h.rouse()
	}
	p.take(0)
	p.gate.shut()
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
			for k := range p.shares {
				s := &p.shares[k]
				s.next.Store(s.end.Load())
			}
		}
	}()
	for k := range p.shares {
		s := &p.shares[(worker+k)%len(p.shares)]
		for end := s.end.Load(); s.next.Load() < end && !p.Stopping(); {
			if i := s.next.Add(1) - 1; i < end {
				p.body(int(i), worker)
			}
		}
	}
}
