package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/internal/npy"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
)

// grace is the time that a run has to end once it is told to. Afterwards the
// process ends.
var grace = 80 * time.Millisecond

// runtimeBytes is what Go's runtime takes of the system at most while a model is prepared and
// run, beside what a session counts. It counts against --memory-limit.
const runtimeBytes = 4 << 20

// deadline ends a run at the time limit, or when the process is told to end.
type deadline struct {
	running atomic.Pointer[vm.Session] // to name the node that runs
	over    chan struct{}
	ending  sync.Mutex // held by the one that ends the work: the work itself, or quit for ever
}

// deadline returns the context of the work, whose time limit starts now. The
// caller must call end when the work is done.
func (c *runCmd) deadline(e *env) (ctx context.Context, d *deadline, end func()) {
	ctx, release := e.signals.context()
	cancel := context.CancelFunc(func() {})
	if c.TimeLimit > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, c.TimeLimit, fmt.Errorf("the time limit of %v has passed", c.TimeLimit))
	}
	d = &deadline{over: make(chan struct{})}
	forget := context.AfterFunc(ctx, func() {
		select {
		case <-d.over:
		case <-time.After(grace):
			d.ending.Lock()
			select {
			case <-d.over:
			default:
				d.quit(e, c.Model, context.Cause(ctx))
			}
			d.ending.Unlock()
		}
	})
	return ctx, d, func() {
		d.ending.Lock()
		close(d.over)
		d.ending.Unlock()
		forget()
		cancel()
		release()
	}
}

// quit ends the process during work that does not poll its context: reading
// files, preparing kernels.
func (d *deadline) quit(e *env, file string, cause error) {
	atomicfile.Stop()
	err := &graph.Error{File: file, Offset: -1, Err: fmt.Errorf("%w: %w", vm.ErrStopped, cause)}
	if s := d.running.Load(); s != nil {
		err.Node = s.Running()
	}
	fmt.Fprintln(e.stderr, "onnxmem:", units.OneLine(err))
	os.Exit(exitFailed)
}

// valueLimit is the number of bytes that values may take that are read or drawn.
func (c *runCmd) valueLimit() int64 {
	if c.MemoryLimit != nil {
		return int64(*c.MemoryLimit)
	}
	if free, ok := memory.Free(); ok {
		return free
	}
	return maxArray
}

// fits fails if the values drawn for inputs would take more bytes than room
// allows.
func (c *runCmd) fits(program *vm.Program, given map[string]vm.Value) error {
	var sum int64
	for _, t := range program.Inputs() {
		if _, ok := given[t.Name]; ok || !t.Type.Exact() {
			continue
		}
		if most := c.valueLimit(); t.Bytes > most-sum {
			return &graph.Error{File: c.Model, Tensor: t.Name, Offset: -1, Err: &vm.LimitError{Bytes: t.Bytes, Taken: sum, Limit: most, Free: c.MemoryLimit == nil}}
		}
		sum += t.Bytes
	}
	return nil
}

// retainedBytes is the memory of values that stay while the model runs.
func retainedBytes(values map[string]vm.Value) int64 {
	var sum int64
	for _, v := range values {
		sum += v.Bytes()
	}
	return sum
}

// limitFailure makes a failure of an error about a limit of time or memory: the
// input is not to blame.
func limitFailure(err error) error {
	var over *vm.LimitError
	switch {
	case errors.As(err, &over) && over.FitsUnpacked():
		return &failure{exitFailed, err.Error() + " (say --pack no, or --memory-limit SIZE for more)"}
	case errors.As(err, &over) && over.Device != "" && over.Free: // no flag gives a GPU more memory
		return &failure{exitFailed, err.Error()}
	case errors.As(err, &over):
		return &failure{exitFailed, err.Error() + " (say --memory-limit SIZE for more)"}
	case errors.Is(err, cuda.ErrOutOfMemory):
		return &failure{exitFailed, err.Error()}
	case errors.Is(err, vm.ErrStopped), errors.Is(err, npy.ErrTooLarge):
		return &failure{exitFailed, err.Error()}
	}
	return err
}

// beyondDevice adds to the error of a session that does not fit on a GPU how to plan one that
// does. Other errors stay as they are.
func (c *runCmd) beyondDevice(err error, p *plan.Plan) error {
	var over *vm.LimitError
	if !errors.As(err, &over) || over.Device == "" || over.Needs == (vm.Memory{}) {
		return err
	}
	rest := over.NeedsBytes() - over.Needs.ArenaBytes
	room := (over.Limit - rest) / 1024
	if room < 1 {
		return fmt.Errorf("%w: all but the arena already needs %s, which no plan changes", err, units.Short(rest))
	}
	source := p.Source.File
	if source == "" {
		source = "MODEL"
	}
	return fmt.Errorf("%w: `onnxmem optimize %s %s --limit %dKiB --limit-arena`, with the other flags as before, plans it to fit", err, source, c.Model, room)
}
