package exec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// handover follows an If, a Loop, a Scan or a call of a local function while it runs. It
// checks bit for bit what the node copies into its body, from one iteration to the next, and
// to its outputs.
type handover struct {
	st     *lower.Step
	in     []image // the inputs of a Loop or Scan, before it ran
	passes int
	going  bool      // of a Loop: the condition
	next   []image   // the carried tensors of the next pass, or, after the last pass, the first outputs
	rows   [][]image // of each scan output, the row of each pass
	name   string    // of the first wrong tensor
	err    error     // what is wrong with it
}

func imageOf(t *values.Tensor) image {
	if t == nil {
		return image{}
	}
	if t.Box != nil {
		return image{data: []byte{}, box: t.Box}
	}
	return image{dtype: t.Type, shape: slices.Clone(t.Shape), data: bytes.Clone(values.BytesOf(t))}
}

// copies reports whether a step only hands tensors to and from bodies.
func copies(st *lower.Step) bool { return st.Kernel == nil && st.Run != nil && !st.Boxes }

// op is the operator of a step that copies; "" for a call.
func (h *handover) op() string {
	if h.st.Node().Semantics.Call != nil {
		return ""
	}
	if h.st.Call().Version < 9 && h.st.Node().Op == "Scan" {
		return batchedScan
	}
	return h.st.Node().Op
}

// batchedScan is the op of a Scan of opset 8, whose body runs for each element of a batch.
const batchedScan = "Scan of opset 8"

// newHandover saves the inputs of a step that is about to run.
func newHandover(st *lower.Step) *handover {
	h := &handover{st: st, going: true}
	switch op := h.op(); op {
	case "SequenceMap":
		h.rows = make([][]image, len(st.Out))
	case "Loop", "Scan":
		for _, t := range st.In {
			h.in = append(h.in, imageOf(t))
		}
		first, carried := 2, len(st.In)-2
		if op == "Scan" {
			first, carried = 0, len(st.In)-h.scanned()
		} else if len(st.In) > 1 && st.In[1] != nil {
			h.going = h.in[1].data[0] != 0
		}
		h.next = h.in[first : first+carried]
		h.rows = make([][]image, len(st.Out)-carried)
	}
	return h
}

// scanned is the number of scanned inputs of a Scan.
func (h *handover) scanned() int { return h.st.Call().Int("num_scan_inputs", 0) }

// enter checks the inputs of a body that is about to run.
func (h *handover) enter(f *lower.Frame) {
	switch h.op() {
	case "If":
		want := "else_branch"
		if *(*bool)(h.st.In[0].At) {
			want = "then_branch"
		}
		if a := h.st.Node().Attr(want); a == nil || a.Graph != f.Graph {
			h.fail(h.st.In[0], "%s does not run", want)
		}
	case "Loop":
		h.same(f.Input(0), image{dtype: graph.Int64, shape: []int{}, data: binaryInt(h.passes)})
		h.same(f.Input(1), image{dtype: graph.Bool, shape: []int{}, data: []byte{1}})
		for i, v := range h.next {
			h.same(f.Input(2+i), v)
		}
	case "SequenceMap":
		for i, t := range h.st.In {
			want := imageOf(t)
			if t.Box != nil {
				want = imageOfItem(t.Box.Items[h.passes])
			}
			h.same(f.Input(i), want)
		}
	case "Scan":
		for i, v := range h.next {
			h.same(f.Input(i), v)
		}
		for i := range h.scanned() {
			from := h.in[len(h.next)+i]
			axis, back := h.along("scan_input", i, len(from.shape))
			h.same(f.Input(len(h.next)+i), from.slice(axis, scanIndex(h.passes, from.shape[axis], back)))
		}
	}
}

// leave saves the outputs of a body that has run.
func (h *handover) leave(f *lower.Frame) {
	h.passes++
	var out []image
	for i := range f.Graph.Outputs {
		out = append(out, imageOf(f.Output(i)))
	}
	if h.op() == "Loop" {
		h.going, out = out[0].data[0] != 0, out[1:]
	}
	carried := len(out) - len(h.rows)
	h.next = out[:carried]
	for k := range h.rows {
		h.rows[k] = append(h.rows[k], out[carried+k])
	}
}

// end checks the outputs of the step. It returns the first wrong tensor and what is
// wrong with it.
func (h *handover) end() (name string, err error) {
	switch h.op() {
	case batchedScan:
		return "", nil
	case "SequenceMap":
		h.endMap()
		return h.name, h.err
	case "Loop":
		if h.in[0].data == nil && h.going || h.in[0].data != nil && h.going && int64(h.passes) < intOf(h.in[0].data) {
			h.fail(h.st.Out[0], "the loop ends after %d iterations", h.passes)
		}
	case "Scan":
		from := h.in[len(h.in)-1]
		if axis, _ := h.along("scan_input", h.scanned()-1, len(from.shape)); h.passes != from.shape[axis] {
			h.fail(h.st.Out[0], "the scan ends after %d of %d slices", h.passes, from.shape[axis])
		}
	default:
		if h.passes != 1 {
			h.fail(h.st.Out[0], "its body ran %d times, expected once", h.passes)
		}
	}
	for i, v := range h.next {
		if i < len(h.st.Out) {
			h.same(h.st.Out[i], v)
		}
	}
	for k, rows := range h.rows {
		out := h.st.Out[len(h.next)+k]
		if out == nil {
			continue
		}
		whole := imageOf(out)
		axis, back := 0, false
		if h.op() == "Scan" {
			axis, back = h.along("scan_output", k, len(whole.shape))
		}
		if whole.shape[axis] != len(rows) {
			h.fail(out, "has %d elements along axis %d, expected %d", whole.shape[axis], axis, len(rows))
			continue
		}
		for i, row := range rows {
			if v := whole.slice(axis, scanIndex(i, len(rows), back)); !bytes.Equal(v.data, row.data) {
				h.fail(out, "the row of pass %d is wrong", i)
			}
		}
	}
	return h.name, h.err
}

// endMap checks the sequences that a SequenceMap has made.
func (h *handover) endMap() {
	if n := len(h.st.In[0].Box.Items); h.passes != n {
		h.fail(h.st.Out[0], "its body ran %d times, expected %d, as there are items", h.passes, n)
	}
	for k, out := range h.st.Out {
		if out == nil {
			continue
		}
		if n := len(out.Box.Items); n != len(h.rows[k]) {
			h.fail(out, "has %d items, expected %d", n, len(h.rows[k]))
			continue
		}
		for i, b := range out.Box.Items {
			if v, want := imageOfItem(b), h.rows[k][i]; v.dtype != want.dtype || !slices.Equal(v.shape, want.shape) || !bytes.Equal(v.data, want.data) {
				h.fail(out, "item %d is wrong", i)
			}
		}
	}
}

// along returns the axis and the direction of a scanned input or output.
func (h *handover) along(what string, i, rank int) (axis int, back bool) {
	c := h.st.Call()
	if list := c.Ints(what + "_axes"); i < len(list) {
		axis = list[i]
	}
	if list := c.Ints(what + "_directions"); i < len(list) {
		back = list[i] != 0
	}
	if axis < 0 {
		axis += rank
	}
	return axis, back
}

// scanIndex is the index of the slice of pass i of n, counted from the end if back.
func scanIndex(i, n int, back bool) int {
	if back {
		return n - 1 - i
	}
	return i
}

// same checks that a tensor is equal to an image.
func (h *handover) same(t *values.Tensor, want image) {
	switch {
	case t == nil || want.data == nil:
	case t.Box != nil || want.box != nil:
		if t.Box != want.box {
			h.fail(t, "is another value than the one that was copied")
		}
	case t.Type != want.dtype || !slices.Equal(t.Shape, want.shape):
		h.fail(t, "is %v%v, expected %v%v", t.Type, t.Shape, want.dtype, want.shape)
	default:
		if i := firstDifferent(values.BytesOf(t), want.data); i >= 0 {
			h.fail(t, "byte %d differs from the copied tensor", i)
		}
	}
}

func (h *handover) fail(t *values.Tensor, format string, args ...any) {
	if h.err == nil {
		h.err = fmt.Errorf(format, args...)
		if t != nil {
			h.name = t.Name
		}
	}
}

// slice returns slice k along an axis. Elements must consist of whole bytes.
func (v image) slice(axis, k int) image {
	s := image{dtype: v.dtype, shape: slices.Delete(slices.Clone(v.shape), axis, axis+1), data: []byte{}}
	inner := form.ElementBits(v.dtype) / 8
	for _, n := range v.shape[axis+1:] {
		inner *= n
	}
	for at := k * inner; at < len(v.data); at += v.shape[axis] * inner {
		if inner == 0 {
			break
		}
		s.data = append(s.data, v.data[at:at+inner]...)
	}
	return s
}

func binaryInt(n int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

func intOf(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }

// imageOfItem is the image of a box that holds a tensor.
func imageOfItem(b *values.Box) image {
	return image{dtype: b.Tensor.Type, shape: slices.Clone(b.Tensor.Shape), data: bytes.Clone(b.Data())}
}

// image is a copy of a tensor.
type image struct {
	dtype graph.DType
	shape []int
	data  []byte
	box   *values.Box // of a value that is no tensor
}
