//go:build !(linux && amd64) || nocuda

package fake

import (
	"fmt"
	"testing"
)

// Supported reports whether the fake runs on this system.
const Supported = false

// Fake is the loaded library, which this system cannot have.
type Fake struct{}

// Environment fails: see Use.
func Environment() (map[string]string, error) {
	return nil, fmt.Errorf("%w that the fake driver can use: it runs on Linux on x86-64 only", ErrNoCompiler)
}

// Use skips the test: fibres are switched by x86-64 instructions, on Linux.
func Use(t testing.TB) *Fake {
	t.Helper()
	t.Skip("the fake driver runs on Linux on x86-64 only")
	return nil
}

// UseBLAS does nothing.
func (*Fake) UseBLAS(testing.TB) {}

// UseDNN does nothing.
func (*Fake) UseDNN(testing.TB) {}

// FailDNN does nothing.
func (*Fake) FailDNN(string) {}

// Mode does nothing.
func (*Fake) Mode(string) {}

// Strict does nothing.
func (*Fake) Strict(bool) {}

// Memory does nothing.
func (*Fake) Memory(int64) {}

// FailAllocation does nothing.
func (*Fake) FailAllocation(int) {}

// SkipWait does nothing.
func (*Fake) SkipWait(int) {}

// Counters returns zeros.
func (*Fake) Counters() Counters { return Counters{} }

// ResetCounters does nothing.
func (*Fake) ResetCounters() {}
