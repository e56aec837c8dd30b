package batch

import (
	"context"
	"sync"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// Limits limit the work that runs at one time.
type Limits struct {
	Jobs   int   // models at a time
	Memory int64 // bytes that these models may take together, by estimate; 0: no limit
}

// Task is the work on one model. It returns when ctx ends.
type Task func(ctx context.Context, m Model) Entry

// try runs the task and turns a panic into an entry.
func (t Task) try(ctx context.Context, m Model) (e Entry) {
	defer func() {
		if r := recover(); r != nil {
			e = Entry{Model: m.Rel, Status: StatusFailed, Error: bug.Recovered("", r).Error()}
		}
	}()
	return t(ctx, m)
}

// Run runs the task for every model, in the order of the list, as many at a time as the
// limits allow. It passes each entry to done, one at a time. expect estimates the memory for
// a model; a model that exceeds the limit runs alone. When ctx ends, running tasks are
// stopped and no others started; done is called for neither.
func Run(ctx context.Context, models []Model, l Limits, expect func(Model) int64, task Task, done func(Entry)) {
	var (
		mu      sync.Mutex
		free    = sync.NewCond(&mu)
		used    int64
		running int
		wg      sync.WaitGroup
	)
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		free.Broadcast()
	})
	defer stop()
	for _, m := range models {
		need := expect(m)
		mu.Lock()
		for ctx.Err() == nil && (running >= max(l.Jobs, 1) || running > 0 && l.Memory > 0 && used+need > l.Memory) {
			free.Wait()
		}
		if ctx.Err() != nil {
			mu.Unlock()
			break
		}
		running++
		used += need
		mu.Unlock()
		wg.Add(1)
		go func() {
			defer wg.Done()
			e := task.try(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			running--
			used -= need
			if ctx.Err() == nil {
				done(e)
			}
			free.Broadcast()
		}()
	}
	wg.Wait()
}
