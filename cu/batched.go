package cu

import (
	"errors"
	"fmt"
	"unsafe"
)

// ErrMissing is wrapped by the errors of what only gorgonia's own operators ask for.
var ErrMissing = errors.New("is not part of onnxmem's CUDA build, in which every node is an operator of onnxmem")

func missing(what string) error { return fmt.Errorf("cu: %s %w", what, ErrMissing) }

// BatchedContext is a context that, in the original, collects calls and makes them
// together, because calls by cgo are slow. Here nothing is ever collected: launches are
// made by the nodes.
type BatchedContext struct {
	Context
	Device

	never chan struct{} // closed by Close
	err   error
}

// NewBatchedContext returns the BatchedContext of a context.
func NewBatchedContext(c Context, d Device) *BatchedContext {
	return &BatchedContext{Context: c, Device: d, never: make(chan struct{})}
}

// WorkAvailable is closed by Close, so that gorgonia's goroutine that waits for it ends.
// Until then it gives nothing.
func (b *BatchedContext) WorkAvailable() <-chan struct{} { return b.never }

// DoWork makes the collected calls: there are none.
func (b *BatchedContext) DoWork() {}

// Cleanup frees what collected calls have allocated: nothing.
func (b *BatchedContext) Cleanup() {}

// Errors returns the first error of a call.
func (b *BatchedContext) Errors() error { return b.err }

// Error is Errors.
func (b *BatchedContext) Error() error { return b.err }

// Close gives the context back. It returns nil in any case: gorgonia shows the error to
// nobody, but leaves its goroutine behind if there is one.
func (b *BatchedContext) Close() error {
	_ = b.Context.Close()
	close(b.never)
	return nil
}

// lacks notes that something missing was asked for.
func (b *BatchedContext) lacks(what string) error {
	err := missing(what)
	if b.err == nil {
		b.err = err
	}
	return err
}

// MemAlloc is missing: outputs lie in the arena of the plan.
func (b *BatchedContext) MemAlloc(int64) (DevicePtr, error) { return 0, b.lacks("MemAlloc") }

// Memcpy is missing.
func (b *BatchedContext) Memcpy(_, _ DevicePtr, _ int64) { _ = b.lacks("Memcpy") }

// MemcpyHtoD is missing.
func (b *BatchedContext) MemcpyHtoD(DevicePtr, unsafe.Pointer, int64) { _ = b.lacks("MemcpyHtoD") }

// MemcpyDtoH is missing.
func (b *BatchedContext) MemcpyDtoH(unsafe.Pointer, DevicePtr, int64) { _ = b.lacks("MemcpyDtoH") }

// LaunchAndSync is missing.
func (b *BatchedContext) LaunchAndSync(_ Function, _, _, _, _, _, _, _ int, _ Stream, _ []unsafe.Pointer) {
	_ = b.lacks("LaunchAndSync")
}

// Stream is a stream, of which gorgonia knows only NoStream.
type Stream struct{}

// NoStream is the default stream.
var NoStream Stream

// Function is a kernel of gorgonia's.
type Function struct{}

// Module is a module of gorgonia's kernels.
type Module struct{}

// LoadData is missing.
func LoadData(string) (Module, error) { return Module{}, missing("LoadData") }

// Function is missing.
func (Module) Function(string) (Function, error) { return Function{}, missing("Module.Function") }

// Unload does nothing: no module was loaded.
func (Module) Unload() error { return nil }
