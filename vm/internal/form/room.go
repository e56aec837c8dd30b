package form

import (
	"errors"
	"math/bits"
	"unsafe"
)

// refusal is the panic of a kernel that would need more memory than it can get. Prepare
// recovers it and returns its error.
type refusal struct{ err error }

// Refuse panics with an error that Prepare returns.
func Refuse(err error) { panic(&refusal{err}) }

// Refused returns the error of a kernel's panic that is the model's fault; nil for any
// other panic, which is a bug.
func Refused(r any) error {
	switch r := r.(type) {
	case *TypeError: // the model is to blame
		return r
	case *refusal:
		return r.err
	}
	return nil
}

// mostBytes is more than any machine can address, and small enough for sums not to
// overflow.
const mostBytes = 1 << 56

// Mul is the product of non-negative lengths. It panics with a refusal if the product is
// more than a machine can address.
func Mul(factors ...int) int {
	n := uint(1)
	for _, f := range factors {
		high, low := bits.Mul(n, uint(f))
		if n = low; high != 0 || n > mostBytes {
			panic(&refusal{errors.New("needs scratch of more bytes than this machine can address")})
		}
	}
	return int(n)
}

// Table allocates a list of n elements on Go's heap, and counts its memory first.
func Table[T any](c *Call, n int) []T {
	var zero T
	if err := c.Runtime.Heap(int64(Mul(n, int(unsafe.Sizeof(zero))))); err != nil {
		Refuse(err)
	}
	return make([]T, n)
}

// longTable is the least size in bytes of a list of numbers that is allocated outside of
// Go's heap: the heap would clear it in a single step, without a poll.
const longTable = 1 << 16

// Numbers is Table for numbers. Their initial values are undefined.
func Numbers[T number | int](c *Call, n int) []T {
	var zero T
	bytes := Mul(n, int(unsafe.Sizeof(zero)))
	if bytes < longTable {
		return Table[T](c, n)
	}
	at, err := c.Runtime.Table(int64(bytes))
	if err != nil {
		Refuse(err)
	}
	return unsafe.Slice((*T)(at), n)
}
