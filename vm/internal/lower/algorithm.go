package lower

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// ErrStopped is wrapped, with the context's cause, by the error of a run that its
// context stopped. The *graph.Error around it names the node that was running.
var ErrStopped = errors.New("stopped")

// describe says which algorithm runs at the step, for profiles, errors and CheckReference, as
// in "NCHW16c direct 3x3, bias, relu": the layouts of the image, if others than the operator's,
// the kernel's algorithm, and the nodes that it computes as well.
func (st *Step) describe(way string) {
	if st.Late {
		return // it is prepared at every step, which allocates nothing
	}
	var parts []string
	if len(st.In) > 0 && len(st.Out) > 0 {
		in, out := layoutOf(st.In[0]), layoutOf(st.Out[0])
		switch {
		case in == form.Plain && out == form.Plain:
		case in == out || len(st.In[0].Shape) != len(st.Out[0].Shape):
			parts = append(parts, max(in, out).String())
		default:
			parts = append(parts, max(in, form.NCHW).String()+" to "+max(out, form.NCHW).String())
		}
	}
	if way != "" {
		parts = append(parts, way)
	}
	st.Way = strings.Join(parts, " ")
	also := []string{st.Way}
	if st.Joined() != nil {
		also = append(also, "from bytes to bytes")
	} else if t := st.Task(); t != nil {
		for _, other := range t.Covers[1:] {
			also = append(also, strings.ToLower(other.Node().Op))
		}
	}
	st.Way = strings.TrimPrefix(strings.Join(also, ", "), ", ")
}

// layoutOf is the layout of a tensor, which may be left out.
func layoutOf(t *values.Tensor) form.Layout {
	if t == nil {
		return form.Plain
	}
	return t.Layout
}

// together describes a kernel that computes several nodes.
func together(list []*Step) string {
	const most = 8
	var ops []string
	for _, st := range list[:min(len(list), most)] {
		ops = append(ops, st.Node().OpName())
	}
	text := fmt.Sprintf("%d nodes at once: %s", len(list), strings.Join(ops, ", "))
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// By adds to an error which algorithm met it. Errors about memory, and that a run was stopped,
// have nothing to do with it.
func (st *Step) By(err error) error {
	var limit *store.Refusal
	if st.Way == "" || err == nil || errors.As(err, &limit) || errors.Is(err, ErrStopped) {
		return err
	}
	return fmt.Errorf("%w (algorithm: %s)", err, st.Way)
}
