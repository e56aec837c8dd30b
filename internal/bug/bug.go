// Package bug turns panics into errors. A panic is always a bug of ours, never the
// fault of an input. The user gets one line, and the stack on request.
package bug

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Error is a panic.
type Error struct {
	Where string // the work in progress, such as "pass order"; "": unknown
	Value any    // the value of the panic
	Stack []byte // of the goroutine
}

// Recovered turns the value that recover returned in a deferred function into an
// Error. If the value is already an *Error, passed on from another goroutine,
// Recovered returns it with its stack.
func Recovered(where string, value any) *Error {
	var inner *Error
	if err, ok := value.(error); ok && errors.As(err, &inner) {
		return inner
	}
	return &Error{where, value, debug.Stack()}
}

// Error returns a message without the stack.
func (e *Error) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("internal error: %v", e.Value)
	}
	return fmt.Sprintf("internal error in %s: %v", e.Where, e.Value)
}

// Unwrap returns the panic's value if it is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
