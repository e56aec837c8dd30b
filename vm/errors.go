package vm

import (
	"github.com/onnxmem/onnxmem/vm/internal/exec"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// ErrNoKernel is wrapped by the error for an operator without a kernel.
var ErrNoKernel = lower.ErrNoKernel

// ErrUnsupported is wrapped by the error for a node whose operator has a kernel, but
// none for the node's dtypes or attributes.
var ErrUnsupported = form.ErrUnsupported

// ErrFault is wrapped by the error of an access to memory that is not mapped: with
// Options.Guard, an access outside of a tensor.
var ErrFault = exec.ErrFault

// ErrStray is wrapped by the error of a write outside of the node's own tensors.
var ErrStray = store.ErrStray

// ErrHost is wrapped by the error of a run that can no longer use its host pool.
var ErrHost = store.ErrHost

// ErrStopped is wrapped, with the context's cause, by the error of a run that its
// context stopped. The *graph.Error around it names the node that was running.
var ErrStopped = lower.ErrStopped
