package gpu

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Elementwise reports whether nodes of an operator can be in a group.
func Elementwise(domain, op string) bool {
	r := Lookup(domain, op)
	return r != nil && r.Element != nil
}

// PrepareGroup is Prepare for several elementwise nodes, in the order in which they run,
// that become one kernel. It writes the tensors of stores alone, which nodes of the group
// make and which all have one shape. Every other output of the nodes must have a shape
// that numpy's rule repeats to that one; it is computed wherever it is needed, and nothing
// is written to its place. Each value is rounded to its tensor's dtype, so the bits are
// those of the nodes' own kernels.
//
// The caller guarantees:
//   - Nobody but nodes of the group reads an output that is not in stores.
//   - A node that reads what another node of the group makes has the same *form.Tensor
//     for it, not a view of it.
//   - All other inputs hold their values when the group runs, and none of them is
//     overwritten by a node of the group that is not the last one to read it.
//   - The places of stores do not overlap each other. One may overlap an input only if
//     it lies exactly on it, and the input has the shape of stores and elements of the
//     same size: each thread reads its own elements before it writes them. In any other
//     case one thread might overwrite what another one still reads.
//
// It fails with ErrUnsupported if a node has no Element for its dtypes or attributes, or
// if the nodes together have more operands than a kernel can take; a smaller group may
// succeed.
func (k *Kernels) PrepareGroup(list []*form.Call, stores []*form.Tensor) (form.Run, error) {
	if len(stores) == 0 {
		return nil, errors.New("a group of nodes: expected an output that is stored")
	}
	shape := stores[0].Shape
	if count(shape) == 0 {
		return func(*work.Pool) error { return nil }, nil
	}
	group := &Node{k: k}
	e := newExpression(group, shape)
	for _, c := range list {
		r := Lookup(c.Node.Domain, c.Node.Op)
		if r == nil || r.Element == nil {
			return nil, unsupportedf("a group with %s", c.Node.Op)
		}
		if err := e.add(r, &Node{Call: c, k: k}); err != nil {
			return nil, err
		}
	}
	for _, t := range stores {
		if !e.made(t) {
			return nil, fmt.Errorf("a group of %d nodes: expected outputs of them to be stored, found another tensor of shape %v", len(list), t.Shape)
		}
		if !slices.Equal(t.Shape, shape) {
			return nil, unsupportedf("a group that stores shapes %v and %v", shape, t.Shape)
		}
		e.store(t)
	}
	if err := e.emit(); err != nil {
		return nil, err
	}
	return group.run, nil
}
