package vm

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// scan is a Scan node (since opset 9): the body takes what is carried along and
// one slice of each scanned input; it makes what is carried on and one slice of
// each scanned output.
type scan struct {
	st               *step
	body             *frame
	carried, scanned int
	inAxes, outAxes  []int
	inBack, outBack  []bool // slices are taken, or laid, from the end
}

func newScan(st *step, body *frame) (kernel.Run, error) {
	n := st.call.Node
	c := &st.call
	if st.call.Version < 9 {
		return nil, fmt.Errorf("no kernel for Scan of opset %d", st.call.Version)
	}
	s := &scan{st: st, body: body, scanned: c.Int("num_scan_inputs", 0)}
	s.carried = len(n.Inputs) - s.scanned
	outs := len(n.Outputs) - s.carried
	if s.scanned < 1 || s.carried < 0 || outs < 0 || len(body.g.Inputs) != len(n.Inputs) || len(body.g.Outputs) != len(n.Outputs) {
		return nil, fmt.Errorf("its body has %d inputs and %d outputs, and does not fit", len(body.g.Inputs), len(body.g.Outputs))
	}
	if err := body.makesAll(); err != nil {
		return nil, err
	}
	s.inAxes, s.inBack = scanAttrs(c, "scan_input", s.scanned)
	s.outAxes, s.outBack = scanAttrs(c, "scan_output", outs)
	return s.run, nil
}

// scanAttrs reads the axes and directions of inputs or outputs.
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
	st, s := v.st, v.st.f.s
	length := -1
	for i := range v.scanned {
		t := st.in[v.carried+i]
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
		if err := s.assign(v.body.input(i), st.in[i]); err != nil {
			return err
		}
	}
	for k := range length {
		s.pool.Poll()
		for i := range v.scanned {
			if err := v.take(i, k, length); err != nil {
				return err
			}
		}
		if err := v.body.runAll(); err != nil {
			return err
		}
		for i := range v.outAxes {
			if err := v.lay(i, k, length); err != nil {
				return err
			}
		}
		if err := v.body.carryOn(0, 0, v.carried); err != nil {
			return err
		}
		v.body.release()
	}
	for i := range v.carried {
		if st.out[i] == nil {
			continue
		}
		if err := s.assign(st.out[i], v.body.input(i)); err != nil {
			return err
		}
	}
	if length == 0 {
		return v.empty()
	}
	return nil
}

// axisOf brings an axis of a tensor of so many axes into [0, rank).
func axisOf(what string, axis, rank int) (int, error) {
	if axis < -rank || axis >= rank {
		return 0, fmt.Errorf("%s is %d, expected one of [%d, %d)", what, axis, -rank, rank)
	}
	if axis < 0 {
		axis += rank
	}
	return axis, nil
}

// take gives the body slice k of scanned input i.
func (v *scan) take(i, k, length int) error {
	from, to := v.st.in[v.carried+i], v.body.input(v.carried+i)
	axis, err := axisOf("scan_input_axes", v.inAxes[i], len(from.Shape))
	if err != nil {
		return err
	}
	if err := to.takes(from); err != nil {
		return err
	}
	if err := v.st.f.s.resize(to, slices.Concat(from.Shape[:axis], from.Shape[axis+1:])); err != nil {
		return err
	}
	if v.inBack[i] {
		k = length - 1 - k
	}
	copySlices(bytesOf(to), bytesOf(from), from.Shape, axis, k, true)
	return nil
}

// lay copies the body's output to slice k of scanned output i.
func (v *scan) lay(i, k, length int) error {
	from, to := v.body.output(v.carried+i), v.st.out[v.carried+i]
	if to == nil {
		return nil
	}
	axis, err := axisOf("scan_output_axes", v.outAxes[i], len(from.Shape)+1)
	if err != nil {
		return err
	}
	if err := to.takes(from); err != nil {
		return err
	}
	shape := slices.Insert(slices.Clone(from.Shape), axis, length)
	switch {
	case k > 0 && !slices.Equal(shape, to.Shape):
		return fmt.Errorf("tensor %q turns out to have shape %v in iteration %d, expected a slice of %v as before", graph.Short(from.name), from.Shape, k, to.Shape)
	case k == 0:
		if err := v.st.f.s.resize(to, shape); err != nil {
			return err
		}
	}
	if v.outBack[i] {
		k = length - 1 - k
	}
	copySlices(bytesOf(from), bytesOf(to), to.Shape, axis, k, false)
	return nil
}

// copySlices copies between a slice and the tensor of that shape that it is
// number k of, along an axis.
func copySlices(slice, whole []byte, shape []int, axis, k int, out bool) {
	outer := 1
	for _, n := range shape[:axis] {
		outer *= n
	}
	if outer == 0 || len(slice) == 0 {
		return
	}
	inner := len(slice) / outer
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

// empty gives the scanned outputs their shapes where nothing was scanned.
func (v *scan) empty() error {
	for i := range v.outAxes {
		to := v.st.out[v.carried+i]
		if to == nil || to.exact {
			continue
		}
		typ := v.body.g.Tensors[v.body.g.Outputs[v.carried+i]].Type
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
		if err := v.st.f.s.resize(to, slices.Insert(shape, axis, 0)); err != nil {
			return err
		}
	}
	return nil
}
