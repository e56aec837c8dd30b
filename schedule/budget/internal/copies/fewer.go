package copies

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// Fewer is a problem without some neighbouring copies: what the next copy reads of them, it reads of
// the copy before them, and what the copy before them reads of them, it reads of the next.
type Fewer struct {
	*schedule.Problem
	Nodes   []int32 // node of the smaller problem -> that of the whole one
	Tensors []int32
	copies  *Copies
	whole   *schedule.Problem
	from    int // the first copy that is left out
	out     int // how many are left out
	at      []int32
	nodes   places // of the whole problem
	tensors places
}

// Without leaves copies out of the problem that they were found in, from one on. It returns nil if the copies on
// both sides do not fit together.
func (c *Copies) Without(p *schedule.Problem, from, out int) *Fewer {
	f := &Fewer{Problem: &schedule.Problem{}, copies: c, whole: p, from: from, out: out}
	f.nodes, f.tensors = newPlaces(c.Role, c.Copy), newPlaces(c.TensorRole, c.TensorCopy)
	f.at = f.keep()
	at := make([]int32, len(p.Tensors)) // tensor -> that of the smaller problem
	for t := range p.Tensors {
		at[t] = -1
		if f.sideOf(int32(t)) == leftOut {
			continue
		}
		at[t] = int32(len(f.Tensors))
		f.Tensors = append(f.Tensors, int32(t))
		x := p.Tensors[t]
		x.Consumers, x.Reuses = nil, slices.Clone(x.Reuses)
		if x.Producer >= 0 {
			x.Producer = f.at[x.Producer]
		}
		f.Problem.Tensors = append(f.Problem.Tensors, x)
	}
	// instead returns what stands for a tensor on some side.
	instead := func(t int32, s side) (int32, bool) {
		if at[t] < 0 {
			t = f.moved(t, s)
		}
		if t < 0 || at[t] < 0 {
			return -1, false
		}
		return at[t], true
	}
	for t := range p.Tensors {
		for _, v := range p.Tensors[t].Consumers {
			if f.at[v] < 0 {
				continue
			}
			s := f.side(c.Role[v], c.Copy[v])
			to, ok := instead(int32(t), s)
			if ok {
				f.Problem.Tensors[to].Consumers = append(f.Problem.Tensors[to].Consumers, f.at[v])
			} else if s != outside {
				return nil
			}
		}
	}
	for v := range f.Problem.Nodes {
		x := &f.Problem.Nodes[v]
		s := f.side(c.Role[f.Nodes[v]], c.Copy[f.Nodes[v]])
		for i, t := range x.Writes {
			to, ok := instead(t, s)
			if !ok {
				return nil
			}
			x.Writes[i] = to
		}
	}
	for i := range f.Problem.Tensors {
		x := &f.Problem.Tensors[i]
		kept := x.Reuses[:0]
		for _, t := range x.Reuses {
			if to, ok := instead(t, f.sideOf(f.Tensors[i])); ok {
				kept = append(kept, to)
			}
		}
		x.Reuses = kept
	}
	for i := range f.Problem.Tensors {
		x := &f.Problem.Tensors[i]
		slices.Sort(x.Consumers)
		x.Consumers = slices.Compact(x.Consumers)
	}
	if f.Validate() != nil {
		return nil
	}
	return f
}

// keep lists the nodes that stay. It returns the place of each node in the smaller problem, or -1.
func (f *Fewer) keep() (at []int32) {
	at = make([]int32, len(f.whole.Nodes))
	for v := range f.whole.Nodes {
		at[v] = -1
		if f.side(f.copies.Role[v], f.copies.Copy[v]) == leftOut {
			continue
		}
		at[v] = int32(len(f.Nodes))
		f.Nodes = append(f.Nodes, int32(v))
		x := f.whole.Nodes[v]
		x.Args, x.Writes = nil, slices.Clone(x.Writes)
		f.Problem.Nodes = append(f.Problem.Nodes, x)
	}
	return at
}

type side int8

const (
	outside side = iota // in no copy
	low
	leftOut
	high
)

func (f *Fewer) side(role, copy int32) side {
	switch {
	case role < 0:
		return outside
	case int(copy) < f.from:
		return low
	case int(copy) < f.from+f.out:
		return leftOut
	}
	return high
}

// sideOf returns that of a tensor: that of the node that makes it, or its own.
func (f *Fewer) sideOf(t int32) side {
	if v := f.whole.Tensors[t].Producer; v >= 0 {
		return f.side(f.copies.Role[v], f.copies.Copy[v])
	}
	return f.side(f.copies.TensorRole[t], f.copies.TensorCopy[t])
}

// moved returns the tensor that stands for one that is left out, on some side: that of the copy on the
// other side; -1 if there is none.
func (f *Fewer) moved(t int32, s side) int32 {
	role, copy := f.copies.TensorRole[t], f.copies.TensorCopy[t]
	switch {
	case role < 0 || s == outside:
		return -1
	case s == high:
		return f.tensors.at(role, copy-int32(f.out))
	}
	return f.tensors.at(role, copy+int32(f.out))
}

// places says which vertex has a role in a copy.
type places struct {
	first []int32   // role -> its first copy
	list  [][]int32 // role -> from that on, the vertices or -1
}

func newPlaces(role, copies []int32) (p places) {
	for v, r := range role {
		for int(r) >= len(p.list) {
			p.first, p.list = append(p.first, 0), append(p.list, nil)
		}
		if r >= 0 && (p.list[r] == nil || copies[v] < p.first[r]) {
			p.first[r], p.list[r] = copies[v], []int32{}
		}
	}
	for v, r := range role {
		if r < 0 {
			continue
		}
		k := int(copies[v] - p.first[r])
		for k >= len(p.list[r]) {
			p.list[r] = append(p.list[r], -1)
		}
		p.list[r][k] = int32(v)
	}
	return p
}

func (p *places) at(role, copy int32) int32 {
	k := int(copy - p.first[role])
	if k < 0 || k >= len(p.list[role]) {
		return -1
	}
	return p.list[role][k]
}

// Order returns an order of the whole problem without the nodes that are left out. A node that would stand before
// what it reads, since it reads from another copy now, comes as soon as it can.
func (f *Fewer) Order(order []int32) (fewer []int32) {
	wait := make([]int32, len(f.Problem.Nodes)) // node -> how many of its inputs are not there yet
	makes := make([][]int32, len(wait))
	for t := range f.Problem.Tensors {
		x := &f.Problem.Tensors[t]
		if x.Producer < 0 {
			continue
		}
		makes[x.Producer] = append(makes[x.Producer], int32(t))
		for _, v := range x.Consumers {
			if v != x.Producer {
				wait[v]++
			}
		}
	}
	listed := make([]bool, len(wait)) // its turn has come
	var run func(v int32)
	run = func(v int32) {
		fewer = append(fewer, v)
		for _, t := range makes[v] {
			for _, r := range f.Problem.Tensors[t].Consumers {
				if r == v {
					continue
				}
				if wait[r]--; wait[r] == 0 && listed[r] {
					run(r)
				}
			}
		}
	}
	for _, v := range order {
		if v = f.at[v]; v >= 0 {
			if listed[v] = true; wait[v] == 0 {
				run(v)
			}
		}
	}
	return fewer
}

// Stretched returns for each copy of the whole problem the copy of the smaller one that it is like: the first and
// the last are like themselves, those between are spread over those between.
func (f *Fewer) Stretched() []int32 {
	return f.spread(func(x, n, kept int) int { return x * kept / n })
}

// Repeated is [Fewer.Stretched], but those between are like the others in turn, again and again.
func (f *Fewer) Repeated() []int32 {
	return f.spread(func(x, n, kept int) int { return x % kept })
}

func (f *Fewer) spread(between func(x, n, kept int) int) (as []int32) {
	n := f.copies.Count
	kept := n - f.out
	for x := range n {
		switch x {
		case 0:
			as = append(as, 0)
		case n - 1:
			as = append(as, int32(kept-1))
		default:
			as = append(as, int32(1+between(x-1, n-2, kept-2)))
		}
	}
	return as
}

// Lift calls f for each pair of a node and a tensor of the whole problem that are to each other as two of the smaller
// one are, in the copies that are like the node's, or the tensor's if the node is in no copy.
func (f *Fewer) Lift(node, tensor int32, as []int32, put func(node, tensor int32)) {
	c := f.copies
	v, t := f.Nodes[node], f.Tensors[tensor]
	rv, rt := c.Role[v], c.TensorRole[t]
	kv, kt := f.place(c.Copy[v]), f.place(c.TensorCopy[t])
	if rv < 0 && rt < 0 {
		put(v, t)
		return
	}
	for x, like := range as {
		nv, nt := v, t
		switch {
		case rv >= 0:
			if like != kv {
				continue
			}
			nv = f.nodes.at(rv, int32(x))
			if rt >= 0 {
				nt = f.tensors.at(rt, int32(x)+kt-kv)
			}
		case like != kt:
			continue
		default:
			nt = f.tensors.at(rt, int32(x))
		}
		if nv >= 0 && nt >= 0 {
			put(nv, nt)
		}
	}
}

// place returns the number, in the smaller problem, of a copy that it keeps.
func (f *Fewer) place(copy int32) int32 {
	if int(copy) >= f.from+f.out {
		return copy - int32(f.out)
	}
	return copy
}
