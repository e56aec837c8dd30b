package lower

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// unsupported collects the operators that no kernel can run, and the first node.
type unsupported struct {
	seen  map[string]bool
	list  []string
	first error
}

func (u *unsupported) add(label, op string, err error) {
	if u.seen == nil {
		u.seen = map[string]bool{}
	}
	if u.first == nil {
		e := graph.Errorf("%w", err)
		u.first = e.AtNode(label)
	}
	if !u.seen[op] {
		u.seen[op] = true
		u.list = append(u.list, op)
	}
}

// ErrNoKernel is wrapped by the error for an operator without a kernel.
var ErrNoKernel = errors.New("no kernel for this operator")

// ErrUnsupported is wrapped by the error for a node whose operator has a kernel, but
// none for the node's dtypes or attributes.
var ErrUnsupported = form.ErrUnsupported

// Err returns an error that names the first node and all missing operators.
func (u *unsupported) Err() error {
	if len(u.list) < 2 || u.first == nil {
		return u.first
	}
	var e *graph.Error
	if errors.As(u.first, &e) {
		slices.Sort(u.list)
		e.Err = fmt.Errorf("%w (and of other operators: %s)", e.Err, strings.Join(u.list, ", "))
	}
	return u.first
}
