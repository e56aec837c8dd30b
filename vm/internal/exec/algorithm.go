package exec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// describe says which algorithm runs at the step, for profiles, errors and CheckReference, as
// in "NCHW16c direct 3x3, bias, relu": the layouts of the image, if others than the operator's,
// the kernel's algorithm, and the nodes that it computes as well.
func (st *step) describe(way string) {
	if st.late {
		return // it is prepared at every step, which allocates nothing
	}
	var parts []string
	if len(st.in) > 0 && len(st.out) > 0 {
		in, out := st.in[0].Layout(), st.out[0].Layout()
		switch {
		case in == "" && out == "":
		case in == out || len(st.in[0].Shape) != len(st.out[0].Shape):
			parts = append(parts, max(in, out))
		default:
			parts = append(parts, max(in, values.NCHW)+" to "+max(out, values.NCHW))
		}
	}
	if way != "" {
		parts = append(parts, way)
	}
	st.way = strings.Join(parts, " ")
	also := []string{st.way}
	if t := st.task(); t != nil {
		for _, other := range t.covers[1:] {
			also = append(also, strings.ToLower(other.n().Op))
		}
	}
	if st.has().joined != nil {
		also = append(also, "from bytes to bytes")
	}
	st.way = strings.TrimPrefix(strings.Join(also, ", "), ", ")
}

// together describes a kernel that computes several nodes.
func together(list []*step) string {
	const most = 8
	var ops []string
	for _, st := range list[:min(len(list), most)] {
		ops = append(ops, st.n().OpName())
	}
	text := fmt.Sprintf("%d nodes at once: %s", len(list), strings.Join(ops, ", "))
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// by adds to an error which algorithm met it. Errors about memory, and that a run was stopped,
// have nothing to do with it.
func (st *step) by(err error) error {
	var limit *store.Refusal
	if st.way == "" || err == nil || errors.As(err, &limit) || errors.Is(err, ErrStopped) {
		return err
	}
	return fmt.Errorf("%w (algorithm: %s)", err, st.way)
}
