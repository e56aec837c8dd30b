// Package flat turns problems that come as flat arrays into those of alloc, schedule and
// plan/verify/bare, and solves or checks them as the command does: without files, environment
// or output. Package lib gives it arrays of C.
//
//	buffers.go   [Buffers]: places in one arena, or in several pools
//	graph.go     [Graph]: nodes and tensors; parts.go: tensors that are ranges of others
//	order.go     an order, limit.go steps below a limit
package flat

import (
	"errors"
	"fmt"
)

// Refused is an input that contradicts itself.
type Refused struct{ Err error }

func (e *Refused) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Refused) Unwrap() error { return e.Err }

func refusef(format string, args ...any) error { return &Refused{fmt.Errorf(format, args...)} }

// Invalid is an answer that the verifier does not accept.
type Invalid struct{ Err error }

func (e *Invalid) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Invalid) Unwrap() error { return e.Err }

// errMixed says which pools exclude one another.
var errMixed = errors.New("pools: expected -1 for all buffers or for none")

// lists are lists one behind the other: list i is Items[Begin[i]:Begin[i+1]].
type lists struct {
	begin []int64
	items []int32
}

// Lists checks how lists lie one behind the other; begin nil: all are empty.
func listsOf(what string, n int, begin []int64, items []int32) (lists, error) {
	if begin == nil {
		return lists{}, nil
	}
	if len(begin) != n+1 || begin[0] != 0 {
		return lists{}, refusef("%s: expected %d places of lists, the first of them 0", what, n+1)
	}
	for i := range n {
		if begin[i] > begin[i+1] || begin[i+1] > int64(len(items)) {
			return lists{}, refusef("%s: list %d from %d to %d: expected ascending places up to %d", what, i, begin[i], begin[i+1], len(items))
		}
	}
	return lists{begin, items}, nil
}

func (l lists) of(i int) []int32 {
	if l.begin == nil {
		return nil
	}
	return l.items[l.begin[i]:l.begin[i+1]]
}

func at[T any](list []T, i int, otherwise T) T {
	if list == nil {
		return otherwise
	}
	return list[i]
}
