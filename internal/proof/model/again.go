package model

import "slices"

// Again is what it costs to run nodes again, to keep a limit.
type Again struct {
	Cost  []int64   // by node: of each run behind its first
	Once  []bool    // by node: it runs exactly once
	Over  [][]int32 // by tensor: what overwrites it, in turn, if all that else reads it, or its end, needs all of that done
	Limit int64     // bytes
}

// EncodeAgain returns the formula for the step at which a node v runs for the first time, in plans
// that run nodes again. Its objective is a cost.
//
// Lemma. Take any sequence of runs with a peak of at most the limit. In it each node runs, for the
// first time behind those that must run before it; a run reads what an earlier run has made, or what
// is there before the first step, with what overwrites it done; and what a run reads is held since
// it was made, an output to the end.
// Then all constraints hold if the variables say what is so at the first run of v, and the objective
// is at most the cost of all runs but first ones. So the optimum is at most that of every sequence.
//
// Proof. Let x_u say that u has run before this step, z_u that it runs neither at the step nor
// behind it, h_t that something of tensor t that was made before is held, and r_u that u runs again:
//
//	order     x_w or not x_u           w must run before u: if u has run, so has w.
//	first     not x_v; x_w             v has not run, what must run before it has.
//	runs      x_u or not z_u           each node runs: what runs no more has run.
//	once      z_u or not x_u           what runs once, and has run, runs no more.
//	again     r_u or not x_u or z_u    what has run, and still runs, runs again.
//	now       h_t                      v reads it, so it is there.
//	held      h_t or not z_m or z_r    if its maker m runs no more, its reader r, which does, reads
//	                                   what is held. Without a maker: h_t or z_r.
//	left      h_t or not z_m           so does who reads an output at the end. Without a maker: h_t.
//	over      o_t or not z_m; z_w      for z_m stands, where w overwrites t, o_t: the maker runs no more, or
//	                                   some w does not. Then who else reads t, or is the last w, reads what is held.
//	room      what is held, the work of v and what it makes keep the limit, less what its pairs save:
//	          at most the bytes of their results, and of what is written over, each once.
//
// What v makes is not there before its first run: it has no h_t.
func EncodeAgain(p *Problem, a *Again, v int32) *Formula {
	e := &encoder{p: p, f: &Formula{}}
	n := int32(len(p.Before))
	for _, format := range []string{"x%d", "z%d"} {
		for u := range n {
			e.f.Ran = append(e.f.Ran, e.variable(format, u))
		}
	}
	z := func(u int32) Lit { return e.ran(n + u) }
	over := map[int]Lit{}
	for i, list := range a.Over {
		if len(list) > 0 && p.Tensors[i].Bytes > 0 && p.Tensors[i].Maker >= 0 && p.Tensors[i].Maker != v {
			e.f.Ran = append(e.f.Ran, e.variable("o%d", i))
			over[i] = Lit(2 * e.f.Ran[len(e.f.Ran)-1])
			for _, w := range append([]int32{p.Tensors[i].Maker}, list...) {
				e.row(over[i], z(w).Not())
			}
		}
	}
	e.nodes()
	e.row(e.ran(v).Not())
	for _, w := range p.Before[v] {
		e.row(e.ran(w))
	}
	for u := range n {
		e.row(e.ran(u), z(u).Not())
		if a.Once[u] {
			e.row(z(u), e.ran(u).Not())
		} else if a.Cost[u] > 0 {
			r := Lit(2 * e.variable("r%d", u))
			e.cost(r, a.Cost[u])
			e.row(r, e.ran(u).Not(), z(u))
		}
	}
	e.f.Room = a.Limit - p.Work[v]
	for i := range p.Tensors {
		x := &p.Tensors[i]
		switch {
		case x.Bytes == 0:
		case x.Maker == v:
			e.f.Room -= x.Bytes
		default:
			e.held(i, v, z, a.Over[i], over[i])
		}
	}
	e.f.Room += saving(p, v)
	return e.f
}

// held writes the families now, held and left of a tensor.
func (e *encoder) held(i int, v int32, z func(int32) Lit, writers []int32, over Lit) {
	x := &e.p.Tensors[i]
	h := Lit(2 * e.variable("h%d", i))
	e.f.Held = append(e.f.Held, Cost{h, x.Bytes})
	made := []Lit{h}
	if over > 0 {
		made = append(made, over.Not())
	} else if x.Maker >= 0 {
		made = append(made, z(x.Maker).Not())
	}
	if x.Output {
		e.row(made...)
	}
	for _, r := range x.Readers {
		switch {
		case r == x.Maker:
		case r == v:
			e.row(h)
		case over > 0 && slices.Contains(writers[:len(writers)-1], r): // what comes behind it may not run
		default:
			e.row(append(slices.Clip(made), z(r))...)
		}
	}
}

// saving is what the pairs of a node save at most.
func saving(p *Problem, v int32) int64 {
	var bytes [2]int64
	seen := [2]map[int32]bool{{}, {}}
	for _, x := range p.Pairs[v] {
		for k, t := range [2]int32{x.Result, x.Over} {
			if !seen[k][t] {
				seen[k][t] = true
				bytes[k] += p.Tensors[t].Bytes
			}
		}
	}
	return min(bytes[0], bytes[1])
}
