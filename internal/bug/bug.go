// Package bug tells panics, which are faults of ours and of no input, as errors: a
// user gets one line, and the stack where it is asked for.
package bug

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Error is a panic.
type Error struct {
	Where string // what was done, as in "pass order"; "": no more is known
	Value any    // what it panicked with
	Stack []byte // of the goroutine
}

// Recovered makes an Error of what recover gave, in the function that was deferred. A
// panic that another goroutine has handed on as an *Error keeps its stack.
func Recovered(where string, value any) *Error {
	var inner *Error
	if err, ok := value.(error); ok && errors.As(err, &inner) {
		return inner
	}
	return &Error{where, value, debug.Stack()}
}

// Error says what the panic was, without its stack.
func (e *Error) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("internal error: %v", e.Value)
	}
	return fmt.Sprintf("internal error in %s: %v", e.Where, e.Value)
}

// Unwrap gives the error that it panicked with, if it is one.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
