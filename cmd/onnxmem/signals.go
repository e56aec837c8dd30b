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

	"github.com/onnxmem/onnxmem/internal/atomicfile"
)

// errInterrupted is why a search ended that was told to by a signal.
var errInterrupted = errors.New("interrupted")

// stopping are the signals that end the process. Go would print all goroutines on
// SIGQUIT and SIGABRT.
var stopping = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT}

// signals ends the process when it is told to: at once, whatever it reads or
// computes, with no half-written file left. Work that has a result at any time
// may ask for a context instead, which the first signal ends; the next one ends
// the process.
type signals struct {
	stderr io.Writer
	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the work under way, or nil
}

// watch begins; the function it returns ends it. What the caller of the program has
// ignored, as nohup does, stays ignored. With ONNXMEM_DEBUG, SIGQUIT and SIGABRT show
// the goroutines.
func (s *signals) watch() (end func()) {
	came, done := make(chan os.Signal, 1), make(chan struct{})
	for _, sig := range stopping {
		if !signal.Ignored(sig) && !(debugging() && (sig == syscall.SIGQUIT || sig == syscall.SIGABRT)) {
			signal.Notify(came, sig)
		}
	}
	// Who asks for it gets an error from a pipe that nobody reads, instead of a signal
	// that would leave temporary files.
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

// interrupt ends the work under way, and reports whether there was any to end.
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

// context is for work that a signal may end. release gives signals back.
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
