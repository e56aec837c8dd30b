package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// What is computed from and to bytes stands between a QuantizeLinear and a DequantizeLinear that
// copy bytes. The bytes that one such node makes and another reads are in up to three places:
//
//	Conv -> y -> QuantizeLinear -> y.q -> DequantizeLinear -> x -> Conv
//
// Two of them need no bytes if one stays free from the first node to the last: the first one writes
// there, the others read there, and nothing is copied. Places of reals are four times as long as
// their bytes and no longer needed once others serve, so that one of the three mostly is free.

// omitCopies finds the copies that the places of the plan make needless.
func (l *lowering) omitCopies() error {
	c := &byteCopies{chain: &chain{f: l.f, order: l.order, place: placesOf(l.order)}, uses: map[*values.Tensor]use{}, copies: map[graph.NodeID]*Step{}}
	var tasks []*Task
	for t := range l.f.tasks("qdq") {
		if tasks = append(tasks, t); t.joined == nil {
			c.copies[t.At.ID] = t.At
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	slices.SortFunc(tasks, func(a, b *Task) int { return c.place[a.At.ID] - c.place[b.At.ID] })
	c.list(l)
	for range 2 { // what was omitted may have made room for others
		for _, t := range tasks {
			if t.joined != nil {
				c.omit(t, c.copiesOf(t))
			}
		}
	}
	for _, t := range tasks {
		switch _, dequantizes := ops.Converts(t.At.Node()); {
		case t.joined != nil:
			c.omit(t, nil)
		case dequantizes && c.copies[t.At.ID] != nil:
			c.omit(nil, []*Step{t.At})
		}
	}
	return nil
}

// byteCopies is a frame whose copies of bytes are left out.
type byteCopies struct {
	*chain
	copies map[graph.NodeID]*Step // those that are not left out
	uses   map[*values.Tensor]use // what has which bytes of the memory, and when
	work   []use                  // what nodes take beside their tensors
}

// use is bytes [at, end) that are in use at steps [from, to].
type use struct {
	from, to int
	at, end  uintptr
}

// meets reports whether two uses have a byte and a step in common.
func (u use) meets(v use) bool {
	return u.from <= v.to && v.from <= u.to && u.at < v.end && v.at < u.end
}

// list lists the uses of a frame before copies are left out.
func (c *byteCopies) list(l *lowering) {
	for id, t := range c.f.Tensors {
		if t == nil || t.Room == 0 || t.Const {
			continue
		}
		u := use{c.made(graph.TensorID(id)), c.last(graph.TensorID(id), false), uintptr(t.At), uintptr(t.At) + uintptr(t.Room)}
		if p := placeOf(t); p.Bytes {
			u.end = u.at + uintptr(p.bytes())
		}
		if u.to = max(u.to, u.from); c.f.Graph.Tensors[id].Output {
			u.to = len(c.order)
		}
		c.uses[t] = u
	}
	for t := range c.f.tasks() {
		at := c.place[t.At.ID]
		for _, x := range slices.Concat(t.Reads, t.Writes) {
			if u, is := c.uses[x.Of]; is {
				u.from, u.to = min(u.from, at), max(u.to, at)
				c.uses[x.Of] = u
			}
		}
	}
	for id, s := range l.a.work {
		if s.bytes > 0 {
			c.work = append(c.work, use{c.place[id], c.place[id], uintptr(s.at), uintptr(s.at) + uintptr(s.bytes)})
		}
	}
}

// copiesOf returns the DequantizeLinear that copy what a task makes.
func (c *byteCopies) copiesOf(t *Task) (list []*Step) {
	for _, r := range c.f.Graph.Tensors[t.joined.To.Step.Node().Outputs[0]].Readers {
		if d := c.copies[r]; d != nil {
			list = append(list, d)
		}
	}
	return list
}

// omit leaves out the copies of some bytes if they can be in one place: that of the QuantizeLinear
// behind a task, or behind none, and those of some DequantizeLinear that read its result.
func (c *byteCopies) omit(of *Task, copies []*Step) {
	var bytes *values.Tensor
	var id graph.TensorID
	group := map[*values.Tensor]bool{}
	switch {
	case of != nil:
		to := c.copies[of.joined.To.Step.ID]
		if to == nil {
			return
		}
		id, bytes = to.Node().Outputs[0], to.Out[0]
		group[of.Writes[0].Of] = true
	case len(copies) > 0:
		id, bytes = copies[0].Node().Inputs[0], copies[0].In[0]
	}
	made := c.f.Graph.Tensors[id]
	if bytes == nil || made.Maker < 0 || made.Output && of != nil || bytes.Room == 0 || c.swapped(id) {
		return
	}
	group[bytes] = true
	at := c.uses[bytes]
	if of != nil {
		at.from = c.place[of.At.ID]
	}
	whole := of != nil && len(copies) == len(made.Readers) // nobody else reads them
	if whole {
		at.to = at.from
	}
	for _, d := range copies {
		group[d.Out[0]] = true
		at.to = max(at.to, c.last(d.Node().Outputs[0], false))
	}
	places := []*values.Tensor{bytes}
	if whole {
		places = append(places, of.Writes[0].Of)
		for _, d := range copies {
			places = append(places, d.Out[0])
		}
	}
	for _, p := range places {
		if p.Room < int64(bytes.Bytes()) {
			continue
		}
		at.at, at.end = uintptr(p.At), uintptr(p.At)+uintptr(bytes.Bytes())
		if c.free(at, group) {
			c.leaveOut(of, copies, p, group, at)
			return
		}
	}
}

// free reports whether nothing but a group of tensors meets a use.
func (c *byteCopies) free(u use, group map[*values.Tensor]bool) bool {
	for t, v := range c.uses {
		if !group[t] && u.meets(v) {
			return false
		}
	}
	return !slices.ContainsFunc(c.work, u.meets)
}

// leaveOut lets the tasks around some copies write and read a place.
func (c *byteCopies) leaveOut(of *Task, copies []*Step, place *values.Tensor, group map[*values.Tensor]bool, at use) {
	c.f.changed = true
	if of != nil {
		of.At.extends(of.joined.To.Step)
		of.Writes = []Place{placeOf(place)}
		delete(c.copies, of.joined.To.Step.ID)
	}
	for _, d := range copies {
		delete(c.copies, d.ID)
		for i, r := range c.f.Graph.Tensors[d.Node().Outputs[0]].Readers {
			by := c.f.Steps[r].Task()
			by.Reads = slices.Clone(by.Reads)
			for k, p := range by.Reads {
				if p.Of == d.Out[0] {
					by.Reads[k] = placeOf(place)
				}
			}
			if i == 0 {
				by.Covers = append(by.Covers, d)
				d.task = by
			}
		}
	}
	for t := range group {
		delete(c.uses, t)
		t.Inside = true
	}
	place.Inside = false
	c.uses[place] = at
}
