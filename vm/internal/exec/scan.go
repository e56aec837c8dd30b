package exec

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// scan runs a Scan node of opset 9 or later. The body's inputs are the carried tensors
// and one slice of each scanned input. Its outputs are the carried tensors of the next
// pass and one slice of each scan output.
type scan struct {
	in               *Session
	st               *lower.Step
	body             *lower.Frame
	carried, scanned int
	inAxes, outAxes  []int
	inBack, outBack  []bool // the slices run from the end to the start
}

func newScan(in *Session, st *lower.Step, body *lower.Frame) (kernel.Run, error) {
	n := st.Node()
	c := st.Call()
	if st.Call().Version < 9 {
		return newBatchedScan(in, st, body)
	}
	s := &scan{in: in, st: st, body: body, scanned: c.Int("num_scan_inputs", 0)}
	s.carried = len(n.Inputs) - s.scanned
	outs := len(n.Outputs) - s.carried
	if s.scanned < 1 || s.carried < 0 || outs < 0 || len(body.Graph.Inputs) != len(n.Inputs) || len(body.Graph.Outputs) != len(n.Outputs) {
		return nil, fmt.Errorf("its body has %d inputs and %d outputs, and does not fit", len(body.Graph.Inputs), len(body.Graph.Outputs))
	}
	if err := body.MakesAll(); err != nil {
		return nil, err
	}
	s.inAxes, s.inBack = scanAttrs(c, "scan_input", s.scanned)
	s.outAxes, s.outBack = scanAttrs(c, "scan_output", outs)
	return s.run, nil
}

// newBatchedScan prepares a Scan of opset 8: input 0 may hold the lengths of the sequences,
// axis 0 of all other inputs and of the outputs is the batch, and axis 1 of the scanned ones
// the sequence. It is a Scan of opset 9 for each element of the batch.
func newBatchedScan(in *Session, st *lower.Step, body *lower.Frame) (kernel.Run, error) {
	c := st.Call()
	if len(st.In) == 0 || st.In[0] != nil {
		return nil, fmt.Errorf("%w for Scan of opset %d with lengths of sequences", lower.ErrUnsupported, c.Version)
	}
	if !st.Exact() {
		return nil, fmt.Errorf("%w for Scan of opset %d with lengths that depend on data", lower.ErrUnsupported, c.Version)
	}
	one := &lower.Step{Frame: st.Frame, ID: st.ID, Invocation: st.Call()}
	one.In, one.Out = make([]*values.Tensor, len(st.In)-1), make([]*values.Tensor, len(st.Out))
	v := &scan{in: in, st: one, body: body, scanned: c.Int("num_scan_inputs", 0)}
	v.carried = len(one.In) - v.scanned
	if v.scanned < 1 || v.carried < 0 || len(one.Out) < v.carried || len(body.Graph.Inputs) != len(one.In) || len(body.Graph.Outputs) != len(one.Out) {
		return nil, fmt.Errorf("its body has %d inputs and %d outputs, and does not fit", len(body.Graph.Inputs), len(body.Graph.Outputs))
	}
	if err := body.MakesAll(); err != nil {
		return nil, err
	}
	v.inAxes, v.inBack = make([]int, v.scanned), make([]bool, v.scanned)
	for i, d := range c.Ints("directions") {
		v.inBack[i] = d != 0 // inference has checked their number
	}
	outs := len(one.Out) - v.carried
	v.outAxes, v.outBack = make([]int, outs), make([]bool, outs)
	return func(w *work.Pool) error {
		st.Frame.Site.ToHost(st.In...) // the elements of the batch are read there
		batch := 0
		for _, t := range st.In[1:] {
			if len(t.Shape) == 0 {
				return fmt.Errorf("tensor %q is %v, expected a batch at axis 0", graph.Short(t.Name), values.TypeOf(t))
			}
			batch = t.Shape[0]
		}
		for k := range batch {
			for i, t := range st.In[1:] {
				one.In[i] = t.Row(k, batch)
			}
			for i, t := range st.Out {
				if t != nil {
					one.Out[i] = t.Row(k, batch)
				}
			}
			if err := v.run(w); err != nil {
				return err
			}
			st.Frame.Site.ToHost(one.Out...) // as parts of the outputs, whose other parts are there
		}
		for _, t := range st.Out {
			if t != nil {
				st.Frame.Site.WroteOnHost(t)
			}
		}
		return nil
	}, nil
}

// scanAttrs reads the axes and directions of the n scanned inputs or outputs.
func scanAttrs(c *kernel.Invocation, what string, n int) ([]int, []bool) {
	axes, back := make([]int, n), make([]bool, n)
	copy(axes, c.Ints(what+"_axes"))
	for i, d := range c.Ints(what + "_directions") {
		if i < n {
			back[i] = d != 0
		}
	}
	return axes, back
}

func (v *scan) run(*work.Pool) error {
	st, s := v.st, v.st.Frame.Site
	length := -1
	for i := range v.scanned {
		t := st.In[v.carried+i]
		axis, err := axisOf("scan_input_axes", v.inAxes[i], len(t.Shape))
		if err != nil {
			return err
		}
		if n := t.Shape[axis]; length >= 0 && n != length {
			return fmt.Errorf("scanned inputs have lengths %d and %d, expected one", length, n)
		}
		length = t.Shape[axis]
	}
	for i := range v.carried {
		if err := s.Assign(v.body.Input(i), st.In[i]); err != nil {
			return err
		}
	}
	v.body.Begin()
	for k := range length {
		s.Pool.Poll()
		for i := range v.scanned {
			if err := v.loadSlice(i, k, length); err != nil {
				return err
			}
		}
		if err := v.in.runAll(v.body); err != nil {
			return err
		}
		for i := range v.outAxes {
			if err := v.storeSlice(i, k, length); err != nil {
				return err
			}
		}
		if err := updateCarried(v.body, 0, 0, v.carried); err != nil {
			return err
		}
		v.body.Release()
	}
	for i := range v.carried {
		if st.Out[i] == nil {
			continue
		}
		if err := s.Assign(st.Out[i], v.body.Input(i)); err != nil {
			return err
		}
	}
	if length == 0 {
		return v.empty()
	}
	return nil
}

// axisOf converts an axis, which may count from the end, to [0, rank).
func axisOf(what string, axis, rank int) (int, error) {
	if axis < -rank || axis >= rank {
		return 0, fmt.Errorf("%s is %d, expected one of [%d, %d)", what, axis, -rank, rank)
	}
	if axis < 0 {
		axis += rank
	}
	return axis, nil
}

// loadSlice copies slice k of scanned input i to the body's input.
func (v *scan) loadSlice(i, k, length int) error {
	from, to := v.st.In[v.carried+i], v.body.Input(v.carried+i)
	axis, err := axisOf("scan_input_axes", v.inAxes[i], len(from.Shape))
	if err != nil {
		return err
	}
	if err := to.Takes(from); err != nil {
		return err
	}
	if err := v.st.Frame.Site.Resize(to, slices.Concat(from.Shape[:axis], from.Shape[axis+1:])); err != nil {
		return err
	}
	if v.inBack[i] {
		k = length - 1 - k
	}
	if done, err := v.st.Frame.Site.GPU.LoadSlice(to, from, axis, k); done || err != nil {
		return err
	}
	v.st.Frame.Site.ToHost(from)
	copySlices(values.BytesOf(to), values.BytesOf(from), from, axis, k, true)
	v.st.Frame.Site.WroteOnHost(to)
	return nil
}

// storeSlice copies the body's output to slice k of scan output i.
func (v *scan) storeSlice(i, k, length int) error {
	from, to := v.body.Output(v.carried+i), v.st.Out[v.carried+i]
	if to == nil {
		return nil
	}
	axis, err := axisOf("scan_output_axes", v.outAxes[i], len(from.Shape)+1)
	if err != nil {
		return err
	}
	if err := to.Takes(from); err != nil {
		return err
	}
	shape := slices.Insert(slices.Clone(from.Shape), axis, length)
	switch {
	case k > 0 && !slices.Equal(shape, to.Shape):
		return fmt.Errorf("tensor %q turns out to have shape %v in iteration %d, expected a slice of %v as before", graph.Short(from.Name), from.Shape, k, to.Shape)
	case k == 0:
		if err := v.st.Frame.Site.Resize(to, shape); err != nil {
			return err
		}
	}
	first := k == 0
	if v.outBack[i] {
		k = length - 1 - k
	}
	if done, err := v.st.Frame.Site.GPU.StoreSlice(to, from, axis, k, first); done || err != nil {
		return err
	}
	v.st.Frame.Site.ToHost(from)
	if !first {
		v.st.Frame.Site.ToHost(to) // the other slices
	}
	if first && values.PackedBits(to) != 0 {
		clear(values.BytesOf(to)) // the bits behind the last element, too
	}
	copySlices(values.BytesOf(from), values.BytesOf(to), to, axis, k, false)
	v.st.Frame.Site.WroteOnHost(to)
	return nil
}

// copySlices copies slice k along an axis of whole, whose dtype and shape are those of t, to
// slice (out) or from it.
func copySlices(slice, whole []byte, t *values.Tensor, axis, k int, out bool) {
	outer, inner := 1, 1 // in elements
	for _, n := range t.Shape[:axis] {
		outer *= n
	}
	if outer == 0 || len(slice) == 0 {
		return
	}
	if bits := values.PackedBits(t); bits != 0 {
		for _, n := range t.Shape[axis+1:] {
			inner *= n
		}
		for o := range outer {
			a, b := o*inner, (o*t.Shape[axis]+k)*inner
			if out {
				values.CopyPacked(slice, a, whole, b, inner, bits)
			} else {
				values.CopyPacked(whole, b, slice, a, inner, bits)
			}
		}
		return
	}
	inner = len(slice) / outer // in bytes from here on
	step := len(whole) / outer
	for o := range outer {
		a, b := slice[o*inner:(o+1)*inner], whole[o*step+k*inner:o*step+(k+1)*inner]
		if out {
			copy(a, b)
		} else {
			copy(b, a)
		}
	}
}

// empty sets the shapes of the scan outputs if there was no slice.
func (v *scan) empty() error {
	for i := range v.outAxes {
		to := v.st.Out[v.carried+i]
		if to == nil || to.Exact {
			continue
		}
		typ := v.body.Graph.Tensors[v.body.Graph.Outputs[v.carried+i]].Type
		if to.Type == graph.Undefined {
			to.Type = typ.Elem
		}
		shape := make([]int, len(typ.Shape))
		for k, d := range typ.Shape {
			if d.Exact() {
				shape[k] = int(d)
			}
		}
		axis, err := axisOf("scan_output_axes", v.outAxes[i], len(shape)+1)
		if err != nil {
			return err
		}
		if err := v.st.Frame.Site.Resize(to, slices.Insert(shape, axis, 0)); err != nil {
			return err
		}
	}
	return nil
}
