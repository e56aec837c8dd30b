//go:build !unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// noData is the error of a pipe that is being closed.
const noData = syscall.Errno(232)

// isClosedPipe reports whether a stream cannot be written as nobody reads it.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.ERROR_BROKEN_PIPE) || errors.Is(err, noData)
}

// endOfPipe ends a process whose standard output nobody reads, without a word.
func endOfPipe() { os.Exit(exitFailed) }
