package main

import (
	"fmt"
	"io"
	"os"

	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/units"
)

// debugVariable is the environment variable that makes errors print stacks.
const debugVariable = "ONNXMEM_DEBUG"

// debugging reports whether errors print stacks.
func debugging() bool { return os.Getenv(debugVariable) == "1" }

// reportBug reports in one line that a bug of onnxmem ended the command: err is, or
// wraps, b.
func reportBug(stderr io.Writer, err error, b *bug.Error) {
	fmt.Fprintf(stderr, "onnxmem: %s: please report it with the command line and its files at %s (%s=1 shows where)\n",
		units.OneLine(err), issues, debugVariable)
	if debugging() {
		stderr.Write(b.Stack)
	}
}
