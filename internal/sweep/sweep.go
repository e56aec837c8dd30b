// Package sweep marks tests that take seconds each. "make test", which must be quick, leaves
// them out and lists them as skipped; "make sweeps" runs them, and so does .ci/run.
package sweep

import (
	"os"
	"testing"
)

// On reports whether this run is one of "make sweeps".
func On() bool { return os.Getenv("ONNXMEM_SWEEPS") != "" }

// Only skips the rest of a test in any other run.
func Only(t testing.TB) {
	t.Helper()
	if !On() {
		t.Skip("it takes seconds: make sweeps")
	}
}
