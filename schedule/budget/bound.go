package budget

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// bound is a lower bound on the extra time of all plans, as a function of the limit. It
// consists of the hulls of some nodes. It is not tight, because it ignores that
// repeated runs need memory themselves and that tensors are indivisible.
type bound struct {
	*cutter
	hulls []hull
	met   map[int32]bool // the nodes that add was called for
	none  bool           // Options.NoBound
	asked []int64        // the limits at which hulls must be exact; nil: all
	floor Obstacle       // see floorOf and Solver.proveLeast
}

// hull holds minimum cuts of one node as corners, from the fewest bytes to the least
// time. Each cut gives an inequality that every plan satisfies,
// alpha*limit + beta*time >= value, so a hull that lacks some corners is still valid.
type hull struct {
	node    int32
	corners []corner
	least   int64   // the fewest bytes of any cut
	held    []int32 // the tensors held by that cut
}

func newBound(p *schedule.Problem, costs []int64, r *rules, opt Options) *bound {
	c := newCutter(p, costs, r)
	return &bound{cutter: c, met: map[int32]bool{}, none: opt.NoBound, floor: c.floorOf(!opt.NoBound)}
}

// maxCorners bounds the number of cuts of one node.
const maxCorners = 80

// add finds the hull of a node. It starts with the two end corners. Between two
// neighbouring corners it computes the cut at the prices that give both the same
// value, and repeats this until no cut lies below the chord.
func (b *bound) add(w *work, v int32) *hull {
	if b.met[v] || b.mostAlpha < 1 || b.mostBeta < 1 {
		return nil
	}
	b.met[v] = true
	b.Halt = w.halted
	before := b.Work
	defer func() { w.count(int(b.Work-before) / 2) }()
	b.around(v)
	fewest, ok := b.cut(1, 0)
	if !ok {
		return nil
	}
	h := hull{node: v, least: fewest.value, held: b.heldTensors()}
	low, ok1 := b.cut(b.mostAlpha, 1)
	high, ok2 := b.cut(1, b.mostBeta)
	if !ok1 || !ok2 {
		return nil
	}
	h.corners = b.between(low, high)
	b.hulls = append(b.hulls, h)
	return &b.hulls[len(b.hulls)-1]
}

// between returns the corners from low to high, ascending by bytes.
func (b *bound) between(low, high corner) []corner {
	found := []corner{low, high}
	type chord struct{ low, high corner }
	open := []chord{{low, high}}
	for cuts := 0; len(open) > 0 && cuts < maxCorners; cuts++ {
		x := open[0]
		open = open[1:]
		alpha, beta := x.low.time-x.high.time, x.high.bytes-x.low.bytes
		if alpha <= 0 || beta <= 0 {
			continue
		}
		for alpha > b.mostAlpha || beta > b.mostBeta {
			alpha, beta = alpha>>1, beta>>1
		}
		alpha, beta = max(alpha, 1), max(beta, 1)
		m, ok := b.cut(alpha, beta)
		if !ok {
			break
		}
		found = append(found, m)
		// Prices are rounded, so the cut may find an end of the chord once more, at a
		// slightly different value.
		if height := alpha*x.low.bytes + beta*x.low.time; height-m.value > height>>18 && m.bytes > x.low.bytes && m.bytes < x.high.bytes {
			if b.wants(x.low.bytes, m.bytes) {
				open = append(open, chord{x.low, m})
			}
			if b.wants(m.bytes, x.high.bytes) {
				open = append(open, chord{m, x.high})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b corner) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(b.time, a.time))
	})
	return found
}

// wants reports whether a limit in asked lies between two corners.
func (b *bound) wants(low, high int64) bool {
	return b.asked == nil || slices.ContainsFunc(b.asked, func(limit int64) bool { return low <= limit && limit <= high })
}

// at returns a lower bound on the extra time of any plan within a limit, and a node
// that no plan can run within it, or nil.
func (b *bound) at(limit int64) (time int64, o *Obstacle) {
	if limit < b.floor.Bytes {
		o = &b.floor
	}
	for i := range b.reported() {
		h := &b.hulls[i]
		if limit < h.least && (o == nil || h.least > o.Bytes) {
			o = &Obstacle{Node: h.node, Bytes: h.least, Tensors: h.held}
		}
		time = max(time, h.at(limit))
	}
	return time, o
}

// deciding returns the node whose hull gives the bound of a limit, or -1.
func (b *bound) deciding(limit int64) int32 {
	v, most := int32(-1), int64(0)
	for i := range b.reported() {
		if time := b.hulls[i].at(limit); time > most {
			v, most = b.hulls[i].node, time
		}
	}
	return v
}

func (h *hull) at(limit int64) (time int64) {
	for _, x := range h.corners {
		if limit > (x.value-1)/x.alpha {
			continue // this also keeps alpha*limit from overflowing
		}
		gap := x.value - x.alpha*max(limit, 0)
		time = max(time, (gap+x.beta-1)/x.beta)
	}
	return time
}

// hullOf returns the hull of a node, or nil, and leaves the cutter with the network of
// that node.
func (b *bound) hullOf(w *work, v int32) *hull {
	b.add(w, v)
	b.around(v)
	for i := range b.hulls {
		if b.hulls[i].node == v {
			return &b.hulls[i]
		}
	}
	return nil
}

// reported returns the hulls that bound all plans: none with Options.NoBound.
func (b *bound) reported() []hull {
	if b.none {
		return nil
	}
	return b.hulls
}

// highest returns the step of every plan that needs the most bytes, of those that are known.
func (b *bound) highest() Obstacle {
	o := b.floor
	for i := range b.reported() {
		if h := &b.hulls[i]; h.least > o.Bytes {
			o = Obstacle{Node: h.node, Bytes: h.least, Tensors: h.held}
		}
	}
	return o
}

// least returns a proven lower bound on the peak of any plan.
func (b *bound) least() int64 { return b.highest().Bytes }

// floorOf returns the step that holds the most bytes, in any order and with any repeated
// runs, of these:
//
//   - a run of a node, with its inputs and outputs,
//   - the first step, with all inputs and the outputs of some node that needs no other's,
//   - the last step, with all outputs and the inputs and outputs of some node,
//   - the first of the final nodes, with all that these read of others, all outputs of
//     others, and the outputs of some final node.
//
// The last of these does not hold if tensors may be swapped.
func (c *cutter) floorOf(stay bool) Obstacle {
	first, last, final := Obstacle{Node: AtStart}, Obstacle{Node: AtEnd}, Obstacle{Node: AtFinal}
	output := make([]int64, len(c.need)) // node -> bytes that it reads or makes and that are outputs
	for i := range c.p.Tensors {
		t := &c.p.Tensors[i]
		if t.Resident || t.Bytes == 0 {
			continue
		}
		if t.Producer < 0 {
			first.add(int32(i), t.Bytes)
		}
		if t.Output {
			last.add(int32(i), t.Bytes)
			if t.Producer >= 0 {
				output[t.Producer] += t.Bytes
			}
		}
		if t.Producer >= 0 && !c.rules.isFinal(t.Producer) && t.Output || (t.Producer < 0 || !c.rules.isFinal(t.Producer)) && slices.ContainsFunc(t.Consumers, c.rules.isFinal) {
			final.add(int32(i), t.Bytes)
		}
	}
	o := Obstacle{Node: AtStart}
	besideInputs, besideOutputs, besideFinal := int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range c.need {
		x := Obstacle{Node: int32(i), Bytes: c.need[i], Tensors: c.reads[i]}
		for _, t := range c.reads[i] {
			x.Bytes += c.p.Tensors[t].Bytes
			if c.p.Tensors[t].Output {
				output[i] += c.p.Tensors[t].Bytes
			}
		}
		if len(c.preds[i]) == 0 {
			besideInputs = min(besideInputs, c.need[i])
		}
		besideOutputs = min(besideOutputs, x.Bytes-output[i])
		if c.rules.isFinal(int32(i)) {
			besideFinal = min(besideFinal, c.need[i])
		}
		if i == 0 || x.Bytes > o.Bytes {
			o = x
		}
	}
	if len(c.need) > 0 {
		first.Bytes += besideInputs
		last.Bytes += besideOutputs
	}
	steps := []Obstacle{first, last}
	if stay && besideFinal < math.MaxInt64 {
		final.Bytes += besideFinal
		steps = append(steps, final)
	}
	for _, x := range steps {
		if x.Bytes > o.Bytes {
			o = x
		}
	}
	return o
}

// add adds a tensor that is held.
func (o *Obstacle) add(t int32, bytes int64) {
	o.Bytes += bytes
	o.Tensors = append(o.Tensors, t)
}

// prove computes hulls as long as the work lasts. It begins with the node at the peak,
// which nearly always has the best hull. Then it climbs from there to nodes with better
// hulls, in step widths that halve. Finally it takes the node of the highest load in
// each half, quarter, eighth and so on of the order.
func (s *Solver) prove(w *work, c *chainer, limits []int64, most int64) {
	c.run(nil, true)
	most += w.done
	load, at := slices.Clone(c.load), int(c.at)
	best := s.worth(s.bound.add(w, c.order[at]), c.plain, limits)
	if s.opt.NoBound {
		return
	}
	n := len(load)
	enough := func(at int) bool { return load[at] <= s.best/10 || w.done > most || w.exhausted() }
	for step := n / 4; step >= max(1, n/256); step /= 2 {
		for _, to := range [2]int{at - step, at + step} {
			to = highest(load, max(0, to-step/2), min(n, to+step/2+1))
			if to < 0 || enough(to) {
				continue
			}
			if x := s.worth(s.bound.add(w, c.order[to]), c.plain, limits); x > best {
				best, at = x, to
			}
		}
	}
	for parts := 2; parts <= n; parts *= 2 {
		for k := range parts {
			at := highest(load, k*n/parts, (k+1)*n/parts)
			if w.done > most || w.exhausted() {
				return
			}
			if !enough(at) {
				s.bound.add(w, c.order[at])
			}
		}
	}
}

// worth returns the sum of a hull's lower bounds at some limits, in nanoseconds, or -1
// without a hull.
func (s *Solver) worth(h *hull, plain int64, limits []int64) (sum int64) {
	if h == nil {
		return -1
	}
	for _, limit := range limits {
		sum += min(h.at(limit), plain)
	}
	return sum
}

// highest returns the first step of the highest load in [from, to), or -1.
func highest(load []int64, from, to int) int {
	at := -1
	for i := from; i < to; i++ {
		if at < 0 || load[i] > load[at] {
			at = i
		}
	}
	return at
}
