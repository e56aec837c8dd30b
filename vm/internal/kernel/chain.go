package kernel

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// link computes n elements of a node's result from as many of each of its inputs. d may be
// one of the inputs if its elements have as many bytes.
type link func(d unsafe.Pointer, in [3]unsafe.Pointer, n int)

// Link says how a chain computes an operator, from inputs of which dtypes.
type Link struct {
	do     link
	in     []graph.DType
	result graph.DType
}

var (
	oneReal  = []graph.DType{graph.Float32}
	twoReals = []graph.DType{graph.Float32, graph.Float32}
)

// pair is the link of a binary operation on float32.
func pair(f func(d, a, b []float32)) *Link {
	return &Link{func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		f(span[float32](d, n), span[float32](in[0], n), span[float32](in[1], n))
	}, twoReals, graph.Float32}
}

// single is the link of a function of a float32.
func single(f func(d, a []float32)) *Link {
	return &Link{func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		f(span[float32](d, n), span[float32](in[0], n))
	}, oneReal, graph.Float32}
}

// relates is the link of a relation, with its operands swapped or not.
func relates(r simd.Relation, swapped bool) *Link {
	a, b := 0, 1
	if swapped {
		a, b = 1, 0
	}
	return &Link{func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		simd.Compare(span[uint8](d, n), span[float32](in[a], n), span[float32](in[b], n), r)
	}, twoReals, graph.Bool}
}

// masks is the link of an operation on truth values.
func masks(f func(d, a, b []uint8)) *Link {
	return &Link{func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		f(span[uint8](d, n), span[uint8](in[0], n), span[uint8](in[1], n))
	}, []graph.DType{graph.Bool, graph.Bool}, graph.Bool}
}

// Links that rows name.
var (
	linkOfMul     = pair(simd.Mul)
	linkOfSigmoid = single(simd.Sigmoid)
	linkOfSwish   = single(func(d, a []float32) { simd.Swish(d, a, 1) })
	linkOfIsNaN   = &Link{func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		nans(span[uint8](d, n), span[float32](in[0], n))
	}, oneReal, graph.Bool}
	linkOfWhere = &Link{func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		simd.Choose(span[uint32](d, n), span[uint8](in[0], n), span[uint32](in[1], n), span[uint32](in[2], n))
	}, []graph.DType{graph.Bool, graph.Float32, graph.Float32}, graph.Float32}
)

// linkOf returns the link of a node's operator; nil: it has none.
func linkOf(c *Invocation) *Link {
	if k := Lookup(c.Node.Domain, c.Node.Op); k != nil {
		return k.Link
	}
	return nil
}

// converts returns the link of a QuantizeLinear or DequantizeLinear between float32 and 8
// bits whose scale and zero point are constants, the same for all elements; nil if the node
// is none.
func converts(c *Invocation) link {
	op := c.Node.Op
	if op != "QuantizeLinear" && op != "DequantizeLinear" || c.Node.Domain != "" || !c.Has(0) || !c.Has(1) || len(c.Out) != 1 || c.Out[0] == nil {
		return nil
	}
	bytes, reals, scale := c.In[0], c.Out[0], c.In[1]
	if op == "QuantizeLinear" {
		bytes, reals = reals, bytes
	}
	signed, is := byteType(bytes.Type)
	if !is || reals.Type != graph.Float32 || scale.Type != graph.Float32 || !scale.Const || scale.Len() != 1 || c.Int("block_size", 0) != 0 || !sameShape(bytes, reals) {
		return nil
	}
	if c.Has(2) && (!c.In[2].Const || c.In[2].Len() != 1 || c.In[2].Type != bytes.Type) {
		return nil
	}
	zero := zeroPoint(c, 2)
	as := func() (float32, simd.Byte) {
		return data[float32](scale)[0], simd.Byte{Signed: signed, Zero: int32(zero(0))}
	}
	if op == "QuantizeLinear" {
		return func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
			scale, to := as()
			simd.Quantize(span[byte](d, n), span[float32](in[0], n), scale, to)
		}
	}
	return func(d unsafe.Pointer, in [3]unsafe.Pointer, n int) {
		scale, from := as()
		simd.Dequantize(span[float32](d, n), span[byte](in[0], n), scale, from)
	}
}

// Links reports whether a node can be a link of a chain: each input has the shape of the
// result, or is a single float32, or the node converts reals to bytes or bytes to reals. The
// elements lie in the order in which the operator sees them, or all in another one.
func Links(c *Invocation) bool {
	if slices.ContainsFunc(c.In, inPlanes) || slices.ContainsFunc(c.Out, inPlanes) {
		return false
	}
	if converts(c) != nil {
		return true
	}
	l := linkOf(c)
	if l == nil || len(c.In) != len(l.in) || len(c.Out) != 1 || c.Out[0] == nil || c.Out[0].Type != l.result {
		return false
	}
	for i, t := range c.In {
		if t == nil || t.Type != l.in[i] || !sameShape(t, c.Out[0]) && (t.Len() != 1 || t.Rank() > c.Out[0].Rank() || t.Type != graph.Float32) {
			return false
		}
	}
	return true
}

// inPlanes reports whether an image of NCHWc is held in NCHW.
func inPlanes(t *Tensor) bool { return t != nil && t.Layout == form.NCHW }

func sameShape(a, b *Tensor) bool {
	if a.Rank() != b.Rank() {
		return false
	}
	for k, n := range a.Shape {
		if n != b.Shape[k] {
			return false
		}
	}
	return true
}

// chainLen is the number of elements that a chain computes at once: those of all its links
// stay in the fastest cache.
const chainLen = 1024

// A Chain computes several nodes that work element by element, of which only the last one's
// result is kept: it goes through all of them with a few elements at a time. The bits are
// those of the nodes.
type Chain struct {
	links []chained
	ends  []*Tensor // what the chain reads from outside
	out   *Tensor
	slots int
	fixed []int // the slot in which an end of one element is repeated; below 0: the end has all elements
}

// chained is a link with its operands: those below 0 are ends, ^0 the first; the others
// slots. So is its result, but for the last link.
type chained struct {
	do link
	in [3]int
	d  int
}

// task is what a link computes, and of what.
type task struct {
	do  link
	in  []*Tensor
	out *Tensor
}

// tasksOf lists what nodes compute. A Sigmoid whose only reader multiplies it with what it is
// of is one link with that: it has the same bits.
func tasksOf(nodes []*Invocation) []task {
	made, readers := map[*Tensor]*Invocation{}, map[*Tensor]int{}
	for _, c := range nodes {
		made[c.Out[0]] = c
		for _, t := range c.In {
			readers[t]++
		}
	}
	var list []task
	merged := map[*Tensor]bool{}
	for _, c := range nodes {
		w, l := task{in: c.In, out: c.Out[0]}, linkOf(c)
		if do := converts(c); do != nil {
			w.do, w.in = do, c.In[:1]
		} else {
			w.do = l.do
		}
		for k, t := range c.In {
			if s := made[t]; l == linkOfMul && s != nil && linkOf(s) == linkOfSigmoid && readers[t] == 1 && s.In[0] == c.In[1-k] {
				w.do, w.in, merged[t] = linkOfSwish.do, s.In, true
			}
		}
		list = append(list, w)
	}
	return slices.DeleteFunc(list, func(w task) bool { return merged[w.out] })
}

// NewChain makes a chain of nodes in an order in which they can run, all with inputs of one
// shape or of one element.
func NewChain(nodes []*Invocation) *Chain {
	tasks := tasksOf(nodes)
	h := &Chain{out: tasks[len(tasks)-1].out}
	slot, last := map[*Tensor]int{}, map[*Tensor]int{}
	for i, w := range tasks {
		for _, t := range w.in {
			last[t] = i
		}
	}
	end := map[*Tensor]int{}
	var free []int
	for i, w := range tasks {
		l := chained{do: w.do}
		for k, t := range w.in {
			if s, made := slot[t]; made {
				l.in[k] = s
				continue
			}
			if _, is := end[t]; !is {
				end[t] = ^len(h.ends)
				h.ends = append(h.ends, t)
			}
			l.in[k] = end[t]
		}
		for k, t := range w.in { // a slot is free as soon as its last reader has begun
			s, made := slot[t]
			wide := w.out.Type == t.Type // a result may not overwrite an operand of another width
			if made && last[t] == i && wide && !repeats(w.in[:k], t) {
				free = append(free, s)
			}
		}
		if i < len(tasks)-1 {
			if n := len(free); n > 0 {
				l.d, free = free[n-1], free[:n-1]
			} else {
				l.d = h.slots
				h.slots++
			}
			slot[w.out] = l.d
		}
		for k, t := range w.in {
			if s, made := slot[t]; made && last[t] == i && w.out.Type != t.Type && !repeats(w.in[:k], t) {
				free = append(free, s)
			}
		}
		h.links = append(h.links, l)
	}
	return h
}

func repeats(list []*Tensor, t *Tensor) bool {
	for _, u := range list {
		if u == t {
			return true
		}
	}
	return false
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
		if k := h.fixed[i]; k >= 0 {
			fill(span[float32](slot(scratch, k), chainLen), *(*float32)(t.At))
		}
	}
}

// compute computes n elements, at most chainLen, from those of the ends from one on, or, if
// it is not nil, from those at an address.
func (h *Chain) compute(scratch, d unsafe.Pointer, from, n int, at unsafe.Pointer) {
	for i := range h.links {
		l := &h.links[i]
		var in [3]unsafe.Pointer
		for k, s := range l.in {
			switch {
			case s >= 0:
				in[k] = slot(scratch, s)
			case h.fixed[^s] >= 0:
				in[k] = slot(scratch, h.fixed[^s])
			case at != nil:
				in[k] = at
			default:
				in[k] = element[byte](h.ends[^s], from*h.ends[^s].Width())
			}
		}
		to := d
		if i < len(h.links)-1 {
			to = slot(scratch, l.d)
		}
		l.do(to, in, n)
	}
}
