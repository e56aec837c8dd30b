package lower

import (
	"errors"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Step is one node of a frame. A graph has many, so what few of them need is behind pointers.
type Step struct {
	Frame  *Frame
	ID     graph.NodeID
	Device bool             // run puts it on the session's device
	Late   bool             // the kernel is prepared at run time, each time
	live   bool             // set while it is prepared at run time
	Boxes  bool             // it makes or reads a sequence, an optional or a map
	In     []*values.Tensor // nil for those that are left out, of which there is none at the end
	Out    []*values.Tensor
	Kernel *kernel.Kernel
	Run    kernel.Run // nil: nothing to do
	task   *Task      // that its node is in; nil: the node is one by itself
	More   *belongings
	Way    string // which algorithm runs (describe); "" if the operator has only one

	Invocation *kernel.Invocation // nil: there is none now; see call
}

// belongings is what few steps have.
type belongings struct {
	Frees   []*values.Tensor // dynamic tensors that no later step reads
	Scratch []*store.Guarded // of the kernel, in a guarded session
	heap    int64            // bytes that the kernel keeps on Go's heap
	tables  [][]byte         // blocks that the kernel keeps in the side pool
	kept    *kept            // what it keeps during a loop; nil: nothing
	sources []source         // what its kernel has packed
}

// Has returns what few steps have, for reading.
func (st *Step) Has() *belongings {
	if st.More == nil {
		return &noBelongings
	}
	return st.More
}

var noBelongings belongings

// own returns what few steps have, to be changed.
func (st *Step) own() *belongings {
	if st.More == nil {
		st.More = &belongings{}
	}
	return st.More
}

// Node is the node of a step.
func (st *Step) Node() *graph.Node { return st.Frame.Graph.Nodes[st.ID] }

// version is that of the node's operator.
func (st *Step) version() int64 { return graph.FindOpset(st.Frame.opsets, st.Node().Domain) }

// Call returns the invocation of the node's kernel. It is made when it is first asked for, and
// dropped once the kernel is prepared, if nothing stands in it then (dropCall).
func (st *Step) Call() *kernel.Invocation {
	if st.Invocation != nil {
		return st.Invocation
	}
	list := make([]*kernel.Tensor, len(st.In)+len(st.Out))
	for i, t := range st.In {
		list[i] = t.Kernels()
	}
	for i, t := range st.Out {
		list[len(st.In)+i] = t.Kernels()
	}
	st.Invocation = &kernel.Invocation{
		Call: form.Call{
			Node:    st.Node(),
			Version: st.version(),
			Block:   st.Frame.block,
			Runtime: st,
			In:      list[:len(st.In):len(st.In)],
			Out:     list[len(st.In):],
		},
		Walls:   st.Frame.Site.walls(),
		Workers: st.Frame.Site.Pool.Workers(),
	}
	return st.Invocation
}

// dropCall drops the invocation of a step whose kernel is prepared, unless the kernel has written
// something there that others read. A kernel that needs it when it runs holds it itself. In a
// graph of many nodes, invocations take as much memory as steps.
func (st *Step) dropCall() {
	c, s := st.Invocation, st.Frame.Site
	switch {
	case c == nil, st.Kernel == nil, st.Late:
	case s.GPU != nil, s.Mem.Guard != nil, s.Compared != nil, s.Options.Poison:
	case c.Residual != nil, c.Taken, len(c.Packed) > 0, c.SharedBytes > 0, c.EachBytes > 0:
	default:
		st.Invocation = nil
	}
}

// packed returns the constant inputs that the step's kernel has packed.
func (st *Step) packed() []*kernel.Tensor {
	if st.Invocation == nil {
		return nil
	}
	return st.Invocation.Packed
}

// Exact reports whether all shapes of a node are known before it runs.
func (st *Step) Exact() bool {
	for _, t := range st.In {
		if t != nil && !t.Exact {
			return false
		}
	}
	for _, t := range st.Out {
		if t != nil && !t.Exact {
			return false
		}
	}
	return true
}

// Idle reports whether the node has no output element to compute, because its
// outputs are empty or omitted. Kernels never see such a node, so they need not
// guard against division by zero or an access to the first element.
func (st *Step) Idle() bool {
	for _, t := range st.Out {
		if t != nil && (t.Shape == nil || t.Len() > 0) {
			return false
		}
	}
	return true
}

// Wrap names the node in an error, unless the error is about a changed file.
func (st *Step) Wrap(err error) error {
	if errors.Is(err, mapped.ErrChanged) {
		return err
	}
	var e *graph.Error
	if !errors.As(err, &e) {
		e = graph.Errorf("%w", st.By(err))
	}
	return e.AtNode(st.Frame.Graph.Label(st.ID))
}
