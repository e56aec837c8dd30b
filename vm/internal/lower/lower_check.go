package lower

import (
	"fmt"
	"slices"
	"sort"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Checks says when sessions check their lowering.
type Checks int

// When lowerings are checked.
const (
	ChecksSmall  Checks = iota // after what changed a graph of few nodes, and if asked
	ChecksAlways               // after each rewriter
	ChecksNever
)

// checked is a variable for tests.
var checked Checks

// checksAfter reports whether the lowering is to be checked after a rewriter.
func (l *lowering) checksAfter() bool {
	switch {
	case checked == ChecksNever:
		return false
	case checked == ChecksAlways, l.s.Options.CheckLowering:
		return true
	}
	return l.f.changed && len(l.order) <= mostChecked
}

// mostChecked is the largest number of nodes of a frame that is checked without being asked. A
// check takes some 0.5 us for each node and its tensors, 13 % of the preparation of a session of
// 24,070 nodes that have little to do.
const mostChecked = 2048

// check checks what holds between any two rewriters: each node is in exactly one task, what a
// task reads has been written by then, in the layout in which it is read, and nothing has been
// written over it since.
func (l *lowering) check() error {
	f := l.f
	for _, st := range f.Steps {
		if err := st.checkCovered(); err != nil {
			return err
		}
	}
	c := &contents{of: make(map[*values.Tensor]held, len(f.Tensors))}
	for id, t := range f.Tensors {
		if g := f.Graph.Tensors[id]; t.Placed() && (g.Maker < 0 || g.Capture) {
			c.write(bytesAt(t, before)) // views of one tensor share its bytes
		}
	}
	for id, t := range f.Tensors {
		if g := f.Graph.Tensors[id]; t.Placed() && (g.Maker < 0 || g.Capture) {
			c.note(placeOf(t))
		}
	}
	for i, id := range l.order {
		st := f.Steps[id]
		if st.Elsewhere() || st.Once() {
			continue
		}
		if st.Views() { // a kernel may write what it views later, and the view with it
			if c.check(f, l.order, placeOf(st.In[0])) == nil && st.Out[0].Placed() {
				c.note(placeOf(st.Out[0]))
			}
			continue
		}
		var reads, writes []Place
		if t := st.Task(); t != nil {
			reads, writes = t.Reads, t.Writes
		} else {
			c.reads, c.writes = appendPlaced(c.reads[:0], st.In), appendPlaced(c.writes[:0], st.Out)
			reads, writes = c.reads, c.writes
		}
		for _, p := range reads {
			if err := c.check(f, l.order, p); err != nil {
				return st.Wrap(fmt.Errorf("step %d: %w", i, err))
			}
		}
		for _, work := range []spot{l.a.work[id], l.a.scratch[id]} {
			if work.bytes > 0 {
				at := uintptr(work.at)
				c.write(wrote{at, at + uintptr(work.bytes), i, at})
			}
		}
		for k, p := range writes {
			if p.Of.Placed() {
				c.make(st, k, p, i)
			}
		}
	}
	return nil
}

// checkCovered checks that a step's node is in one task.
func (st *Step) checkCovered() error {
	wrong := func(format string, args ...any) error { return st.Wrap(fmt.Errorf(format, args...)) }
	t := st.task
	switch {
	case t == nil:
		return nil
	case t.At.task == nil:
		return wrong("its task is that of node %q, which has none", t.At.Node().Name)
	case t.At.task != t:
		return wrong("its task is that of node %q, whose task is another", t.At.Node().Name)
	case !slices.Contains(t.Covers, st):
		return wrong("its task is that of node %q, which does not cover it", t.At.Node().Name)
	case t.At != st:
		return nil
	}
	for i, c := range t.Covers {
		if c.task != t || slices.Contains(t.Covers[:i], c) {
			return wrong("its task covers node %q twice, or one of another task", c.Node().Name)
		}
	}
	return nil
}

// accesses returns what the kernel at a step reads and writes in the places of the plan.
func (st *Step) accesses() (reads, writes []Place) {
	if t := st.Task(); t != nil {
		return t.Reads, t.Writes
	}
	return placed(st.In), placed(st.Out)
}

// wrote is bytes [from, to). They are those that a step wrote from address src on: at from itself,
// but for copies.
type wrote struct {
	from, to uintptr
	step     int
	src      uintptr
}

// The steps of bytes that are there before the first one, and of constants.
const (
	before     = -1
	ofConstant = -2
)

// part is the part of some bytes in [from, to), moved to an address.
func (w wrote) part(from, to, at uintptr) wrote {
	from, to = max(from, w.from), min(to, w.to)
	return wrote{at, at + to - from, w.step, w.src + from - w.from}
}

// continues reports whether some bytes follow others, of the same step.
func (w wrote) continues(before wrote) bool {
	return w.step == before.step && w.from == before.to && w.src-before.src == w.from-before.from
}

func bytesAt(t *values.Tensor, step int) wrote {
	return wrote{uintptr(t.At), uintptr(t.At) + uintptr(placeOf(t).bytes()), step, uintptr(t.At)}
}

// contents says which step wrote which bytes of the memory, and which bytes a tensor had when it
// was made.
type contents struct {
	list []wrote // by address, without overlaps
	of   map[*values.Tensor]held

	reads, writes []Place // of the step that is looked at
}

// held is the bytes of a tensor and how its task wrote them.
type held struct {
	made []wrote
	as   Place
}

// overlapping returns the range of the list that meets some bytes.
func (c *contents) overlapping(e wrote) (i, k int) {
	i = sort.Search(len(c.list), func(i int) bool { return c.list[i].to > e.from })
	for k = i; k < len(c.list) && c.list[k].from < e.to; k++ {
	}
	return i, k
}

// read returns who wrote some bytes, in one piece where that is one step.
func (c *contents) read(e wrote) []wrote {
	i, k := c.overlapping(e)
	return parts(c.list[i:k], e.from, e.to, e.from)
}

// parts returns the bytes [from, to) of a list, moved to an address.
func parts(list []wrote, from, to, at uintptr) (some []wrote) {
	for _, x := range list {
		if x.to <= from || x.from >= to {
			continue
		}
		p := x.part(from, to, at+max(x.from, from)-from)
		if n := len(some); n > 0 && p.continues(some[n-1]) {
			some[n-1].to = p.to
			continue
		}
		some = append(some, p)
	}
	return some
}

// write notes that a step wrote some bytes.
func (c *contents) write(e wrote) {
	i, k := c.overlapping(e)
	rest := []wrote{e}
	if i < k {
		if first := c.list[i]; first.from < e.from {
			rest = slices.Insert(rest, 0, first.part(first.from, e.from, first.from))
		}
		if last := c.list[k-1]; last.to > e.to {
			rest = append(rest, last.part(e.to, last.to, e.to))
		}
	}
	c.list = slices.Replace(c.list, i, k, rest...)
}

// note notes that a tensor has the bytes that are there.
func (c *contents) note(p Place) { c.of[p.Of] = held{c.read(bytesAt(p.Of, 0)), p} }

// make notes that a step makes a tensor. What it copies of its inputs stays the same bytes: two
// copies of them may share a place.
func (c *contents) make(st *Step, k int, p Place, step int) {
	t := p.Of
	c.write(bytesAt(t, step))
	for _, r := range st.Node().Semantics.Ranges {
		in := st.In[r.In]
		if st.Task() != nil || r.Out != k || in == nil {
			continue
		}
		made := c.of[in].made
		if in.Const {
			made = []wrote{bytesAt(in, ofConstant)}
		}
		from, at := uintptr(in.At)+uintptr(r.From), uintptr(t.At)+uintptr(r.At)
		for _, e := range parts(made, from, from+uintptr(r.Bytes), at) {
			c.write(e)
		}
	}
	c.note(p)
}

// check checks that a tensor has its bytes, in the layout in which they are read.
func (c *contents) check(f *Frame, order []graph.NodeID, p Place) error {
	t := p.Of
	if !t.Placed() || t.Len() == 0 {
		return nil
	}
	was, is := c.of[t]
	if !is {
		return fmt.Errorf("it reads tensor %q, which no step has written", t.Name)
	}
	if p != was.as {
		return fmt.Errorf("it reads %v, which is written as %v", p, was.as)
	}
	now := c.read(bytesAt(t, 0))
	if slices.Equal(now, was.made) {
		return nil
	}
	for _, e := range now {
		if !slices.Contains(was.made, e) && e.step >= 0 {
			return fmt.Errorf("it reads tensor %q, over which step %d has written (node %q)", t.Name, e.step, f.Graph.Nodes[order[e.step]].Name)
		}
	}
	return fmt.Errorf("it reads tensor %q, over which another step has written", t.Name)
}
