package constant

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// same is a result with the elements of the first input, in their order.
func same(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out[0].Raw = c.x(0).Raw
	return nil
}

// strides are the distances between neighbours along each axis, in elements.
func strides(shape []int64) []int64 {
	s, step := make([]int64, len(shape)), int64(1)
	for k := len(shape) - 1; k >= 0; k-- {
		s[k] = step
		step *= shape[k]
	}
	return s
}

// walk fills y: its element at a position is the one of x at index
// start + Σ position[axis]·step[axis].
func walk(y, x *Tensor, start int64, step []int64) {
	w := int64(y.width())
	rank := len(y.Shape)
	if y.len() == 0 {
		return
	}
	if rank == 0 {
		copy(y.Raw, x.Raw[start*w:(start+1)*w])
		return
	}
	n, last := y.Shape[rank-1], step[rank-1]
	at := make([]int64, rank-1)
	to := int64(0)
	for from := start; ; {
		if last == 1 {
			copy(y.Raw[to:to+n*w], x.Raw[from*w:])
		} else {
			row(y.Raw[to:to+n*w], x.Raw, from, last, w)
		}
		to += n * w
		k := rank - 2
		for ; k >= 0; k-- {
			at[k]++
			from += step[k]
			if at[k] < y.Shape[k] {
				break
			}
			from -= at[k] * step[k]
			at[k] = 0
		}
		if k < 0 {
			return
		}
	}
}

// row copies elements of w bytes that lie step apart.
func row(to, x []byte, from, step, w int64) {
	switch w {
	case 4:
		for i := int64(0); i < int64(len(to)); i += 4 {
			copy(to[i:i+4], x[from*4:from*4+4])
			from += step
		}
	case 2:
		for i := int64(0); i < int64(len(to)); i += 2 {
			copy(to[i:i+2], x[from*2:from*2+2])
			from += step
		}
	default:
		for i := int64(0); i < int64(len(to)); i += w {
			copy(to[i:i+w], x[from*w:(from+1)*w])
			from += step
		}
	}
}

func transpose(c *call) error {
	step, err := c.transposed()
	if err != nil {
		return err
	}
	walk(c.alloc(0), c.x(0), 0, step)
	return nil
}

// streamed is the largest number of bytes that Stream makes at once, but for one row along
// the first axis.
const streamed = 4 << 20

// Stream writes the elements of the only result of a node without making all of them at once.
// It can do so for a Transpose, of which a model may have gigabytes. in and out are as in
// [Eval]; out needs no elements. done is false if the node is another one, and nothing was
// written.
func Stream(n *graph.Node, in []*Tensor, out *Tensor, w io.Writer) (done bool, err error) {
	if !ops.Permutes(n) || len(out.Shape) == 0 || out.len() == 0 {
		return false, nil
	}
	c := &call{Node: n, in: in, out: []*Tensor{out}}
	step, err := c.transposed()
	if err != nil {
		return false, err
	}
	part := &Tensor{Type: out.Type, Shape: slices.Clone(out.Shape)}
	row := int64(out.len()*out.width()) / out.Shape[0]
	part.Shape[0] = min(max(streamed/max(row, 1), 1), out.Shape[0])
	part.Raw = make([]byte, part.Shape[0]*row)
	for at := int64(0); at < out.Shape[0]; at += part.Shape[0] {
		part.Shape[0] = min(part.Shape[0], out.Shape[0]-at)
		part.Raw = part.Raw[:part.Shape[0]*row]
		walk(part, c.x(0), at*step[0], step)
		if _, err := w.Write(part.Raw); err != nil {
			return true, err
		}
	}
	return true, nil
}

// transposed returns the distances, in elements of the input of a Transpose, between
// neighbours along each axis of its result.
func (c *call) transposed() ([]int64, error) {
	if err := c.need(1); err != nil {
		return nil, err
	}
	x := c.x(0)
	perm := c.listAttr("perm")
	if perm == nil {
		for k := range x.Shape {
			perm = append(perm, int64(len(x.Shape)-1-k))
		}
	}
	if len(perm) != len(x.Shape) || len(c.out[0].Shape) != len(perm) {
		return nil, fmt.Errorf("perm %v of rank %d", perm, len(x.Shape))
	}
	from := strides(x.Shape)
	step := make([]int64, len(perm))
	for k, p := range perm {
		if p < 0 || p >= int64(len(perm)) || x.Shape[p] != c.out[0].Shape[k] || slices.Index(perm, p) != k {
			return nil, fmt.Errorf("perm %v of shape %v", perm, x.Shape)
		}
		step[k] = from[p]
	}
	return step, nil
}

// slice takes every step-th element of a range along some axes.
func slice(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	x, y := c.x(0), c.out[0]
	lists := [4][]int64{c.listAttr("starts"), c.listAttr("ends"), c.listAttr("axes")}
	if c.version >= 10 {
		for i := range lists {
			var err error
			if lists[i], err = c.list(i + 1); err != nil {
				return err
			}
		}
	}
	starts, ends, axes, steps := lists[0], lists[1], lists[2], lists[3]
	if axes == nil {
		for k := range starts {
			axes = append(axes, int64(k))
		}
	}
	if steps == nil {
		steps = slices.Repeat([]int64{1}, len(starts))
	}
	if len(starts) != len(ends) || len(starts) != len(axes) || len(starts) != len(steps) || len(x.Shape) != len(y.Shape) {
		return fmt.Errorf("starts, ends, axes and steps: expected lists of one length")
	}
	step, start := strides(x.Shape), int64(0)
	want, seen := slices.Clone(x.Shape), make([]bool, len(x.Shape))
	for i := range axes {
		k, err := axisOf(axes[i], len(x.Shape))
		if err != nil || seen[k] || steps[i] == 0 {
			return fmt.Errorf("axes %v, steps %v of rank %d", axes, steps, len(x.Shape))
		}
		seen[k] = true
		first, n := sliced(x.Shape[k], starts[i], ends[i], steps[i])
		start += first * step[k]
		step[k] *= steps[i]
		want[k] = n
	}
	if !slices.Equal(want, y.Shape) {
		return fmt.Errorf("has shape %v, expected %v", want, y.Shape)
	}
	walk(c.alloc(0), x, start, step)
	return nil
}

// sliced returns the first position and the number of positions of a slice of an
// axis of length n.
func sliced(n, start, end, step int64) (first, length int64) {
	clamp := func(v, low, high int64) int64 {
		if v < 0 {
			v += n
		}
		return min(max(v, low), high)
	}
	if step > 0 {
		start, end = clamp(start, 0, n), clamp(end, 0, n)
		if start >= end {
			return 0, 0
		}
		return start, (end-start-1)/step + 1
	}
	start, end = clamp(start, 0, n-1), clamp(end, -1, n-1)
	if n == 0 || start <= end {
		return 0, 0
	}
	return start, 1 + (start-end-1)/max(-step, 1) // -step overflows for the least integer
}

func gather(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	x, y := c.x(0), c.out[0]
	axis, err := axisOf(c.int("axis", 0), len(x.Shape))
	if err != nil {
		return err
	}
	at, err := c.list(1)
	if err != nil {
		return err
	}
	n := x.Shape[axis]
	for i, k := range at {
		if k < -n || k >= n {
			return fmt.Errorf("index %d: expected one in [%d, %d)", k, -n, n)
		}
		if k < 0 {
			at[i] += n
		}
	}
	block := count(x.Shape[axis+1:]) * int64(x.width())
	if want := slices.Concat(x.Shape[:axis], c.x(1).Shape, x.Shape[axis+1:]); !slices.Equal(want, y.Shape) {
		return fmt.Errorf("has shape %v, expected %v", want, y.Shape)
	}
	y.Raw = make([]byte, 0, y.len()*y.width())
	for outer := range count(x.Shape[:axis]) {
		for _, k := range at {
			from := (outer*n + k) * block
			y.Raw = append(y.Raw, x.Raw[from:from+block]...)
		}
	}
	return nil
}

func concat(c *call) error {
	if err := c.need(len(c.in)); err != nil {
		return err
	}
	y := c.out[0]
	axis, err := axisOf(c.int("axis", 1), len(y.Shape)) // required since opset 4
	if err != nil {
		return err
	}
	total := int64(0)
	for _, x := range c.in {
		if len(x.Shape) != len(y.Shape) || x.Type != y.Type {
			return fmt.Errorf("shape %v beside %v", x.Shape, y.Shape)
		}
		for k := range y.Shape {
			if k != axis && x.Shape[k] != y.Shape[k] {
				return fmt.Errorf("shape %v beside %v", x.Shape, y.Shape)
			}
		}
		total += x.Shape[axis]
	}
	if total != y.Shape[axis] {
		return fmt.Errorf("has length %d along axis %d, expected %d", total, axis, y.Shape[axis])
	}
	y.Raw = make([]byte, 0, y.len()*y.width())
	for outer := range count(y.Shape[:axis]) {
		for _, x := range c.in {
			block := count(x.Shape[axis:]) * int64(x.width())
			y.Raw = append(y.Raw, x.Raw[outer*block:(outer+1)*block]...)
		}
	}
	return nil
}

func split(c *call) error {
	x := c.x(0)
	if x == nil {
		return fmt.Errorf("input 0 is missing")
	}
	axis, err := axisOf(c.int("axis", 0), len(x.Shape))
	if err != nil {
		return err
	}
	if err := c.parts(axis); err != nil {
		return err
	}
	step, from := strides(x.Shape), int64(0)
	for i, y := range c.out {
		if y == nil {
			return fmt.Errorf("output %d is left out: its length is not known", i)
		}
		if len(y.Shape) != len(x.Shape) || from+y.Shape[axis] > x.Shape[axis] {
			return fmt.Errorf("output %d has shape %v, the input %v", i, y.Shape, x.Shape)
		}
		for k := range x.Shape {
			if k != axis && x.Shape[k] != y.Shape[k] {
				return fmt.Errorf("output %d has shape %v, the input %v", i, y.Shape, x.Shape)
			}
		}
		walk(c.alloc(i), x, from*step[axis], step)
		from += y.Shape[axis]
	}
	if from != x.Shape[axis] {
		return fmt.Errorf("the outputs have length %d along axis %d, expected %d", from, axis, x.Shape[axis])
	}
	return nil
}

// spread returns the steps by which x is broadcast to a shape.
func spread(x *Tensor, shape []int64) ([]int64, error) {
	lead := len(shape) - len(x.Shape)
	if lead < 0 {
		return nil, fmt.Errorf("shape %v does not broadcast to %v", x.Shape, shape)
	}
	step := make([]int64, len(shape))
	for k, s := range strides(x.Shape) {
		switch x.Shape[k] {
		case 1:
		case shape[lead+k]:
			step[lead+k] = s
		default:
			return nil, fmt.Errorf("shape %v does not broadcast to %v", x.Shape, shape)
		}
	}
	return step, nil
}

// broadcast returns x with its elements repeated to a shape.
func broadcast(x *Tensor, shape []int64) (*Tensor, error) {
	if slices.Equal(x.Shape, shape) {
		return x, nil
	}
	step, err := spread(x, shape)
	if err != nil {
		return nil, err
	}
	y := &Tensor{Type: x.Type, Shape: shape}
	y.Raw = make([]byte, y.len()*y.width())
	walk(y, x, 0, step)
	return y, nil
}

func expand(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	if err := c.expanded(); err != nil {
		return err
	}
	y, err := broadcast(c.x(0), c.out[0].Shape)
	if err == nil {
		c.out[0].Raw = y.Raw
	}
	return err
}

func tile(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	x, y := c.x(0), c.out[0]
	if c.version < 6 || len(x.Shape) != len(y.Shape) {
		return fmt.Errorf("not computed before opset 6")
	}
	if err := c.tiled(); err != nil {
		return err
	}
	// Each axis is two: the repetitions, and the axis of x.
	shape, step := make([]int64, 0, 2*len(x.Shape)), make([]int64, 0, 2*len(x.Shape))
	for k, s := range strides(x.Shape) {
		shape = append(shape, y.Shape[k]/x.Shape[k], x.Shape[k])
		step = append(step, 0, s)
	}
	walk(&Tensor{Type: y.Type, Shape: shape, Raw: c.alloc(0).Raw}, x, 0, step)
	return nil
}

// pad surrounds x with one value; negative widths cut.
func pad(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	x, y := c.x(0), c.out[0]
	if a := c.Attr("mode"); a != nil && a.String != "constant" || c.version < 11 {
		return fmt.Errorf("mode and opset of Pad are not computed")
	}
	widths, err := c.list(1)
	if err != nil {
		return err
	}
	axes, err := c.list(3)
	if err != nil {
		return err
	}
	rank := len(x.Shape)
	if axes == nil {
		for k := range rank {
			axes = append(axes, int64(k))
		}
	}
	if len(widths) != 2*len(axes) || len(y.Shape) != rank {
		return fmt.Errorf("%d widths for %d axes", len(widths), len(axes))
	}
	before, after := make([]int64, rank), make([]int64, rank)
	for i, a := range axes {
		k, err := axisOf(a, rank)
		if err != nil {
			return err
		}
		before[k], after[k] = widths[i], widths[i+len(axes)]
	}
	value := make([]byte, y.width())
	if v := c.x(2); v != nil {
		if v.Type != y.Type || v.len() != 1 {
			return fmt.Errorf("the value has type %v and %d elements", v.Type, v.len())
		}
		value = v.Raw
	}
	// The part of x that remains, and its place in y.
	part := &Tensor{Type: x.Type, Shape: make([]int64, rank)}
	from, to := int64(0), int64(0)
	xs, ys := strides(x.Shape), strides(y.Shape)
	for k := range rank {
		if x.Shape[k]+before[k]+after[k] != y.Shape[k] {
			return fmt.Errorf("shape %v padded to %v", x.Shape, y.Shape)
		}
		part.Shape[k] = x.Shape[k] + min(before[k], 0) + min(after[k], 0)
		if part.Shape[k] < 0 {
			return fmt.Errorf("shape %v cut to %v", x.Shape, y.Shape)
		}
		from += max(-before[k], 0) * xs[k]
		to += max(before[k], 0) * ys[k]
	}
	y.Raw = bytes.Repeat(value, y.len())
	place(y, to, ys, part.Shape, x, from, xs)
	return nil
}

// place copies a block of x into y; both have the axes of shape.
func place(y *Tensor, to int64, ys, shape []int64, x *Tensor, from int64, xs []int64) {
	w := int64(y.width())
	if count(shape) == 0 {
		return
	}
	if len(shape) == 0 {
		copy(y.Raw[to*w:(to+1)*w], x.Raw[from*w:])
		return
	}
	if len(shape) == 1 {
		copy(y.Raw[to*w:(to+shape[0])*w], x.Raw[from*w:])
		return
	}
	for i := range shape[0] {
		place(y, to+i*ys[0], ys[1:], shape[1:], x, from+i*xs[0], xs[1:])
	}
}

func where(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	y := c.out[0]
	var in [3]*Tensor
	for i := range in {
		var err error
		if in[i], err = broadcast(c.x(i), y.Shape); err != nil {
			return err
		}
	}
	if in[0].Type != graph.Bool || in[1].Type != y.Type || in[2].Type != y.Type {
		return fmt.Errorf("types %v, %v, %v", in[0].Type, in[1].Type, in[2].Type)
	}
	c.alloc(0)
	w := y.width()
	for i, yes := range in[0].Raw {
		from := in[2]
		if yes != 0 {
			from = in[1]
		}
		copy(y.Raw[i*w:(i+1)*w], from.Raw[i*w:])
	}
	return nil
}

func shapeOf(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	x, y := c.x(0), c.out[0]
	rank := int64(len(x.Shape))
	clamp := func(v int64) int64 {
		if v < 0 {
			v += rank
		}
		return min(max(v, 0), rank)
	}
	start, end := clamp(c.int("start", 0)), clamp(c.int("end", rank))
	y.Raw = []byte{}
	for k := start; k < end; k++ {
		y.Raw = binary.LittleEndian.AppendUint64(y.Raw, uint64(x.Shape[k]))
	}
	return nil
}

func sizeOf(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out[0].Raw = binary.LittleEndian.AppendUint64(nil, uint64(c.x(0).len()))
	return nil
}

func constantOfShape(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	if err := c.filled(); err != nil {
		return err
	}
	y := c.out[0]
	a := c.Attr("value")
	if a == nil {
		c.alloc(0)
		return nil
	}
	if a.Ref != "" || a.Tensor == nil || a.Tensor.External != nil {
		return errForm
	}
	v, err := (&Files{}).Read(a.Tensor)
	if err != nil {
		return err
	}
	if v.Type != y.Type || v.len() != 1 {
		return fmt.Errorf("the value has type %v and %d elements", v.Type, v.len())
	}
	y.Raw = bytes.Repeat(v.Raw, y.len())
	return nil
}
