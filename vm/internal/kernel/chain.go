package kernel

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// chainLen is the number of elements that a chain computes at once: those of all its links
// stay in the fastest cache.
const chainLen = 1024

// A Chain computes several nodes that work element by element, of which only the last one's
// result is kept: it goes through all of them with a few elements at a time. The bits are
// those of the nodes. Numbers of 16 bits are widened as they are read, and float32 until the last
// result is written; in between they are rounded wherever the nodes do.
type Chain struct {
	links []chained
	ends  []*Tensor // what the chain reads from outside
	out   *Tensor
	slots int
	from  int   // if the result is of 16 bits: the slot or end that it is rounded from
	fixed []int // the slot in which an end of one element is repeated; below 0: the end has all elements
}

// chained is a link with its operands: those below 0 are ends, ^0 the first; the others
// slots. So is its result; toOut is the chain's.
type chained struct {
	do link
	in [3]int
	d  int
}

const toOut = -1

// task is what a link computes, and of what. Reals are float32.
type task struct {
	do      link
	in      []*Tensor
	out     *Tensor
	recasts bool // it only rounds
}

// tasksOf lists what nodes compute. A Sigmoid whose only reader multiplies what it is of
// with it is one link with that: it has the same bits, those of a NaN, too. What a Cast widens is already wide.
func tasksOf(nodes []*Invocation) []task {
	made, readers := map[*Tensor]*Invocation{}, map[*Tensor]int{}
	for _, c := range nodes {
		made[c.Out[0]] = c
		for _, t := range c.In {
			readers[t]++
		}
	}
	var list []task
	merged, wide := map[*Tensor]bool{}, map[*Tensor]*Tensor{}
	for i, c := range nodes {
		w, l := task{in: slices.Clone(c.In), out: c.Out[0]}, linkOf(c)
		switch do := converts(c); {
		case do != nil:
			w.do, w.in = do, w.in[:1]
		case recasts(c):
			if w.do, w.in, w.recasts = recast(w.out), w.in[:1], true; !isHalf(w.out) && i < len(nodes)-1 {
				wide[w.out] = w.in[0]
				if u := wide[w.in[0]]; u != nil {
					wide[w.out] = u
				}
				continue
			}
		case isHalf(w.out) && !l.keeps && i < len(nodes)-1: // the last result is rounded as it is written
			w.do = l.rounded(w.out)
		default:
			w.do = l.do
		}
		if l == linkOfWhere && c.In[0].Len() == 1 && c.Out[0].Len() != 1 {
			w.do = whichever
		}
		for k, t := range c.In {
			if s := made[t]; k == 1 && l == linkOfMul && s != nil && linkOf(s) == linkOfSigmoid && readers[t] == 1 && s.In[0] == c.In[1-k] && w.out.Type == graph.Float32 {
				w.do, w.in, merged[t] = linkOfSwish.do, slices.Clone(s.In), true
			}
		}
		for k, t := range w.in {
			if u := wide[t]; u != nil {
				w.in[k] = u
			}
		}
		list = append(list, w)
	}
	return slices.DeleteFunc(list, func(w task) bool { return merged[w.out] })
}

// recast is the link of a conversion from float32 to the numbers that a tensor has.
func recast(out *Tensor) link {
	if !isHalf(out) {
		return func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
			copy(span[float32](d, n), span[float32](in[0], n))
		}
	}
	to := narrowType(out.Type)
	return func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		simd.RoundWide(span[float32](d, n), span[float32](in[0], n), to)
	}
}

// widens is the link that reads an end of 16 bits.
func widens(t *Tensor) link {
	from := narrowType(t.Type)
	return func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		simd.Widen(span[float32](d, n), span[uint16](in[0], n), from)
	}
}

// NewChain makes a chain of nodes in an order in which they can run, all with inputs of one
// shape or of one element.
func NewChain(nodes []*Invocation) *Chain {
	tasks := tasksOf(nodes)
	h := &Chain{out: tasks[len(tasks)-1].out}
	p := placing{Chain: h, slot: map[*Tensor]int{}, end: map[*Tensor]int{}, reader: map[*Tensor]int{}}
	for i, w := range tasks {
		for _, t := range w.in {
			p.reader[t] = i
		}
	}
	for i, w := range tasks {
		p.add(i, w, i == len(tasks)-1)
	}
	return h
}

// placing finds the slots of a chain.
type placing struct {
	*Chain
	slot, end map[*Tensor]int
	reader    map[*Tensor]int // the last task that reads a tensor
	free      []int
}

// add adds the link of a task.
func (p *placing) add(i int, w task, final bool) {
	l := chained{do: w.do, d: toOut}
	for k, t := range w.in {
		l.in[k] = p.operand(t)
	}
	if final && isHalf(p.out) && w.recasts {
		p.from = l.in[0]
		return
	}
	dies := func(same bool) { // a result may not overwrite an operand of another width
		for k, t := range w.in {
			if s, made := p.slot[t]; made && p.reader[t] == i && (wideType(w.out) == wideType(t)) == same && !slices.Contains(w.in[:k], t) {
				p.free = append(p.free, s)
			}
		}
	}
	dies(true) // a slot is free as soon as its last reader has begun
	if !final || isHalf(p.out) {
		l.d = p.take()
		p.slot[w.out] = l.d
	}
	dies(false)
	if final && isHalf(p.out) {
		p.from = l.d
	}
	p.links = append(p.links, l)
}

// operand returns where a task's operand is, and reads it there if it is an end of 16 bits.
func (p *placing) operand(t *Tensor) int {
	if s, made := p.slot[t]; made {
		return s
	}
	if _, is := p.end[t]; !is {
		p.end[t] = ^len(p.ends)
		p.ends = append(p.ends, t)
	}
	if !isHalf(t) || t.Len() != p.out.Len() {
		return p.end[t]
	}
	s := p.take()
	p.slot[t] = s
	p.links = append(p.links, chained{do: widens(t), in: [3]int{p.end[t]}, d: s})
	return s
}

// take returns a slot that is free.
func (p *placing) take() (s int) {
	if n := len(p.free); n > 0 {
		s, p.free = p.free[n-1], p.free[:n-1]
		return s
	}
	p.slots++
	return p.slots - 1
}

// Make returns the function that runs a chain in the place of node c.
func (h *Chain) Make(c *Invocation) Run {
	n := h.out.Len()
	fixed := 0
	h.fixed = make([]int, len(h.ends))
	for i, t := range h.ends {
		h.fixed[i] = -1
		if t.Len() != n {
			h.fixed[i] = h.slots + fixed
			fixed++
		}
	}
	each := c.Each(4 * chainLen * (h.slots + fixed))
	if from := h.byte(); from != nil {
		return h.makeTable(c, from, each)
	}
	var pool *work.Pool
	part := func(p, worker int) {
		scratch := pool.Each(worker, each)
		h.begin(scratch)
		for from := p * grain; from < min((p+1)*grain, n); from += chainLen {
			h.compute(scratch, unsafe.Add(h.out.At, from*h.out.Width()), from, min(chainLen, n-from), nil)
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(cuts(n, grain), part)
		return nil
	}
}

// byte returns the only end that is no single element, if it and the result are of bytes;
// else nil. Then the chain is a function of a byte.
func (h *Chain) byte() *Tensor {
	var from *Tensor
	for i, t := range h.ends {
		if h.fixed[i] < 0 {
			if from != nil {
				return nil
			}
			from = t
		}
	}
	if from == nil || !from.Byte() || !h.out.Byte() {
		return nil
	}
	return from
}

// makeTable is Make for a function of a byte: it computes a table for all bytes, and looks
// up those of the end.
func (h *Chain) makeTable(c *Invocation, from *Tensor, each int) Run {
	n := h.out.Len()
	off := c.Shared(2 * 256) // all bytes, and the table
	var table *[256]byte
	part := func(p, _ int) {
		first := p * grain
		length := min(grain, n-first)
		simd.LookUp(span[byte](element[byte](h.out, first), length), span[byte](element[byte](from, first), length), table)
	}
	return func(w *work.Pool) error {
		all := w.Shared(off)
		countUp(all)
		table = (*[256]byte)(w.Shared(off + 256))
		scratch := w.Each(0, each)
		h.begin(scratch)
		h.compute(scratch, unsafe.Pointer(table), 0, 256, all)
		w.For(cuts(n, grain), part)
		return nil
	}
}

// slot is the address of a slot in the scratch.
func slot(scratch unsafe.Pointer, k int) unsafe.Pointer { return unsafe.Add(scratch, 4*chainLen*k) }

// begin repeats the ends of one element in their slots.
func (h *Chain) begin(scratch unsafe.Pointer) {
	for i, t := range h.ends {
		switch k := h.fixed[i]; {
		case k < 0:
		case t.Type == graph.Bool:
			repeat(span[uint8](slot(scratch, k), chainLen), *(*uint8)(t.At))
		default:
			repeat(span[float32](slot(scratch, k), chainLen), wideElement(t))
		}
	}
}

// wideElement is the only element of an end.
func wideElement(t *Tensor) float32 {
	if !isHalf(t) {
		return *(*float32)(t.At)
	}
	return narrowType(t.Type).Wide(*(*uint16)(t.At))
}

// compute computes n elements, at most chainLen, from those of the ends from one on, or, if
// it is not nil, from those at an address.
func (h *Chain) compute(scratch, d unsafe.Pointer, from, n int, at unsafe.Pointer) {
	for i := range h.links {
		l := &h.links[i]
		var in [3]unsafe.Pointer
		for k, s := range l.in {
			in[k] = h.operand(scratch, s, from, at)
		}
		to := d
		if l.d != toOut {
			to = slot(scratch, l.d)
		}
		l.do(to, in, n)
	}
	if isHalf(h.out) {
		simd.Round(span[uint16](d, n), span[float32](h.operand(scratch, h.from, from, at), n), narrowType(h.out.Type))
	}
}

// operand is the address of a slot, or of an end's elements from one on.
func (h *Chain) operand(scratch unsafe.Pointer, s, from int, at unsafe.Pointer) unsafe.Pointer {
	switch {
	case s >= 0:
		return slot(scratch, s)
	case h.fixed[^s] >= 0:
		return slot(scratch, h.fixed[^s])
	case at != nil:
		return at
	}
	return element[byte](h.ends[^s], from*h.ends[^s].Width())
}
