package vm

import (
	"errors"
	"fmt"
	"strings"
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
		in, out := st.in[0].layout(), st.out[0].layout()
		switch {
		case in == "" && out == "":
		case in == out || len(st.in[0].Shape) != len(st.out[0].Shape):
			parts = append(parts, max(in, out))
		default:
			parts = append(parts, max(in, nchw)+" to "+max(out, nchw))
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

const nchw = "NCHW"

// layout names the layout in which the session holds an image, "" for that of the operator.
func (t *tensor) layout() string {
	switch {
	case t == nil:
	case t.Blocks:
		return "NCHW16c"
	case t.Pixels:
		return "NHWC"
	case t.Planes != 0:
		return nchw
	}
	return ""
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

// by adds to an error which algorithm met it, but for an error about memory.
func (st *step) by(err error) error {
	var limit *LimitError
	if st.way == "" || err == nil || errors.As(err, &limit) {
		return err
	}
	return fmt.Errorf("%w (algorithm: %s)", err, st.way)
}
