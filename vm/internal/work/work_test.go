package work

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// stopped runs f and reports whether Stop ended it.
func stopped(t *testing.T, f func()) (is bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			if is = r == any(ErrStopped); !is {
				t.Errorf("panicked with %v, expected ErrStopped", r)
			}
		}
	}()
	f()
	return false
}

// A stopped pool ends For after few more parts, and runs again after Resume.
func TestForStops(t *testing.T) {
	for _, workers := range []int{1, 3} {
		p := New(workers)
		for _, at := range []int64{0, 10, 999} {
			var ran atomic.Int64
			is := stopped(t, func() {
				p.For(1000, func(part, _ int) {
					if ran.Add(1) == at+1 {
						p.Stop()
					}
				})
			})
			// The other workers may be in the middle of a part.
			if n := ran.Load(); n < at+1 || n > at+int64(workers) || !is {
				t.Errorf("%d workers, told in part %d: %d parts, stopped: %v", workers, at, n, is)
			}
			if !stopped(t, func() { p.For(5, func(int, int) { t.Error("a part runs") }) }) {
				t.Error("a pool that was told to stop begins")
			}
			p.Resume()
			ran.Store(0)
			if stopped(t, func() { p.For(1000, func(int, int) { ran.Add(1) }) }) || ran.Load() != 1000 {
				t.Errorf("%d workers: %d parts after Resume", workers, ran.Load())
			}
		}
		p.Close()
	}
}

// A part may poll, on any worker.
func TestPartsPoll(t *testing.T) {
	for _, workers := range []int{1, 3} {
		p := New(workers)
		if !stopped(t, func() {
			p.For(6, func(int, int) {
				p.Stop()
				for {
					p.Poll()
				}
			})
		}) {
			t.Errorf("%d workers: parts went on", workers)
		}
		p.Resume()
		p.Close()
	}
}

// A fault in a part is reported, whether the pool was stopped or not.
func TestFaultsAreTold(t *testing.T) {
	p := New(2)
	defer p.Close()
	defer func() {
		if f, is := recover().(*bug.Error); !is || f.Value != "fault" {
			t.Errorf("got %v", f)
		}
	}()
	p.For(6, func(part, _ int) {
		p.Stop()
		panic("fault")
	})
}

// Steps polls before each piece, and covers all elements once.
func TestSteps(t *testing.T) {
	p := New(1)
	defer p.Close()
	polls, next := 0, 0
	p.OnPoll(func() { polls++ })
	p.Steps(3*PollEvery+7, func(from, to int) {
		if from != next || to <= from {
			t.Errorf("piece [%d, %d) behind %d", from, to, next)
		}
		next = to
	})
	if next != 3*PollEvery+7 || polls != 4 {
		t.Errorf("%d elements, %d polls", next, polls)
	}
}

// For allocates nothing, and every part runs once, on however many workers, whether they
// spin or sleep between two kernels.
func TestForRunsEachPartOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 2 * runtime.GOMAXPROCS(0)} {
		p := New(workers)
		var ran [100]atomic.Int32
		part := func(part, worker int) {
			if worker < 0 || worker >= workers {
				t.Errorf("%d workers: part %d runs on worker %d", workers, part, worker)
			}
			ran[part].Add(1)
		}
		want := make([]int32, len(ran))
		for round := range 3000 {
			parts := round % (len(ran) + 1)
			for i := range parts {
				want[i]++
			}
			p.For(parts, part)
			for i := range ran {
				if got := ran[i].Load(); got != want[i] {
					t.Fatalf("%d workers, %d parts: part %d ran %d times of %d", workers, parts, i, got, want[i])
				}
			}
		}
		if n := testing.AllocsPerRun(100, func() { p.For(len(ran), part) }); n != 0 {
			t.Errorf("%d workers: %g allocations", workers, n)
		}
		p.Close()
	}
}

// The helpers of a pool that is idle sleep, and those of one that is closed are gone.
func TestHelpersSleep(t *testing.T) {
	before := runtime.NumGoroutine()
	p := New(2)
	p.For(2, func(int, int) {})
	for !p.helpers[0].asleep.Load() { // a spin that had no end would hang here
		runtime.Gosched()
	}
	p.Close()
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
	}
}
