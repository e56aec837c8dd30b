package bare

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/replay"
)

// Certificate says what proves a bound: Kind is "cut" (of one node), "first-of-set",
// "last-of-set", or "search".
type Certificate struct {
	Kind  string
	Nodes []int32 // none for a search
	Bytes int64
}

// Order checks an order of the nodes and the certificates of its bound, and returns the peak
// and the greatest bound that it has proven itself. It repeats a search only if search is
// true, by a method of its own; otherwise, and where that takes too much work, a certificate of
// that kind proves nothing. The error names the first fault, or is the context's.
func (p *Problem) Order(ctx context.Context, order []int32, certificates []Certificate, search bool) (v Verdict, err error) {
	if p, err = p.joined(); err != nil {
		return v, err
	}
	step, err := p.positions(order)
	if err != nil {
		return v, err
	}
	c, err := p.ordered(order, step)
	if err != nil {
		return v, err
	}
	defer ends(&err)
	if v, err = measured(ctx, c, len(order)); err != nil {
		return v, err
	}
	bounds := core.NewBounds(c, core.MaxWork)
	for i, x := range certificates {
		proven, err := prove(c, bounds, step, &x, search)
		if err != nil {
			return v, fmt.Errorf("certificate %d: %w", i, err)
		}
		if proven {
			v.Bound = max(v.Bound, x.Bytes)
		}
	}
	if v.Bound > v.Bytes {
		return v, fmt.Errorf("the certificates prove %d bytes, which the order does not need: %d", v.Bound, v.Bytes)
	}
	return v, nil
}

// measured returns the peak of n steps in the order of c, and what the most demanding one needs
// in any order. It panics where ctx has ended: see ends.
func measured(ctx context.Context, c *core.Problem, n int) (v Verdict, err error) {
	c.Poll = poller(ctx)
	_, v.Bytes = c.Simulate(c.Identity())
	if c.Sums.Overflow {
		return v, fmt.Errorf("the sizes together exceed an int64")
	}
	for k := range n {
		c.Poll()
		v.Bound = max(v.Bound, c.AtNode(int32(k)))
	}
	if n == 0 {
		v.Bound = v.Bytes
	}
	return v, nil
}

// prove proves a certificate again; false: it is not known whether it holds.
func prove(c *core.Problem, bounds *core.Bounds, step []int, x *Certificate, search bool) (bool, error) {
	if x.Kind == "search" {
		if !search || bounds == nil {
			return false, nil
		}
		switch found := replay.Below(c, bounds, x.Bytes); found.Verdict {
		case replay.NoOrder:
			return true, nil
		case replay.AnOrder:
			return false, fmt.Errorf("an order has a peak below %d bytes", x.Bytes)
		}
		return false, nil
	}
	var set []int32
	named := make([]bool, len(step))
	for _, n := range x.Nodes {
		if n < 0 || int(n) >= len(step) {
			return false, fmt.Errorf("node %d: expected one below %d", n, len(step))
		}
		if named[n] {
			return false, fmt.Errorf("node %d: expected it once", n)
		}
		named[n] = true
		set = append(set, int32(step[n]))
	}
	if len(set) == 0 || x.Kind == "cut" && len(set) > 1 {
		return false, fmt.Errorf("kind %.20q of %d nodes: expected one of a cut, and one or more of a set", x.Kind, len(set))
	}
	if bounds == nil || bounds.Spent() {
		return false, nil
	}
	var a core.Answer
	switch x.Kind {
	case "cut":
		a = bounds.AtNode(set[0], x.Bytes)
	case "first-of-set":
		a = bounds.First(set, x.Bytes)
	case "last-of-set":
		a = bounds.LastOf(set, x.Bytes)
	default:
		return false, fmt.Errorf("kind %.20q: expected cut, first-of-set, last-of-set or search", x.Kind)
	}
	if !a.Unknown && x.Bytes > a.Bytes {
		return false, fmt.Errorf("it proves %d bytes, not %d", a.Bytes, x.Bytes)
	}
	return !a.Unknown, nil
}

// checkParts checks that the indices and sizes are possible.
func (p *Problem) checkParts() error {
	for n := range p.Nodes {
		for _, t := range p.Nodes[n].Writes {
			if !p.tensor(t) {
				return fmt.Errorf("node %d overwrites tensor %d: expected one below %d", n, t, len(p.Tensors))
			}
		}
		if p.Nodes[n].Workspace < 0 {
			return fmt.Errorf("node %d: workspace of %d bytes: expected 0 or more", n, p.Nodes[n].Workspace)
		}
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Bytes < 0 || t.Producer < -1 || int(t.Producer) >= len(p.Nodes) {
			return fmt.Errorf("tensor %d: %d bytes of node %d: expected 0 or more, of a node below %d", i, t.Bytes, t.Producer, len(p.Nodes))
		}
		for _, n := range t.Consumers {
			if n < 0 || int(n) >= len(p.Nodes) {
				return fmt.Errorf("tensor %d is read by node %d: expected one below %d", i, n, len(p.Nodes))
			}
		}
		for _, o := range t.Over {
			if !p.tensor(o) {
				return fmt.Errorf("tensor %d over tensor %d: expected one below %d", i, o, len(p.Tensors))
			}
		}
	}
	return nil
}

// positions returns the step of each node.
func (p *Problem) positions(order []int32) ([]int, error) {
	if len(order) != len(p.Nodes) {
		return nil, fmt.Errorf("order: expected %d nodes, found %d", len(p.Nodes), len(order))
	}
	step := make([]int, len(order))
	for i := range step {
		step[i] = -1
	}
	for i, n := range order {
		if n < 0 || int(n) >= len(step) || step[n] >= 0 {
			return nil, fmt.Errorf("order: step %d: node %d: expected one below %d that has not run", i, n, len(step))
		}
		step[n] = i
	}
	return step, nil
}

// readers returns the nodes that read a tensor, each once, without its producer.
func (t *Tensor) readers() []int32 {
	list := slices.DeleteFunc(slices.Clone(t.Consumers), func(n int32) bool { return n == t.Producer })
	slices.Sort(list)
	return slices.Compact(list)
}

// ordered returns the core's problem, in which node n runs at step n.
func (p *Problem) ordered(order []int32, step []int) (*core.Problem, error) {
	c := &core.Problem{
		Nodes: make([]core.Node, len(order)), Work: make([]int64, len(order)),
		Storages: make([]core.Storage, len(p.Tensors)), Inplace: true, Sums: &core.Sums{},
	}
	for i, n := range order {
		c.Work[i] = p.Nodes[n].Workspace
	}
	for i := range p.Tensors {
		t, id := &p.Tensors[i], int32(i)
		st := &c.Storages[i]
		*st = core.Storage{Bytes: t.Bytes, Maker: core.None, Output: t.Output, Resident: t.Resident}
		if t.Producer >= 0 {
			st.Maker = int32(step[t.Producer])
			c.Nodes[st.Maker].Writes = append(c.Nodes[st.Maker].Writes, id)
		}
		for _, n := range t.readers() {
			r := int32(step[n])
			if r < st.Maker {
				return nil, fmt.Errorf("order: node %d reads tensor %d at step %d: expected it behind node %d, at step %d", n, i, r, t.Producer, st.Maker)
			}
			st.Readers = append(st.Readers, r)
			c.Nodes[r].Reads = append(c.Nodes[r].Reads, id)
			if st.Maker >= 0 {
				c.Nodes[r].After = append(c.Nodes[r].After, st.Maker)
			}
		}
		slices.Sort(st.Readers)
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		for _, o := range t.Over {
			if t.Producer >= 0 && p.Tensors[o].Bytes == t.Bytes && slices.Contains(c.Storages[o].Readers, c.Storages[i].Maker) {
				n := &c.Nodes[c.Storages[i].Maker]
				n.Over = append(n.Over, core.Pair{Result: int32(i), Over: o})
			}
		}
	}
	return c, c.Check()
}

// ended is the panic with which the core's work ends when the context does.
type ended struct{ cause error }

func poller(ctx context.Context) func() {
	return func() {
		if ctx.Err() != nil {
			panic(ended{context.Cause(ctx)})
		}
	}
}

// ends, deferred, turns the end of the work into its cause.
func ends(err *error) {
	switch x := recover().(type) {
	case nil:
	case ended:
		*err = x.cause
	default:
		panic(x)
	}
}
