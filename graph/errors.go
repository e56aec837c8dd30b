package graph

import (
	"fmt"
	"strings"
)

// Error says what is wrong with an input and where. Its text is
// "FILE: WHERE: what is wrong".
type Error struct {
	File   string // as the user named it
	Node   string // as Graph.Label prints it, "" when no node is to blame
	Tensor string // a tensor's name, "" when none is to blame
	Offset int64  // byte in the file, -1 when none is to blame
	Err    error
}

// Errorf makes an Error about no place in particular.
func Errorf(format string, args ...any) *Error {
	return &Error{Offset: -1, Err: fmt.Errorf(format, args...)}
}

// AtNode is e with the node to blame, if it has none yet.
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

// Unwrap gives the fault without its place.
func (e *Error) Unwrap() error { return e.Err }
