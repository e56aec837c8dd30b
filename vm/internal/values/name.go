package values

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
)

// Empty is what tensors without elements point to.
var Empty uint64

// NameOf names a tensor in errors about its storage.
func NameOf(name string) string { return fmt.Sprintf("tensor %q", graph.Short(name)) }

// About wraps an error with the name of a tensor.
func About(name string, err error) error {
	e := graph.Errorf("%w", err)
	e.Tensor = name
	return e
}
