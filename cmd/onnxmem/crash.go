package main

import (
	"fmt"
	"io"
	"os"

	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/units"
)

// debugVariable is the environment variable that asks for stacks.
const debugVariable = "ONNXMEM_DEBUG"

// debugging reports whether stacks are asked for.
func debugging() bool { return os.Getenv(debugVariable) == "1" }

// tellBug says in a line that a fault of ours ended the command: err is, or wraps,
// b.
func tellBug(stderr io.Writer, err error, b *bug.Error) {
	fmt.Fprintf(stderr, "onnxmem: %s: please report it with the command line and its files at https://github.com/onnxmem/onnxmem/issues (%s=1 shows where)\n",
		units.OneLine(err), debugVariable)
	if debugging() {
		stderr.Write(b.Stack)
	}
}
