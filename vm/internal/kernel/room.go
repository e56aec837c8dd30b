package kernel

import (
	"errors"
	"math/bits"
	"unsafe"
)

// refusal is what the preparation of a kernel panics with where it would need
// more memory than it gets; Prepare makes an error of it.
type refusal struct{ err error }

// Refused is the error that a kernel panicked with; nil for another panic, which
// is a fault of ours.
func Refused(r any) error {
	switch r := r.(type) {
	case *TypeError: // the model is to blame
		return r
	case *refusal:
		return r.err
	}
	return nil
}

// mostBytes is more than any machine can address, and leaves room for sums.
const mostBytes = 1 << 56

// mul is the product of lengths that are at least 0. One that is more than a
// machine can address is refused.
func mul(factors ...int) int {
	n := uint(1)
	for _, f := range factors {
		high, low := bits.Mul(n, uint(f))
		if n = low; high != 0 || n > mostBytes {
			panic(&refusal{errors.New("needs scratch of more bytes than this machine can address")})
		}
	}
	return int(n)
}

// tableOf is a list on Go's heap whose length follows from shapes. It is counted
// before it is taken.
func tableOf[T any](c *Invocation, n int) []T {
	var zero T
	if err := c.Runtime.Heap(int64(mul(n, int(unsafe.Sizeof(zero))))); err != nil {
		panic(&refusal{err})
	}
	return make([]T, n)
}

// longTable is from how many bytes on a list of numbers does not lie on Go's heap,
// which would clear it in one go.
const longTable = 1 << 16

// numbersOf is tableOf for numbers, which may be any at first.
func numbersOf[T number | int](c *Invocation, n int) []T {
	var zero T
	bytes := mul(n, int(unsafe.Sizeof(zero)))
	if bytes < longTable {
		return tableOf[T](c, n)
	}
	at, err := c.Runtime.Table(int64(bytes))
	if err != nil {
		panic(&refusal{err})
	}
	return span[T](at, n)
}
