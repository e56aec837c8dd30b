//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// isClosedPipe reports whether a stream cannot be written as nobody reads it.
func isClosedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// endOfPipe ends a process whose standard output nobody reads, as such programs end:
// by a signal, without a word.
func endOfPipe() {
	signal.Reset(syscall.SIGPIPE)
	os.Stdout.Write([]byte("\n")) // Go raises the signal again, and ends the process
}
