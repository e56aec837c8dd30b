//go:build !unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// noData is the error of a pipe whose other end is closed.
const noData = syscall.Errno(232)

// isClosedPipe reports whether err says that nobody reads a stream.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.ERROR_BROKEN_PIPE) || errors.Is(err, noData)
}

// endOfPipe ends a process whose standard output nobody reads, without a message.
func endOfPipe() { os.Exit(exitFailed) }
