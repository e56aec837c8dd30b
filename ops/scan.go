package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// inferScan: inputs are initial states and scanned inputs. In version 8 the
// sequence lengths come first, and everything has the batch as axis 0 and the
// sequence as axis 1; from version 9 on there is no batch, and the axes are
// attributes.
func inferScan(c *Call) error {
	body, err := c.body("body")
	if err != nil {
		return err
	}
	in, batched := c.In, false
	if c.Version < 9 {
		if len(in) == 0 {
			return c.Need(1)
		}
		in, batched = in[1:], true
	}
	m := c.Int("num_scan_inputs", 0)
	if m < 1 || m > int64(len(in)) {
		return c.Errf("num_scan_inputs is %d, expected one of [1, %d]", m, len(in))
	}
	n := len(in) - int(m)
	offset := len(c.In) - len(in)
	if err := c.scanDirections(int(m)); err != nil {
		return err
	}
	batch := graph.Unknown
	if batched && c.Has(0) && c.In[0].Rank() == 1 {
		batch = c.In[0].Shape[0]
	}
	l := &loop{c: c, what: "state", body: body, fixed: true}
	for i := range in {
		a, k := in[i], offset+i
		if !a.Present {
			return c.Errf("input %d is missing", k)
		}
		if a.Kind != graph.KindTensor && a.Kind != graph.KindUnknown && (batched || i >= n) {
			return c.BadInput(k, "a tensor")
		}
		if batched && a.Ranked {
			if len(a.Shape) == 0 || !SameDim(batch, a.Shape[0]) {
				return c.BadInput(k, "a batch of %v at axis 0", batch)
			}
			batch = TakeDim(batch, a.Shape[0])
			a.Shape, a.Value = a.Shape[1:], nil
		}
		if i < n {
			l.carried = append(l.carried, a)
		} else {
			l.tail = append(l.tail, a)
		}
	}
	length := graph.Unknown
	if length, err = c.scanSlices(l.tail, offset+n); err != nil {
		return err
	}
	if _, err := newLoop(l); err != nil {
		return err
	}
	_, outs, err := l.fixpoint()
	if err != nil {
		if length != 0 {
			return err
		}
		neverRuns(body, "it has no iterations")
		outs = make([]Arg, len(body.Outputs))
	}
	r := loopResult{outs: outs}
	r.fill(l, length, length.Exact())
	for i, a := range r.carried {
		if batched {
			c.SetType(i, stacked(a.Type, 0, batch))
			continue
		}
		c.SetType(i, a.Type)
		c.SetValue(i, a.Value)
	}
	if length.Exact() {
		c.Node.Semantics.FLOPs = mulFLOPs(bodyFLOPs(body), int64(length))
		if batched {
			b, _ := batch.Max()
			c.Node.Semantics.FLOPs = mulFLOPs(c.Node.Semantics.FLOPs, b)
		}
	}
	return c.scanOutputs(outs[n:], n, length, batched, batch)
}

// scanDirections checks the directions of the m scanned inputs, and of the
// outputs if they are given.
func (c *Call) scanDirections(m int) error {
	for _, name := range []string{"directions", "scan_input_directions", "scan_output_directions"} {
		list := c.Ints(name)
		if list != nil && name != "scan_output_directions" && len(list) != m {
			return c.Errf("%s has %d entries, expected %d as num_scan_inputs", name, len(list), m)
		}
		if slices.ContainsFunc(list, func(d int64) bool { return d != 0 && d != 1 }) {
			return c.Errf("%s is %v, expected 0 (forward) or 1 (reverse)", name, list)
		}
	}
	return nil
}

// scanSlices removes the sequence axis from each scanned input and returns its
// length. first is the index of the first scanned input.
func (c *Call) scanSlices(scanned []Arg, first int) (graph.Dim, error) {
	axes := c.Ints("scan_input_axes")
	if c.Version < 9 {
		axes = nil
	}
	if axes != nil && len(axes) != len(scanned) {
		return 0, c.Errf("scan_input_axes has %d entries, expected %d as num_scan_inputs", len(axes), len(scanned))
	}
	length := graph.Unknown
	for i := range scanned {
		a := &scanned[i]
		a.Value = nil
		if !a.Ranked {
			continue
		}
		axis := int64(0)
		if axes != nil {
			axis = axes[i]
		}
		k, err := attr.Axis("scan_input_axes", axis, len(a.Shape))
		if err != nil {
			return 0, err
		}
		if !SameDim(length, a.Shape[k]) {
			return 0, c.BadInput(first+i, "a sequence of length %v as in the others", length)
		}
		length = TakeDim(length, a.Shape[k])
		a.Shape = slices.Concat(a.Shape[:k], a.Shape[k+1:])
	}
	return length, nil
}

// scanOutputs stacks the results of the iterations along their axes.
func (c *Call) scanOutputs(elements []Arg, first int, length graph.Dim, batched bool, batch graph.Dim) error {
	axes := c.Ints("scan_output_axes")
	if batched {
		axes = nil
	}
	if axes != nil && len(axes) != len(elements) {
		return c.Errf("scan_output_axes has %d entries, expected %d as the body's scan outputs", len(axes), len(elements))
	}
	for k, e := range elements {
		if e.Kind != graph.KindTensor && e.Kind != graph.KindUnknown {
			return c.Errf("scan output %d of the body is %v, expected a tensor", k, e.Type)
		}
		axis := 0
		if axes != nil && e.Ranked {
			var err error
			if axis, err = attr.Axis("scan_output_axes", axes[k], len(e.Shape)+1); err != nil {
				return err
			}
		}
		t := stacked(e.Type, axis, length)
		if batched {
			t = stacked(t, 0, batch)
		}
		c.SetType(first+k, t)
	}
	return nil
}
