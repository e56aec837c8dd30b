package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// padRules cover operators that pad or crop a tensor, or keep a triangle of it.
var padRules = []Rule{
	{Op: "Pad", Inputs: []int{0, 2}, Grad: padGrad},
	{Op: "CenterCropPad", Inputs: []int{0}, Grad: centerCropPadGrad},
	{Op: "Trilu", Inputs: []int{0}, Grad: func(c *Backward) {
		c.Set(0, c.with("Trilu", attrs{"upper": c.Int("upper", 1)}, c.D(0), c.X(1)))
	}},
}

// padGrad removes the padding: in constant mode by a Pad with the negated
// lengths, otherwise one axis at a time (folded).
func padGrad(c *Backward) {
	shape := c.shape(c.X(0))
	before, after := c.padding(len(shape))
	if c.err != nil {
		return
	}
	mode := c.Str("mode", "constant")
	if mode == "constant" {
		d := c.unpadded(c.D(0), before, after)
		c.Set(0, d)
		if c.Needs(2) { // the elements that do not come from input 0
			rest := c.sub(c.sum(c.D(0), axes(0, len(shape)), false), c.sum(d, axes(0, len(shape)), false))
			c.Set(2, c.reshape(rest, c.shape(c.X(2))))
		}
		return
	}
	d := c.D(0)
	for a := len(shape) - 1; a >= 0; a-- {
		if before[a] == 0 && after[a] == 0 {
			continue
		}
		runs := padRuns(mode, shape[a], before[a], after[a])
		if runs == nil {
			c.Failf("mode %q: expected constant, reflect, edge or wrap, and an axis with elements", mode)
			return
		}
		d = c.folded(d, a, shape[a], runs)
	}
	c.Set(0, d)
}

// padding returns the lengths that a Pad adds before and after each axis.
func (c *Backward) padding(rank int) (before, after []int64) {
	pads := c.Lengths(1)
	over := axes(0, rank)
	if c.present(c.X(3)) {
		over = c.Axes(3, 0)
	}
	before, after = make([]int64, rank), make([]int64, rank)
	if c.err != nil {
		return before, after
	}
	for k, a := range over {
		before[a], after[a] = pads[k], pads[len(over)+k]
	}
	return before, after
}

// unpadded pads with the negated lengths: negative padding crops.
func (e *emitter) unpadded(t ID, before, after []int64) ID {
	pads := make([]int64, 0, 2*len(before))
	same := true
	for _, p := range concat(before, after) {
		pads = append(pads, -p)
		same = same && p == 0
	}
	if same {
		return t
	}
	return e.op("Pad", t, e.list(pads...))
}

// padRun is a part of a padded axis: count elements from at on copy the elements
// from, from+step and so on; step is 1, -1 (a reflection) or 0 (the edge).
type padRun struct{ at, from, count, step int64 }

// first and last are the range of elements that a run copies, both inclusive.
func (r padRun) first() int64 { return min(r.from, r.from+(r.count-1)*r.step) }
func (r padRun) last() int64  { return max(r.from, r.from+(r.count-1)*r.step) }

// padRuns divides a padded axis of n elements into runs; nil if the mode is not
// known or no element is left. Negative padding crops first. A run ends where the
// direction of the copy changes, so there are few of them unless the padding is
// many times as long as the axis.
func padRuns(mode string, n, before, after int64) []padRun {
	first, length := max(-before, 0), n-max(-before, 0)-max(-after, 0)
	if length <= 0 {
		return nil
	}
	left, right := max(before, 0), max(after, 0)
	middle := padRun{at: left, from: first, count: length, step: 1}
	runs := []padRun{middle}
	switch mode {
	case "edge":
		if left > 0 {
			runs = append(runs, padRun{from: first, count: left})
		}
		if right > 0 {
			runs = append(runs, padRun{at: left + length, from: first + length - 1, count: right})
		}
	case "wrap":
		for at := left; at > 0; at -= length {
			k := min(at, length)
			runs = append(runs, padRun{at: at - k, from: first + length - k, count: k, step: 1})
		}
		for at := left + length; at < left+length+right; at += length {
			runs = append(runs, padRun{at: at, from: first, count: min(left+length+right-at, length), step: 1})
		}
	case "reflect":
		if length == 1 {
			return padRuns("edge", n, before, after)
		}
		// A reflection leaves out the element in which it turns.
		turn := length - 1
		for at, back := left, true; at > 0; at, back = at-turn, !back {
			k := min(at, turn)
			r := padRun{at: at - k, from: first + k, count: k, step: -1}
			if !back {
				r.from, r.step = first+turn-k, 1
			}
			runs = append(runs, r)
		}
		for at, back := left+length, true; at < left+length+right; at, back = at+turn, !back {
			r := padRun{at: at, from: first + turn - 1, count: min(left+length+right-at, turn), step: -1}
			if !back {
				r.from, r.step = first+1, 1
			}
			runs = append(runs, r)
		}
	default:
		return nil
	}
	return runs
}

// maxFolded is the number of runs up to which folded takes nodes for each.
const maxFolded = 16

// folded is the gradient of a padding along one axis, n elements of which were
// copied by runs. The axis is cut where a run begins or ends; each part is a sum
// of slices of d, and no tensor is larger than d. For many runs it is a scatter.
func (c *Backward) folded(d ID, axis int, n int64, runs []padRun) ID {
	shape := c.shape(d)
	if c.err != nil {
		return graph.None
	}
	if len(runs) > maxFolded {
		from := make([]int64, shape[axis])
		for _, r := range runs {
			for k := range r.count {
				from[r.at+k] = r.from + k*r.step
			}
		}
		return c.gathered(d, axis, c.list(from...), concat(shape[:axis], []int64{n}, shape[axis+1:]))
	}
	cuts := []int64{}
	for _, r := range runs {
		cuts = append(cuts, r.first(), r.last()+1)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var parts []ID
	for k, low := range cuts[:len(cuts)-1] {
		var terms []ID
		for _, r := range runs {
			if r.first() > low || r.last() < low {
				continue
			}
			terms = append(terms, c.copied(d, axis, r, low, cuts[k+1]))
		}
		parts = append(parts, c.sumOf(terms))
	}
	before, after := make([]int64, len(shape)), make([]int64, len(shape))
	before[axis], after[axis] = -cuts[0], cuts[len(cuts)-1]-n // what was cropped
	return c.unpadded(c.joined(parts, axis), before, after)
}

// copied is the part of d that a run copied from the elements low to high-1.
func (c *Backward) copied(d ID, axis int, r padRun, low, high int64) ID {
	over := []int64{int64(axis)}
	switch {
	case r.step == 0:
		return c.sum(c.slice(d, over, []int64{r.at}, []int64{r.at + r.count}), over, true)
	case r.step > 0 || high-low == 1:
		at := r.at + (low-r.from)*r.step
		return c.slice(d, over, []int64{at}, []int64{at + high - low})
	}
	at := r.at + r.from - low // of the element that low was copied to; the others lie before it
	end := at - (high - low)
	if end < 0 {
		end = minInt64
	}
	return c.op("Slice", d, c.list(at), c.list(end), c.list(over...), c.list(-1))
}

// centerCropPadGrad crops axes that were padded and pads axes that were cropped.
// If a difference is odd, the end takes the extra element.
func centerCropPadGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	before, after := make([]int64, len(x)), make([]int64, len(x))
	for a := range x {
		if d := y[a] - x[a]; d >= 0 {
			before[a], after[a] = d/2, d-d/2
		} else {
			before[a], after[a] = -(-d / 2), d+-d/2
		}
	}
	c.Set(0, c.unpadded(c.D(0), before, after))
}
