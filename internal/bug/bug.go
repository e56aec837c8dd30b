// Package bug turns panics, which are bugs and never the fault of an input, into
// errors: a user gets one line, and the stack on request.
package bug

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Error is a panic.
type Error struct {
	Where string // what was being done, as in "pass order"; "": not known
	Value any    // the value of the panic
	Stack []byte // of the goroutine
}

// Recovered makes an Error of a value that recover returned in a deferred
// function. A panic that another goroutine passed on as an *Error keeps its
// stack.
func Recovered(where string, value any) *Error {
	var inner *Error
	if err, ok := value.(error); ok && errors.As(err, &inner) {
		return inner
	}
	return &Error{where, value, debug.Stack()}
}

// Error describes the panic, without its stack.
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
