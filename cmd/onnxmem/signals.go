package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
)

// errInterrupted is the reason for the end of a search that a signal ended.
var errInterrupted = errors.New("interrupted")

// stopping lists the signals that end the process. Go would print all goroutines
// on SIGQUIT and SIGABRT.
var stopping = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT}

// signals ends the process on a signal, at once and without leaving a
// half-written file. Work that always has a result may ask for a context instead,
// which the first signal ends; the next one ends the process.
type signals struct {
	stderr io.Writer
	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the present work, or nil
}

// watch begins to handle signals; the returned function ends that. Signals that
// the parent process ignores, as nohup does, stay ignored. With ONNXMEM_DEBUG,
// SIGQUIT and SIGABRT print the goroutines.
func (s *signals) watch() (end func()) {
	came, done := make(chan os.Signal, 1), make(chan struct{})
	for _, sig := range stopping {
		if !signal.Ignored(sig) && !(debugging() && (sig == syscall.SIGQUIT || sig == syscall.SIGABRT)) {
			signal.Notify(came, sig)
		}
	}
	// A program that handles this signal gets an error from a pipe that nobody
	// reads; otherwise the signal would end it and leave temporary files.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	go func() {
		for {
			select {
			case <-came:
				if s.interrupt() {
					continue
				}
				atomicfile.Stop()
				fmt.Fprintln(s.stderr, "onnxmem: stopped")
				os.Exit(exitFailed)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(came)
		signal.Stop(pipe)
		close(done)
	}
}

// interrupt ends the present work, and reports whether there was any to end.
func (s *signals) interrupt() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil {
		return false
	}
	s.cancel(errInterrupted)
	s.cancel = nil
	return true
}

// context returns a context for work that a signal may end. release ends that.
func (s *signals) context() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancel = nil
		cancel(nil)
	}
}

// interruptible is a solver that a signal ends, with its best result so far. The work around
// it goes on.
type interruptible struct {
	ilp.Solver
	signals *signals
}

func (s interruptible) Solve(ctx context.Context, p *ilp.Program, opt ilp.Options) (ilp.Answer, error) {
	ctx, release := s.during(ctx)
	defer release()
	return s.Solver.Solve(ctx, p, opt)
}

// during returns a context that ends with another one, or on a signal.
func (s interruptible) during(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signalled, release := s.signals.context()
	stop := context.AfterFunc(signalled, func() { cancel(context.Cause(signalled)) })
	return ctx, func() {
		stop()
		release()
		cancel(nil)
	}
}

// interruptiblePacker is an interruptible solver that has a constraint for rectangles.
type interruptiblePacker struct{ interruptible }

func (s interruptiblePacker) SolvePacking(ctx context.Context, p *ilp.Packing, opt ilp.Options) (ilp.Answer, error) {
	ctx, release := s.during(ctx)
	defer release()
	return s.Solver.(ilp.PackingSolver).SolvePacking(ctx, p, opt)
}

// untilSignal makes a solver end on a signal.
func untilSignal(s ilp.Solver, sig *signals) ilp.Solver {
	x := interruptible{s, sig}
	if _, ok := s.(ilp.PackingSolver); ok {
		return interruptiblePacker{x}
	}
	return x
}
