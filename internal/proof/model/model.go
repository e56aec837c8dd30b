// Package model turns a graph into pseudo-Boolean constraints whose optimum no order of the
// graph's nodes can go below. This is the step from a graph to a formula that a reader of a
// proof has to trust; everything behind it is checked by a proof checker. It knows no ONNX,
// no plan and no search, and imports nothing of this module.
//
// Lemma. Let A be a set of nodes, and take any order of the graph's nodes, with any choice
// of results that are written over operands. Let v be the node of A that runs first in it
// (or last), and let the variables say what is so at the step of v. Then all constraints of
// [Encode] hold, and the objective is at most the load of that step. So the optimum of the
// formula is at most the peak of every order. With A = {v}, v is the first of A in any order.
//
// Proof. Each family of constraints below has the sentence for which it holds. The objective
// counts the bytes of a tensor only where a constraint needs its variable; the others may be
// 0, since nothing else speaks of them.
package model

import (
	"fmt"
	"slices"
)

// Problem is a graph as far as memory is concerned. All indices must be in range.
type Problem struct {
	Before  [][]int32 // by node: nodes that run before it in every order
	Work    []int64   // by node: bytes that it needs while it runs, besides tensors
	Tensors []Tensor
	Written []Written
	Pairs   [][]Pair // by node
}

// Tensor is bytes that are live from the step of their maker to that of their last reader.
type Tensor struct {
	Bytes   int64
	Maker   int32   // the node that makes it; -1: it is there before the first step
	Readers []int32 // nodes
	Output  bool    // it is live to the last step
}

// Pair is two tensors of one size: a node that reads Over, and makes Result, may write Result
// over it if no other reader of Over is left. Then the bytes of Over count once for both.
type Pair struct{ Result, Over int32 }

// Written is bytes that a node can write over a parameter, but only if no other reader of that
// is left. Otherwise the bytes take other memory.
type Written struct {
	Bytes  int64
	Maker  int32
	Others []int32 // what else reads the parameter
	AtOnce bool    // these bytes count at the step of the maker
	Later  bool    // and behind it
}

// Lit is a literal: variable v as 2v, its negation as 2v+1.
type Lit int32

// Not is the negation.
func (l Lit) Not() Lit { return l ^ 1 }

// Var is the variable.
func (l Lit) Var() int32 { return int32(l >> 1) }

// Row is a constraint: at least Least of the literals are true.
type Row struct {
	Lits  []Lit
	Least int
}

// Cost is a term of the objective: bytes that count if the literal is true. The literals of
// pairs are negated: what they save counts if they are not taken.
type Cost struct {
	Lit   Lit
	Bytes int64
}

// Formula is an integer program with variables that are 0 or 1: minimise the sum of Costs
// less Saving, subject to Rows.
type Formula struct {
	Names  []string // by variable
	Rows   []Row
	Costs  []Cost
	Saving int64   // the bytes of all pairs
	Set    []int32 // A
	Last   bool
	Zones  []Zone          // of EncodeZones
	Ran    []int32         // by node: the variable "it has run before this step"
	Runs   map[int32]Lit   // by node of A: the literal "this is its step"
	Alive  []int32         // by tensor: the variable "its bytes count"; -1: it has none
	Else   []int32         // by entry of Written
	Takes  map[Take]int32  // the variable "this pair is taken"
	In     []Lit           // by zone: "the state before is in it"
	Behind map[int32]int32 // by node of an In: the variable "it has run behind the step"
	Held   []Cost          // of EncodeAgain: these are at most Room, a row behind Rows
	Room   int64
}

// Take is a pair of a node.
type Take struct {
	Node int32
	Pair
}

// Encode returns the formula for the node of a set A, not empty, that runs first, or last.
// With x, f, t, e and s as in Formula:
//
//	order     x_w or not x_u         w must run before u: if u has run, so has w.
//	one       some f_a, a in A       some node of A is the first (last).
//	alone     not f_a or not f_b     only one node is.
//	ready     x_w or not f_a         w must run before a: it has run when a runs.
//	first     not x_a                no node of A has run before the first of A.
//	last      x_a or f_a             the others of A have run before the last of A,
//	          not x_a or not f_a     which has not run before its own step.
//	made      t or not f_m           what a node makes is live while it runs.
//	read      t or not x_m or x_r    if its maker m has run, and its reader r has not, a tensor
//	                                 is live. Without a maker it was there: t or x_r.
//	output    t or not x_m           an output is live once it is made. Without a maker: t.
//	idle      t or some x            what nobody makes or reads is live at the first step.
//	written   e or not f_m or x_r    bytes that would be written over a parameter take other
//	          e or not x_m or x_r    memory while another reader r of the parameter is left.
//	taken     not s or f_a           a pair is taken at the step of its node alone.
//	once      not s or not s'        no tensor is in two pairs that are taken.
//	free      not s or x_r           no other reader r of what is overwritten is left.
//
// The objective is the load: tensors that are live, the work of the node that runs, less what the
// pairs that it takes save. What is given twice counts once. A set without nodes panics.
func Encode(p *Problem, set []int32, last bool) *Formula {
	if len(set) == 0 {
		panic("model: a set without nodes")
	}
	return encode(p, set, func(e *encoder) { e.first(last) })
}

// encode writes what the formulas have in common, and what tells them apart.
func encode(p *Problem, set []int32, apart func(e *encoder)) *Formula {
	set = slices.Compact(slices.Sorted(slices.Values(set)))
	e := &encoder{p: p, f: &Formula{Set: set, Runs: map[int32]Lit{}, Takes: map[Take]int32{}}}
	for v := range p.Before {
		e.f.Ran = append(e.f.Ran, e.variable("x%d", v))
	}
	for _, a := range set {
		e.f.Runs[a] = Lit(2 * e.variable("f%d", a))
	}
	e.nodes()
	apart(e)
	e.set()
	for i := range p.Tensors {
		e.f.Alive = append(e.f.Alive, e.tensor(i))
	}
	for i := range p.Written {
		e.f.Else = append(e.f.Else, e.written(i))
	}
	for _, a := range set {
		e.pairs(a)
	}
	return e.f
}

type encoder struct {
	p *Problem
	f *Formula
}

func (e *encoder) variable(format string, args ...any) int32 {
	e.f.Names = append(e.f.Names, fmt.Sprintf(format, args...))
	return int32(len(e.f.Names) - 1)
}

func (e *encoder) row(lits ...Lit) { e.f.Rows = append(e.f.Rows, Row{lits, 1}) }

func (e *encoder) cost(l Lit, bytes int64) {
	if bytes > 0 {
		e.f.Costs = append(e.f.Costs, Cost{l, bytes})
	}
}

func (e *encoder) ran(v int32) Lit { return Lit(2 * e.f.Ran[v]) }

// nodes writes the family order.
func (e *encoder) nodes() {
	for u, before := range e.p.Before {
		for _, w := range before {
			e.row(e.ran(w), e.ran(int32(u)).Not())
		}
	}
}

// first writes the families one, first and last.
func (e *encoder) first(last bool) {
	e.f.Last = last
	var some []Lit
	for _, a := range e.f.Set {
		some = append(some, e.f.Runs[a])
	}
	e.row(some...)
	for _, a := range e.f.Set {
		if last {
			e.row(e.ran(a), e.f.Runs[a])
			e.row(e.ran(a).Not(), e.f.Runs[a].Not())
		} else {
			e.row(e.ran(a).Not())
		}
	}
}

// set writes alone and ready. Which of two runs matters for the last, for zones, and with pairs.
func (e *encoder) set() {
	for i, a := range e.f.Set {
		runs := e.f.Runs[a]
		for _, b := range e.f.Set[:i] {
			if e.f.Last || e.f.Zones != nil || len(e.p.Pairs[a]) > 0 || len(e.p.Pairs[b]) > 0 {
				e.row(runs.Not(), e.f.Runs[b].Not())
			}
		}
		for _, w := range e.p.Before[a] {
			e.row(e.ran(w), runs.Not())
		}
		e.cost(runs, e.p.Work[a])
	}
}

// tensor writes the families made, read, output and idle.
func (e *encoder) tensor(i int) int32 {
	x := &e.p.Tensors[i]
	if x.Bytes == 0 {
		return -1
	}
	at := e.variable("t%d", i)
	t := Lit(2 * at)
	e.cost(t, x.Bytes)
	made := []Lit{t} // t, if it has been made
	if x.Maker >= 0 {
		if runs, in := e.f.Runs[x.Maker]; in {
			e.row(t, runs.Not())
		}
		made = append(made, e.ran(x.Maker).Not())
	}
	switch {
	case x.Output:
		e.row(made...)
	case x.Maker < 0 && len(x.Readers) == 0:
		for v := range e.f.Ran {
			made = append(made, e.ran(int32(v)))
		}
		e.row(made...)
	default:
		for _, r := range x.Readers {
			if r != x.Maker {
				e.row(append(slices.Clone(made), e.ran(r))...)
			}
		}
	}
	return at
}

// written writes the family written.
func (e *encoder) written(i int) int32 {
	x := &e.p.Written[i]
	at := e.variable("e%d", i)
	t := Lit(2 * at)
	e.cost(t, x.Bytes)
	for _, r := range x.Others {
		if runs, in := e.f.Runs[x.Maker]; in && x.AtOnce {
			e.row(t, runs.Not(), e.ran(r))
		}
		if x.Later {
			e.row(t, e.ran(x.Maker).Not(), e.ran(r))
		}
	}
	return at
}

// pairs writes the families taken, once and free.
func (e *encoder) pairs(a int32) {
	results, overs := map[int32][]Lit{}, map[int32][]Lit{}
	var listed []int32
	for _, x := range e.p.Pairs[a] {
		if _, twice := e.f.Takes[Take{a, x}]; twice {
			continue
		}
		at := e.variable("s%d_%d_%d", a, x.Result, x.Over)
		e.f.Takes[Take{a, x}] = at
		s, over := Lit(2*at), &e.p.Tensors[x.Over]
		e.cost(s.Not(), over.Bytes)
		e.f.Saving += over.Bytes
		e.row(s.Not(), e.f.Runs[a])
		for _, r := range over.Readers {
			if r != a {
				e.row(s.Not(), e.ran(r))
			}
		}
		results[x.Result] = append(results[x.Result], s.Not())
		overs[x.Over] = append(overs[x.Over], s.Not())
		listed = append(listed, x.Result, x.Over)
	}
	for _, t := range listed {
		for _, once := range []map[int32][]Lit{results, overs} {
			if lits := once[t]; len(lits) > 1 {
				e.f.Rows = append(e.f.Rows, Row{lits, len(lits) - 1})
			}
			delete(once, t)
		}
	}
}
