//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// isClosedPipe reports whether err says that nobody reads a stream.
func isClosedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// endOfPipe ends a process whose standard output nobody reads, as is usual: by a
// signal, without a message.
func endOfPipe() {
	signal.Reset(syscall.SIGPIPE)
	os.Stdout.Write([]byte("\n")) // Go raises the signal again, which ends the process
}
