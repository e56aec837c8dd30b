// Package program states an indexed problem as an integer program, for a solver to work on
// what a search leaves open: the whole problem, or a part of a contracted one.
//
// The program knows of each node at which step it runs, as OLLA's does, and whether it has
// run before a step. The latter makes precedence and lifetimes rows of two or three columns.
//
//	x v s   node v runs at step s
//	z v s   node v has run before step s
//	h t s   tensor t is held at step s: its maker has run before it, a reader has not
//	y k s   saving k is given at step s
//	peak    the largest load, in units
//
//	z v s+1      = z v s + x v s
//	z w s+1      ≤ z u s                      u precedes w
//	Σ_v x v s    = 1                          one node runs at each step
//	h t s        ≥ z m s - z r s              m makes t, r reads it
//	y k s        ≤ x v s                      v has the saving
//	y k s        ≤ z r s                      r also reads the saving's tensor
//	Σ y k s      ≤ 1                          over the pairs of one result, or of one tensor
//	peak         ≥ Σ size h + Σ_v transient x v s - Σ size y
//
// The x are there for the last row: with differences of z in their place, CP-SAT derives
// next to nothing from it.
//
// h need not be an integer, since it is one in the best case wherever z is. A node's possible
// steps follow from its numbers of ancestors and descendants; z outside them is a constant.
package program

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Program is the integer program of an indexed problem.
type Program struct {
	ilp.Program
	g           *indexed.Problem
	unit        int64
	first, last []int    // node -> the span of its steps
	x           []int    // node -> the column of x at its first step
	z           []int    // node -> the column of z at step first+1; one for each step up to last
	h           []int    // tensor -> the column of h at the first step of its span
	span        [][2]int // tensor -> the steps at which it may be held, both inclusive
	savings     []saving
	y           []int // saving -> the column at its node's first step
	peak        int
}

// saving is a credit or an in-place pair of a node.
type saving struct {
	node         int32
	result, over int32 // result -1: a credit; over below 0: always given
	size         int64
	others       []int32 // the other readers of over
}

// Columns returns how many columns the program of a problem has, about, without building it.
func Columns(g *indexed.Problem) int {
	first, last := indexed.Spans(g.Listing(), g.Preds)
	columns := 1
	for v := range first {
		columns += 2*(last[v]-first[v]) + 1
	}
	for t := range g.Size {
		if from, to := span(g, int32(t), first, last); to >= from {
			columns += to - from + 1
		}
	}
	return columns
}

// New builds the program of a problem; name is for messages. Of the peak, in bytes, all below
// least is as good as least, and nothing above most is wanted.
func New(g *indexed.Problem, name string, least, most int64) *Program {
	p := &Program{Program: ilp.Program{Name: name}, g: g, unit: g.Granularity()}
	p.first, p.last = indexed.Spans(g.Listing(), g.Preds)
	p.columns((least+p.unit-1)/p.unit, most/p.unit)
	p.orderRows()
	p.tensorRows()
	p.savingRows()
	p.loadRows()
	return p
}

// Unit is how many bytes one of the objective is.
func (p *Program) Unit() int64 { return p.unit }

// span returns the steps at which a tensor may be held, made before.
func span(g *indexed.Problem, t int32, first, last []int) (from, to int) {
	if m := g.Maker[t]; m >= 0 {
		from = first[m] + 1
	}
	to = -1
	for _, r := range g.Readers.Of(t) {
		to = max(to, last[r])
	}
	if g.Output[t] {
		to = g.Nodes - 1
	}
	return from, to
}

func (p *Program) columns(least, most int64) {
	g := p.g
	for v := range g.Nodes {
		p.x = append(p.x, len(p.Columns))
		for s := p.first[v]; s <= p.last[v]; s++ {
			p.Add(ilp.Column{Name: fmt.Sprintf("x%d_%d", v, s), Upper: 1, Integer: true})
		}
		p.z = append(p.z, len(p.Columns))
		for s := p.first[v] + 1; s <= p.last[v]; s++ {
			p.Add(ilp.Column{Name: fmt.Sprintf("z%d_%d", v, s), Upper: 1, Integer: true})
		}
	}
	for t := range g.Size {
		from, to := span(g, int32(t), p.first, p.last)
		p.h, p.span = append(p.h, len(p.Columns)), append(p.span, [2]int{from, to})
		for s := from; s <= to; s++ {
			p.Add(ilp.Column{Name: fmt.Sprintf("h%d_%d", t, s), Upper: 1})
		}
	}
	for v := range int32(g.Nodes) {
		p.addSavings(v)
	}
	for k, x := range p.savings {
		p.y = append(p.y, len(p.Columns))
		for s := p.first[x.node]; s <= p.last[x.node]; s++ {
			p.Add(ilp.Column{Name: fmt.Sprintf("y%d_%d", k, s), Upper: 1, Integer: true})
		}
	}
	p.peak = p.Add(ilp.Column{Name: "peak", Lower: min(least, most), Upper: most, Integer: true, Objective: 1})
}

// addSavings lists the savings of a node.
func (p *Program) addSavings(v int32) {
	g := p.g
	if g.SavingsAt == nil || g.SavingsAt[v] == 0 {
		return
	}
	s := &g.Savings[g.SavingsAt[v]-1]
	others := func(over int32) (list []int32) {
		if over >= 0 {
			for _, r := range g.Readers.Of(over) {
				if r != v {
					list = append(list, r)
				}
			}
		}
		return list
	}
	for _, x := range s.Pairs {
		p.savings = append(p.savings, saving{v, x.Result, x.Over, x.Size, others(x.Over)})
	}
	for _, t := range s.Credits {
		p.savings = append(p.savings, saving{v, -1, t, g.Size[t], others(t)})
	}
}

// row is a row that is being built; constants on its left are moved to the right.
type row struct {
	p        *Program
	terms    []ilp.Term
	constant int64
}

// ran adds coefficient times z.
func (r *row) ran(coefficient int64, v int32, s int) {
	switch p := r.p; {
	case s <= p.first[v]:
	case s > p.last[v]:
		r.constant += coefficient
	default:
		r.add(p.z[v]+s-p.first[v]-1, coefficient)
	}
}

// runs adds coefficient times x.
func (r *row) runs(coefficient int64, v int32, s int) {
	if p := r.p; s >= p.first[v] && s <= p.last[v] {
		r.add(p.x[v]+s-p.first[v], coefficient)
	}
}

func (r *row) add(column int, coefficient int64) {
	if coefficient != 0 {
		r.terms = append(r.terms, ilp.Term{Column: column, Coefficient: coefficient})
	}
}

// end adds the row, unless it has no columns.
func (r *row) end(lower, upper int64, name string, index ...any) {
	if len(r.terms) == 0 {
		return
	}
	if lower != -ilp.Unbounded {
		lower -= r.constant
	}
	if upper != ilp.Unbounded {
		upper -= r.constant
	}
	r.p.Rows = append(r.p.Rows, ilp.Row{Name: fmt.Sprintf(name, index...), Lower: lower, Upper: upper, Terms: merged(r.terms)})
}

// merged adds up the terms of each column.
func merged(terms []ilp.Term) []ilp.Term {
	slices.SortStableFunc(terms, func(a, b ilp.Term) int { return a.Column - b.Column })
	list := terms[:0]
	for _, t := range terms {
		if n := len(list); n > 0 && list[n-1].Column == t.Column {
			list[n-1].Coefficient += t.Coefficient
		} else {
			list = append(list, t)
		}
	}
	return slices.DeleteFunc(list, func(t ilp.Term) bool { return t.Coefficient == 0 })
}

func (p *Program) orderRows() {
	for v := range int32(p.g.Nodes) {
		for s := p.first[v]; s <= p.last[v]; s++ {
			r := row{p: p}
			r.ran(1, v, s+1)
			r.ran(-1, v, s)
			r.runs(-1, v, s)
			r.end(0, 0, "ran%d_%d", v, s)
		}
		for _, u := range p.g.Preds.Of(v) {
			for s := p.first[v]; s <= p.last[v]; s++ {
				if s > p.last[u] {
					break
				}
				r := row{p: p}
				r.ran(1, v, s+1)
				r.ran(-1, u, s)
				r.end(-ilp.Unbounded, 0, "before%d_%d_%d", u, v, s)
			}
		}
	}
	for s := range p.g.Nodes {
		r := row{p: p}
		for v := range int32(p.g.Nodes) {
			r.runs(1, v, s)
		}
		r.end(1, 1, "step%d", s)
	}
}

func (p *Program) tensorRows() {
	for i := range p.g.Size {
		t := int32(i)
		for s := p.span[t][0]; s <= p.span[t][1]; s++ {
			held := func(reader int32) {
				r := row{p: p}
				r.made(1, t, s)
				if reader >= 0 {
					r.ran(-1, reader, s)
				}
				if len(r.terms) == 0 && r.constant == 1 {
					p.Columns[p.h[t]+s-p.span[t][0]].Lower = 1
					return
				}
				r.add(p.h[t]+s-p.span[t][0], -1)
				r.end(-ilp.Unbounded, 0, "held%d_%d_%d", t, reader, s)
			}
			if p.g.Output[t] {
				held(-1)
				continue
			}
			for _, v := range p.g.Readers.Of(t) {
				if s <= p.last[v] {
					held(v)
				}
			}
		}
	}
}

// made adds coefficient if the tensor has been made before a step.
func (r *row) made(coefficient int64, t int32, s int) {
	if m := r.p.g.Maker[t]; m >= 0 {
		r.ran(coefficient, m, s)
	} else {
		r.constant += coefficient
	}
}

func (p *Program) savingRows() {
	for k, x := range p.savings {
		for s := p.first[x.node]; s <= p.last[x.node]; s++ {
			r := row{p: p}
			r.add(p.y[k]+s-p.first[x.node], 1)
			r.runs(-1, x.node, s)
			r.end(-ilp.Unbounded, 0, "now%d_%d", k, s)
			for _, o := range x.others {
				if s <= p.last[o] {
					r := row{p: p}
					r.add(p.y[k]+s-p.first[x.node], 1)
					r.ran(-1, o, s)
					r.end(-ilp.Unbounded, 0, "free%d_%d_%d", k, o, s)
				}
			}
			p.matchingRow(k, s, "result", func(y saving) bool { return x.result >= 0 && y.result == x.result })
			p.matchingRow(k, s, "over", func(y saving) bool { return x.result >= 0 && y.result >= 0 && y.over == x.over })
		}
	}
}

// matchingRow allows one of the savings of a node that have something in common with the
// k-th, which is the first of them.
func (p *Program) matchingRow(k, s int, name string, same func(saving) bool) {
	v, r := p.savings[k].node, row{p: p}
	for i, y := range p.savings {
		if y.node != v || !same(y) {
			continue
		}
		if i < k {
			return
		}
		r.add(p.y[i]+s-p.first[v], 1)
	}
	if len(r.terms) > 1 {
		r.end(-ilp.Unbounded, 1, name+"%d_%d", k, s)
	}
}

func (p *Program) loadRows() {
	g := p.g
	ofStep := make([]row, g.Nodes)
	for s := range ofStep {
		r := &ofStep[s]
		r.p, r.constant = p, g.Base/p.unit
		if s == 0 {
			r.constant += g.Idle / p.unit
		}
		r.add(p.peak, -1)
	}
	for v, bytes := range g.Transient {
		for s := p.first[v]; s <= p.last[v]; s++ {
			ofStep[s].runs(bytes/p.unit, int32(v), s)
		}
	}
	for t, bytes := range g.Size {
		for s := p.span[t][0]; s <= p.span[t][1]; s++ {
			ofStep[s].add(p.h[t]+s-p.span[t][0], bytes/p.unit)
		}
	}
	for k, x := range p.savings {
		for s := p.first[x.node]; s <= p.last[x.node]; s++ {
			ofStep[s].add(p.y[k]+s-p.first[x.node], -x.size/p.unit)
		}
	}
	for s := range ofStep {
		ofStep[s].end(-ilp.Unbounded, 0, "load%d", s)
	}
}

// Order returns the order that a solution stands for, by x alone.
func (p *Program) Order(x []int64) ([]int32, error) {
	step := make([]int32, p.g.Nodes)
	for v := range step {
		step[v] = -1
		for s := p.first[v]; s <= p.last[v]; s++ {
			if x[p.x[v]+s-p.first[v]] == 1 {
				step[v] = int32(s)
			}
		}
		if step[v] < 0 {
			return nil, fmt.Errorf("node %d runs at no step", v)
		}
	}
	order := make([]int32, p.g.Nodes)
	for i := range order {
		order[i] = -1
	}
	for v, s := range step {
		if order[s] >= 0 {
			return nil, fmt.Errorf("nodes %d and %d both run at step %d", order[s], v, s)
		}
		order[s] = int32(v)
	}
	for v := range int32(p.g.Nodes) {
		for _, u := range p.g.Preds.Of(v) {
			if step[u] > step[v] {
				return nil, fmt.Errorf("node %d runs before node %d, which precedes it", v, u)
			}
		}
	}
	return order, nil
}

// Solution returns the solution of an order, whose peak is that of the order.
func (p *Program) Solution(order []int32) []int64 {
	g := p.g
	x := make([]int64, len(p.Columns))
	step := make([]int, g.Nodes)
	for s, v := range order {
		step[v] = s
	}
	for v := range g.Nodes {
		x[p.x[v]+step[v]-p.first[v]] = 1
		for s := max(p.first[v], step[v]) + 1; s <= p.last[v]; s++ {
			x[p.z[v]+s-p.first[v]-1] = 1
		}
	}
	for t := range g.Size {
		from, to := 0, -1
		if m := g.Maker[t]; m >= 0 {
			from = step[m] + 1
		}
		for _, r := range g.Readers.Of(int32(t)) {
			to = max(to, step[r])
		}
		if g.Output[t] {
			to = g.Nodes - 1
		}
		for s := from; s <= to; s++ {
			x[p.h[t]+s-p.span[t][0]] = 1
		}
	}
	for from := 0; from < len(p.savings); {
		to := from + 1
		for to < len(p.savings) && p.savings[to].node == p.savings[from].node {
			to++
		}
		s := step[p.savings[from].node]
		given := func(y saving) bool {
			return !slices.ContainsFunc(y.others, func(r int32) bool { return step[r] > s })
		}
		for _, k := range best(p.savings[from:to], given) {
			x[p.y[from+k]+s-p.first[p.savings[from].node]] = 1
		}
		from = to
	}
	loads := g.Loads(order, nil)
	peak, _ := indexed.Peak(loads)
	x[p.peak] = max(peak/p.unit, p.Columns[p.peak].Lower)
	return x
}

// best returns a largest set of savings that can be given together: all credits, and a
// matching of the pairs.
func best(list []saving, given func(saving) bool) (chosen []int) {
	var pairs []match.Pair
	results, overs := local{}, local{}
	at := map[match.Pair]int{}
	for k, y := range list {
		switch {
		case !given(y):
		case y.result < 0:
			chosen = append(chosen, k)
		default:
			pair := match.Pair{Result: results.of(y.result), Over: overs.of(y.over)}
			at[pair] = k
			pairs = append(pairs, pair)
		}
	}
	for _, pair := range match.New(len(overs)).Largest(nil, pairs) {
		chosen = append(chosen, at[pair])
	}
	return chosen
}

// local numbers tensors in the sequence in which they are asked for.
type local map[int32]int32

func (l local) of(t int32) int32 {
	if _, ok := l[t]; !ok {
		l[t] = int32(len(l))
	}
	return l[t]
}
