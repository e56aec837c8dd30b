package graph

import (
	"fmt"
	"strings"
)

// Error says what is wrong with an input and where. Its text is "FILE: WHERE:
// what is wrong".
type Error struct {
	File   string // as the user named it
	Node   string // in the form of Graph.Label; "" if the error concerns no node
	Tensor string // name of the tensor; "" if the error concerns none
	Offset int64  // byte in the file; -1 if the error concerns none
	Err    error
}

// Errorf returns an Error without a place.
func Errorf(format string, args ...any) *Error {
	return &Error{Offset: -1, Err: fmt.Errorf(format, args...)}
}

// AtNode sets the node that e concerns, if e has none, and returns e.
func (e *Error) AtNode(label string) *Error {
	if e.Node == "" {
		e.Node = label
	}
	return e
}

// Error prints the place and the fault in one line.
func (e *Error) Error() string {
	var parts []string
	if e.File != "" {
		parts = append(parts, e.File)
	}
	if e.Offset >= 0 {
		parts = append(parts, fmt.Sprintf("byte %d", e.Offset))
	}
	if e.Node != "" {
		parts = append(parts, e.Node)
	}
	if e.Tensor != "" {
		parts = append(parts, fmt.Sprintf("tensor %q", Short(e.Tensor)))
	}
	return strings.Join(append(parts, e.Err.Error()), ": ")
}

// Unwrap returns the fault without its place.
func (e *Error) Unwrap() error { return e.Err }
