package gpu

import (
	"fmt"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// placed is the struct Placed of kernels/caches.cu: queries, keys or values.
type placed struct {
	in, out                headSteps
	end                    uint32
	before, counted        int32
	size, bias, turned     int32
	each, heads, positions [3]uint32
	_                      int32
}

// placing is the struct Placing there.
type placing struct {
	part           [3]placed
	batch, queries int32
	past, most     int32
	lines, half    int32
	apart, step    int32
}

// placement writes new queries, keys and values where they are wanted.
type placement struct {
	s             placing
	to, from      [3]any // queries, keys, values
	bias          driver.Ptr
	cosines, sins driver.Ptr
	ids           driver.Ptr
	last, total   driver.Ptr // the numbers of keys less 1, and the largest number
	counts        any        // where the numbers of past and of all keys go to
	faults        faults
	parts         int // that were added
}

// newPlacement places nothing yet.
func newPlacement() *placement {
	none := driver.Ptr(0)
	return &placement{to: [3]any{none, none, none}, from: [3]any{none, none, none}, counts: none}
}

// pass leaves the next of queries, keys and values where they are.
func (p *placement) pass() {
	if p.parts > 0 {
		p.s.part[p.parts].end = p.s.part[p.parts-1].end
	}
	p.parts++
}

// add places the next of queries, keys and values.
func (p *placement) add(from, to any, batch, heads, positions int, part placed) error {
	each := cuts(int(part.size), 2)
	for _, d := range []struct {
		of *[3]uint32
		by int
	}{{&part.each, each}, {&part.heads, heads}, {&part.positions, positions}} {
		*d.of = [3]uint32(dividerOf(max(1, d.by)))
	}
	i := p.parts
	p.pass()
	pairs := int(p.s.part[i].end) + batch*heads*positions*each
	if pairs > most {
		return unsupportedf("%d pairs of elements of queries, keys and values", pairs)
	}
	part.end = uint32(pairs)
	p.s.part[i], p.from[i], p.to[i] = part, from, to
	return nil
}

// launch appends the launch, unless there is nothing to do.
func (p *placement) launch(n *Node) error {
	pairs := int(p.s.part[2].end)
	if pairs == 0 && p.total == 0 {
		return nil
	}
	k := n.kernel("caches.cu", "place", "ELEMENT="+cType[n.In[0].Type])
	return n.launch(k, blocksFor(pairs), threadsPerBlock, p.to[0], p.to[1], p.to[2], p.from[0], p.from[1], p.from[2],
		p.bias, p.cosines, p.sins, p.ids, p.last, p.total, p.counts, p.s, p.faults)
}

// carried is the struct Carried there.
type carried struct {
	total               uint32
	queries, before     int32
	past, room          int32
	size, places, heads [3]uint32
}

// carry appends the copy of past keys or values to a cache of another room, or another
// place. Elements of that cache are of the node's dtype, rows of them are batch·heads.
func (n *Node) carry(to any, past driver.Ptr, counts any, batch, heads, size int, c carried) error {
	name := "carry1"
	if size%4 == 0 && past%16 == 0 && alignedPlace(to) {
		name, size = "carry4", size/4
	}
	total := batch * heads * int(c.room) * size
	switch {
	case total == 0:
		return nil
	case total > most:
		return unsupportedf("a cache of %d elements", total)
	}
	c.total = uint32(total)
	c.size, c.places, c.heads = [3]uint32(dividerOf(size)), [3]uint32(dividerOf(int(c.room))), [3]uint32(dividerOf(heads))
	return n.launch(n.kernel("caches.cu", name, "ELEMENT="+cType[n.In[0].Type]), blocksFor(total), threadsPerBlock, to, past, counts, c)
}

// alignedPlace reports whether an address, or scratch, is a multiple of 16.
func alignedPlace(at any) bool {
	p, is := at.(driver.Ptr)
	return !is || p%16 == 0
}

// wanted is where a tensor of the node's dtype lies, or scratch for one if it is nil.
func (n *Node) wanted(t *form.Tensor, shape ...int) (at any, made *form.Tensor, err error) {
	if t != nil {
		p, err := n.at(t)
		return p, t, err
	}
	made = &form.Tensor{Type: n.In[0].Type, Shape: shape}
	return n.scratch(int64(made.Bytes())), made, nil
}

// makeGroupQueryAttention turns and places the new keys and values, counts the keys, and
// then attends to what is in the caches. The numbers of keys are read when it runs.
func makeGroupQueryAttention(n *Node) error {
	f, err := n.GroupedAttention()
	if err != nil {
		return refused(err)
	}
	x, width := n.In[0], n.In[0].Bytes()/max(1, n.In[0].Len())
	if err := narrowReals(x, n.Input(1), n.Input(2), n.Input(3), n.Input(4), n.Input(7), n.Input(8), n.Input(10), n.Input(11), n.Out[0], n.output(1), n.output(2)); err != nil {
		return err
	}
	at, err := n.addresses(x, n.Input(1), n.Input(2), n.Input(3), n.Input(4), n.Input(5), n.Input(6), n.Input(7), n.Input(8), n.Input(9), n.Input(10), n.Input(11))
	if err != nil {
		return err
	}
	if !n.Has(1) {
		at[1] = at[0] + driver.Ptr(f.Heads*f.Size*width)
		at[2] = at[1] + driver.Ptr(f.KVHeads*f.Size*width)
	}
	p := newPlacement()
	p.last, p.total, p.counts = at[5], at[6], n.scratch(8*int64(f.Batch))
	p.s.batch, p.s.queries, p.s.past, p.s.most = int32(f.Batch), int32(f.Queries), int32(f.Past), int32(f.Room)
	a := &attended{q: at[0], numbers: p.counts, masks: masks{added: at[10], sinks: at[11]}}
	s := newAttending(f.Heads, f.Heads/f.KVHeads, f.Queries, f.Room, f.Size, f.Size)
	s.q, s.y = stepsOf(f.Q), stepsOf(form.PositionsFirst(f.Heads, f.Queries, f.Size))
	s.numbers, s.causal, s.window, s.scale, s.cap = counted, causality(flag(f.Causal)), int32(f.Window), f.Scale, f.Cap
	if b := n.Input(10); b != nil {
		s.addedSteps = addedOf(b)
		p.s.most = int32(min(f.Room, b.Shape[3]))
	}
	switch {
	case n.Has(11):
		s.sinks = sinkOfHead
	case f.Smooth:
		s.sinks = zeroSinks
	}
	p.faults = n.checks(checked{wrong: func(i int) error { return wrongLength(f, &p.s, i) }})
	if f.Turns {
		half := n.In[7].Shape[1]
		p.cosines, p.sins, p.ids = at[7], at[8], at[9]
		p.s.lines, p.s.half, p.s.apart, p.s.step = int32(n.In[7].Shape[0]), int32(half), int32(half), 1
		if f.Interleaved {
			p.s.apart, p.s.step = 1, 2
		}
		a.q, _, _ = n.wanted(nil, f.Batch, f.Queries, f.Heads, f.Size)
		s.q = s.y
		err = p.add(at[0], a.q, f.Batch, f.Heads, f.Queries, placed{in: stepsOf(f.Q), out: s.q, size: int32(f.Size), bias: -1, turned: 1})
	} else {
		p.pass()
	}
	layout := stepsOf(form.HeadsFirst(f.KVHeads, f.Room, f.Size))
	s.k, s.v = layout, layout
	var caches [2]any
	var all []*form.Tensor
	for i, in := range []form.HeadLayout{f.K, f.V} {
		if err != nil {
			return err
		}
		var t *form.Tensor
		if caches[i], t, err = n.wanted(n.output(1+i), f.Batch, f.KVHeads, f.Room, f.Size); err != nil {
			return err
		}
		all = append(all, t)
		err = p.add(at[1+i], caches[i], f.Batch, f.KVHeads, f.Queries, placed{in: stepsOf(in), out: layout, counted: 1, size: int32(f.Size), bias: -1, turned: flag(f.Turns && i == 0)})
	}
	if err != nil {
		return err
	}
	if err := p.launch(n); err != nil {
		return err
	}
	for i, to := range caches {
		past := n.Input(3 + i)
		if f.Past == 0 && f.Room == f.Queries || past != nil && to == any(at[3+i]) {
			continue // all of it is new, or it lies at its place
		}
		if err := n.carry(to, at[3+i], p.counts, f.Batch, f.KVHeads, f.Size, carried{queries: int32(f.Queries), past: int32(f.Past), room: int32(f.Room)}); err != nil {
			return err
		}
	}
	a.k, a.v = caches[0], caches[1]
	return n.attend(s, f.Batch, cType[x.Type], indexOf(append(all, x)...), a, faults{})
}

// wrongLength describes a wrong element of what the kernel checks: the number of keys of
// each element of the batch, the largest one, and then the positions.
func wrongLength(f *form.Grouped, s *placing, i int) error {
	switch {
	case i < f.Batch:
		return fmt.Errorf("input 5: batch %d has a wrong number of keys less 1: expected one below input 6, the total_sequence_length, and at most %d past keys", i, f.Past)
	case i == f.Batch:
		return fmt.Errorf("input 6: a wrong total_sequence_length: expected a number in [%d, %d]: the new keys, and the past ones that there are", f.Queries, s.most)
	}
	i -= f.Batch + 1
	return fmt.Errorf("query %d of batch %d has a wrong position: expected one in [0, %d), as input 7 has", i%f.Queries, i/f.Queries, s.lines)
}

// makeMultiHeadAttention adds the bias to queries, keys and values and puts past ones before
// them, where there are any, and then attends.
func makeMultiHeadAttention(n *Node) error {
	f, err := n.MultiHeadAttention()
	if err != nil {
		return refused(err)
	}
	x, width := n.In[0], n.In[0].Bytes()/max(1, n.In[0].Len())
	if err := narrowReals(x, n.Input(1), n.Input(2), n.Input(3), n.Input(5), n.Input(6), n.Input(7), n.Out[0], n.output(1), n.output(2)); err != nil {
		return err
	}
	bias, err := n.at(n.Input(3))
	if err != nil {
		return err
	}
	return n.attendHeads(f, bias, func(v *form.Projected) (any, error) {
		from, err := n.at(v.From)
		return from + driver.Ptr(v.First*width), err
	})
}

// attendHeads appends the attention of a form. from is where queries, keys or values of it lie.
func (n *Node) attendHeads(f *form.MultiHead, bias driver.Ptr, from func(v *form.Projected) (any, error)) error {
	x := n.In[0]
	at, err := n.addresses(f.Mask, f.Added)
	if err != nil {
		return err
	}
	p := newPlacement()
	p.bias = bias
	a := &attended{numbers: driver.Ptr(0), masks: masks{mask: at[0], added: at[1]}}
	s := newAttending(f.Heads, 1, f.Q.Fresh, f.Keys(), f.Q.Size, f.V.Size)
	s.y = stepsOf(form.PositionsFirst(f.Heads, f.Q.Fresh, f.V.Size))
	s.past, s.scale, s.filters, s.filter = int32(f.K.Before), f.Scale, 1, f.Filter
	if f.Causal {
		s.causal = lastSeesAll
	}
	if f.Added != nil {
		s.addedSteps = addedOf(f.Added)
	}
	switch m := f.Mask; {
	case m == nil:
	case len(m.Shape) > 1:
		s.mask, s.maskSteps = maskMarked, [3]int64{int64(f.MaskSteps[0]), 0, int64(f.MaskSteps[1])}
		a.masks.mask += driver.Ptr(4 * f.MaskFirst)
	case m.Len() == f.Batch:
		s.mask = maskLengths
	default:
		s.mask, s.maskSteps[0] = maskSpans, int64(f.Batch)
	}
	var all []*form.Tensor
	for _, v := range []struct {
		from  *form.Projected
		at    *any
		steps *headSteps
	}{{&f.Q, &a.q, &s.q}, {&f.K, &a.k, &s.k}, {&f.V, &a.v, &s.v}} {
		from, err := from(v.from)
		if err != nil {
			return err
		}
		t := v.from.From
		if *v.at, *v.steps = from, stepsOf(v.from.In); !v.from.Copied() {
			p.pass()
		} else if t, err = n.project(p, v.from, f, from, v.at, v.steps); err != nil {
			return err
		}
		all = append(all, t)
	}
	if err := p.launch(n); err != nil {
		return err
	}
	return n.attend(s, f.Batch, cType[x.Type], indexOf(all...), a, faults{})
}

// project places queries, keys or values that lie apart from the input.
func (n *Node) project(p *placement, v *form.Projected, f *form.MultiHead, from any, at *any, steps *headSteps) (t *form.Tensor, err error) {
	room := v.Before + v.Fresh
	if *at, t, err = n.wanted(v.Out, f.Batch, f.Heads, room, v.Size); err != nil {
		return t, err
	}
	width := n.In[0].Bytes() / max(1, n.In[0].Len())
	if to, is := (*at).(driver.Ptr); is {
		*at = to + driver.Ptr(v.OutFirst*width)
	}
	part := placed{in: *steps, out: stepsOf(form.HeadsFirst(f.Heads, room, v.Size)), before: int32(v.Before), size: int32(v.Size), bias: -1}
	if v.Bias != nil {
		part.bias = int32(v.BiasFirst)
	}
	*steps = part.out
	if err = p.add(from, *at, f.Batch, f.Heads, v.Fresh, part); err != nil || v.Before == 0 {
		return t, err
	}
	past, err := n.at(v.Past)
	if err != nil {
		return t, err
	}
	past += driver.Ptr(v.PastFirst * width)
	return t, n.carry(*at, past, driver.Ptr(0), f.Batch, f.Heads, v.Size, carried{queries: int32(v.Fresh), before: int32(v.Before), past: int32(v.Before), room: int32(room)})
}
