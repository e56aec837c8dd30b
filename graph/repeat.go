package graph

import (
	"fmt"
	"slices"
	"strconv"
)

// RepeatOptions are the options of Repeat. Nodes and tensors are those of the
// graph before it.
type RepeatOptions struct {
	// Views: a view shares the storage of its base, so each instance of the base
	// has its own views. Otherwise views are nodes like any other.
	Views bool
	// Optional reports whether a node may leave out an output that nobody reads.
	// Nil: no output may be left out.
	Optional func(n *Node, out int) bool
	// Instead returns the tensor that repetitions of node n read instead of input
	// in, and whether there is one: for an input that the first run overwrites
	// and that the repeated outputs do not depend on. Nil: none.
	Instead func(n NodeID, in int) (TensorID, bool)
	// Swaps are tensors to swap out and in. For the k-th, the sequence contains
	// len(Nodes)+2k, which swaps it out, and len(Nodes)+2k+1, which swaps it in.
	// None may be a view or a graph output.
	Swaps []TensorID
	// Byproduct reports whether nobody may read output out of a repetition of
	// node n. Nil: all outputs may be read.
	Byproduct func(n NodeID, out int) bool
}

// Repetition describes the result of Repeat.
type Repetition struct {
	First []NodeID // of each node before: its first run
	Of    []NodeID // of each node now: the node that it repeats, or itself
}

// Repeat changes g into the graph whose nodes run in the given sequence, in which
// a node may occur more than once: it is then copied. If a tensor is made several
// times, each reader reads the newest instance, and a graph output is the last
// one. The k-th repetition of a node is named NODE/again<k> and makes
// TENSOR/again<k>; for a graph output, the last instance has the name, and the
// first is TENSOR/again0. Views are inserted before their readers if the newest
// instance of their base has none yet; a step that would only make existing views
// again is skipped. Outputs of a repetition that nobody reads are left out if
// that is allowed.
//
// If a tensor T is swapped, the node T/out (SwapOut) reads T and makes T/host;
// T/in (SwapIn) makes T/back from that, which is then the newest instance of T.
//
// Types, meanings, attributes and metadata of a repetition are those of the
// repeated node. Each node must occur in the sequence, after the makers of its
// inputs; otherwise g does not change and the error names the step. It takes O(E)
// time for the E inputs and outputs of all steps.
func (g *Graph) Repeat(steps []NodeID, opt RepeatOptions) (*Repetition, error) {
	r := newRepeater(g, opt)
	for i, n := range steps {
		if n < 0 || int(n) >= len(g.Nodes)+2*len(opt.Swaps) {
			return nil, fmt.Errorf("step %d: expected a node below %d, found %d", i, len(g.Nodes)+2*len(opt.Swaps), n)
		}
		if k := int(n) - len(g.Nodes); k >= 0 {
			if err := r.swap(k/2, k%2 == 1); err != nil {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
			continue
		}
		if r.runs[n] > 0 && r.current(n) {
			continue
		}
		if err := r.run(n); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	for n, runs := range r.runs {
		if runs == 0 {
			return nil, fmt.Errorf("%s does not run: expected every node at least once", g.Label(NodeID(n)))
		}
	}
	r.commit()
	return &Repetition{First: r.first, Of: r.of()}, nil
}

// repeater is the state of one Repeat. Old nodes and tensors are those of g
// before; an old tensor keeps its index.
type repeater struct {
	g     *Graph
	opt   RepeatOptions
	nodes []stepNode
	first []NodeID // by old node
	runs  []int    // by old node: number of runs so far

	tensors []instance
	now     []TensorID // by old tensor: the newest instance, None if there is none yet
	views   []view     // by old tensor
	hosts   []TensorID // by swap: the copy on the host, None before the swap
}

// stepNode is a step: a run of an old node, or a swap.
type stepNode struct {
	node *Node
	old  NodeID // None for a swap
	run  int    // 0 is the first
}

// instance is a tensor made by one run of its maker.
type instance struct {
	tensor *Tensor
	old    TensorID
	run    int
	root   TensorID // of a view: the instance of its root
	suffix string   // of a tensor made by a swap: added to the old name
}

// view says of which tensor an old tensor is a view.
type view struct {
	of   TensorID // its base; None if it is not a view
	root TensorID // the root of the chain of views; itself if it is not a view
}

func newRepeater(g *Graph, opt RepeatOptions) *repeater {
	r := &repeater{
		g: g, opt: opt, first: make([]NodeID, len(g.Nodes)), runs: make([]int, len(g.Nodes)),
		now: make([]TensorID, len(g.Tensors)), views: make([]view, len(g.Tensors)),
	}
	for i, t := range g.Tensors {
		id := TensorID(i)
		r.tensors = append(r.tensors, instance{tensor: t, old: id, root: None})
		r.now[i], r.views[i] = None, view{None, id}
		if t.Maker < 0 {
			r.now[i] = id
		}
	}
	for range opt.Swaps {
		r.hosts = append(r.hosts, None)
	}
	if opt.Views {
		r.findViews()
	}
	return r
}

// findViews finds the base and the root of each view. A view comes after its
// base.
func (r *repeater) findViews() {
	order, err := r.g.Topological()
	if err != nil {
		return // no sequence is valid
	}
	for _, id := range order {
		n := r.g.Nodes[id]
		for _, a := range n.Semantics.Views {
			if a.Out >= len(n.Outputs) || a.In >= len(n.Inputs) {
				continue
			}
			out, in := n.Outputs[a.Out], n.Inputs[a.In]
			if out >= 0 && in >= 0 && r.views[out].of == None {
				r.views[out] = view{in, r.views[in].root}
			}
		}
	}
}

// current reports whether all outputs of an old node are views that already exist
// for the newest instances.
func (r *repeater) current(n NodeID) bool {
	for _, t := range r.g.Nodes[n].Outputs {
		if t >= 0 && (r.views[t].of == None || !r.fresh(t)) {
			return false
		}
	}
	return true
}

// fresh reports whether the newest instance of a view is a view of the newest
// instance of its root.
func (r *repeater) fresh(t TensorID) bool {
	return r.now[t] != None && r.tensors[r.now[t]].root == r.now[r.views[t].root]
}

// newest returns the newest instance of an old tensor, making views on the way if
// necessary.
func (r *repeater) newest(t TensorID) (TensorID, error) {
	maker := r.g.Tensors[t].Maker
	if r.now[t] == None {
		return None, fmt.Errorf("%q is read before %s makes it", Short(r.g.Tensors[t].Name), r.g.Label(maker))
	}
	if r.views[t].of != None && !r.fresh(t) {
		if err := r.run(maker); err != nil {
			return None, err
		}
	}
	return r.now[t], nil
}

// run appends a run of an old node.
func (r *repeater) run(id NodeID) error {
	n := *r.g.Nodes[id]
	run := r.runs[id]
	n.Inputs, n.Outputs, n.Props = slices.Clone(n.Inputs), slices.Clone(n.Outputs), slices.Clone(n.Props)
	for k, t := range n.Inputs {
		if t < 0 {
			continue
		}
		if run > 0 && r.opt.Instead != nil {
			if other, is := r.opt.Instead(id, k); is {
				n.Inputs[k] = other
				continue
			}
		}
		var err error
		if n.Inputs[k], err = r.newest(t); err != nil {
			return fmt.Errorf("%s: %w", r.g.Label(id), err)
		}
	}
	if err := r.bodies(&n); err != nil {
		return fmt.Errorf("%s: %w", r.g.Label(id), err)
	}
	if run == 0 {
		r.first[id] = NodeID(len(r.nodes))
	}
	for k, t := range n.Outputs {
		if t >= 0 {
			n.Outputs[k] = r.make(id, k, t)
		}
	}
	r.runs[id]++
	r.nodes = append(r.nodes, stepNode{&n, id, run})
	return nil
}

// make makes the next instance of an old tensor; the first is the tensor itself.
func (r *repeater) make(n NodeID, out int, t TensorID) TensorID {
	id, run := t, r.runs[n]
	if run > 0 {
		id = TensorID(len(r.tensors))
		again := *r.g.Tensors[t]
		r.tensors = append(r.tensors, instance{tensor: &again, old: t, run: run, root: None})
		if r.opt.Byproduct != nil && r.opt.Byproduct(n, out) {
			return id
		}
	}
	r.now[t] = id
	if v := r.views[t]; v.of != None {
		r.tensors[id].root = r.now[v.root]
	}
	return id
}

// swap appends a node that swaps a tensor out or in.
func (r *repeater) swap(k int, back bool) error {
	t := r.opt.Swaps[k]
	old := r.g.Tensors[t]
	switch {
	case r.now[t] == None:
		return fmt.Errorf("%q leaves before %s makes it", Short(old.Name), r.g.Label(old.Maker))
	case old.Output || r.views[t].of != None:
		return fmt.Errorf("%q cannot leave: expected a tensor that is no view and no graph output", Short(old.Name))
	case back != (r.hosts[k] != None):
		return fmt.Errorf("%q leaves twice, or returns before it has left", Short(old.Name))
	}
	from, op, suffix := r.now[t], SwapOut, "/host"
	if back {
		from, op, suffix = r.hosts[k], SwapIn, "/back"
	}
	made := *r.tensors[from].tensor
	made.Capture, made.Data, made.Declared = false, nil, nil
	id := TensorID(len(r.tensors))
	r.tensors = append(r.tensors, instance{tensor: &made, old: t, root: None, suffix: suffix})
	if back {
		r.now[t] = id
	} else {
		r.hosts[k] = id
	}
	r.nodes = append(r.nodes, stepNode{old: None, node: &Node{
		Op: op, Domain: SwapDomain, Inputs: []TensorID{from}, Outputs: []TensorID{id}, Semantics: Semantics{Known: true},
	}})
	return nil
}

// bodies gives a node copies of its bodies that read the newest instances.
func (r *repeater) bodies(n *Node) error {
	if len(n.Bodies()) == 0 {
		return nil
	}
	n.Attrs, n.Captures = slices.Clone(n.Attrs), nil
	for k, a := range n.Attrs {
		n.Attrs[k] = a.Clone()
		for _, b := range n.Attrs[k].All() {
			for i, c := range b.Captures {
				outer, err := r.newest(c.Outer)
				if err != nil {
					return err
				}
				b.Captures[i].Outer = outer
			}
		}
	}
	n.SetCaptures()
	return nil
}

// of returns for each new node the node that it repeats.
func (r *repeater) of() []NodeID {
	list := make([]NodeID, len(r.nodes))
	for i, s := range r.nodes {
		if list[i] = NodeID(i); s.old != None {
			list[i] = r.first[s.old]
		}
	}
	return list
}

// commit replaces the content of g by the result.
func (r *repeater) commit() {
	g := r.g
	r.rename()
	nodes := make([]*Node, len(r.nodes))
	for i, s := range r.nodes {
		nodes[i] = s.node
	}
	g.Nodes, g.Tensors = nodes, g.Tensors[:0:0]
	for _, t := range r.tensors {
		g.Tensors = append(g.Tensors, t.tensor)
	}
	for i, t := range g.Outputs {
		g.Outputs[i] = r.now[t]
	}
	g.Link()
	g.NameCaptures()
	r.leaveOut()
}

// rename gives repetitions and their outputs names.
func (r *repeater) rename() {
	taken := names{}
	taken.note(r.g)
	again := func(name string, run int) string { return taken.unique(name + "/again" + strconv.Itoa(run)) }
	olds := make([]string, len(r.g.Tensors))
	for i, t := range r.g.Tensors {
		olds[i] = t.Name
	}
	for _, s := range r.nodes {
		switch {
		case s.old == None:
			name := "/out"
			if s.node.Op == SwapIn {
				name = "/in"
			}
			s.node.Name = taken.unique(olds[r.tensors[s.node.Outputs[0]].old] + name)
		case s.run > 0:
			s.node.Name = again(callName(r.g, r.g.Nodes[s.old]), s.run)
		}
	}
	for id, t := range r.tensors {
		switch last := r.now[t.old]; {
		case t.suffix != "":
			t.tensor.Name = taken.unique(olds[t.old] + t.suffix)
		case !r.g.Tensors[t.old].Output || last == t.old:
			if t.run > 0 {
				t.tensor.Name = again(olds[t.old], t.run)
			}
		case TensorID(id) == last:
			t.tensor.Name = olds[t.old]
		default:
			t.tensor.Name = again(olds[t.old], t.run)
		}
	}
}

// leaveOut removes outputs of repetitions that nobody reads.
func (r *repeater) leaveOut() {
	if r.opt.Optional == nil {
		return
	}
	g, gone := r.g, map[TensorID]bool{}
	for i, s := range r.nodes {
		n := g.Nodes[i]
		for k := len(n.Outputs) - 1; k >= 0 && s.run > 0; k-- {
			if t := n.Outputs[k]; t >= 0 && len(g.Tensors[t].Readers) == 0 && !g.Tensors[t].Output && r.opt.Optional(n, k) {
				gone[t], n.Outputs[k] = true, None
			}
			if n.Outputs[k] == None && k == len(n.Outputs)-1 {
				n.Outputs = n.Outputs[:k]
			}
		}
	}
	if len(gone) > 0 {
		g.DropTensors(func(t TensorID) bool { return gone[t] })
	}
}
