package proof

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/internal/proof/model"
)

// maxCases limits the cases of one proof: the nodes of its set that may run, times the choices
// of each among pairs that compete.
const maxCases = 1 << 12

// maxBytes limits the size of one proof, and maxArcs the arcs of the networks of all its cases,
// which decide how long it takes: some seconds.
const maxArcs = 1 << 25

var maxBytes = int64(32 << 20) // less in a test

// counter counts what is written.
type counter struct {
	w     io.Writer
	bytes int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.bytes += int64(len(b))
	return c.w.Write(b)
}

// refuter derives a contradiction from "the objective is below the bound", one case for each
// node that may be the one that runs. In a case, what must have run and what cannot follows by
// unit propagation; of the rest, a maximum flow gives each row its multiplier. The sum of all is
// a clause that excludes the case.
type refuter struct {
	*known
	w     *bufio.Writer
	id    int64 // of the last constraint
	below int64 // the constraint "the objective is below the bound"
	bound int64
	all   int64     // above all degrees: the bytes of the objective, and more
	bytes []int64   // by literal: what it costs
	once  []int32   // the rows of which two pairs compete
	rows  [][]int32 // by variable of a pair: its rows of once
	line  []int64   // by variable: the constraint with its value on the trail
	mark  []bool    // by variable, while lines are collected
	at    []int32   // by variable of a node: its vertex
	cases int
	arcs  int
	size  *counter
	poll  func() // or nil

	probes  []model.Lit // in zones: which nodes they speak of
	assumed []model.Lit // in zones: the case. Each clause has all of it, even where it needs less
}

// sum is a linear combination of constraints and literals.
type sum []term

// term is a constraint, or, if it is 0, a literal that is at least 0.
type term struct {
	id    int64
	lit   model.Lit
	times int64
}

func newRefuter(f *model.Formula, w *bufio.Writer, size *counter, bound int64) *refuter {
	n := len(f.Names)
	r := &refuter{known: newKnown(f), w: w, size: size, id: int64(len(f.Rows)), bound: bound, bytes: make([]int64, 2*n), rows: make([][]int32, n), line: make([]int64, n), mark: make([]bool, n), at: make([]int32, n)}
	for _, c := range f.Costs {
		r.bytes[c.Lit] = c.Bytes
		r.all += c.Bytes
	}
	r.all += 3
	if f.Held != nil {
		r.id++ // the row with what is held
	}
	for i, row := range f.Rows {
		if len(row.Lits) > 1 && !slices.ContainsFunc(row.Lits, func(l model.Lit) bool { return l&1 == 0 || r.bytes[l] == 0 }) {
			r.once = append(r.once, int32(i))
			for _, l := range row.Lits {
				r.rows[l.Var()] = append(r.rows[l.Var()], int32(i))
			}
		}
	}
	return r
}

// refute writes the derivation. It fails if the bound does not hold, or takes too many cases.
func (r *refuter) refute() error {
	if r.f.Zones != nil {
		return r.zones()
	}
	all := sum{{id: 1 + int64(slices.IndexFunc(r.f.Rows, func(x model.Row) bool { return slices.Contains(x.Lits, r.f.Runs[r.f.Set[0]]) })), times: 1}}
	for _, a := range r.f.Set {
		id, err := r.node(a, func() (int64, error) { return r.choices(nil) })
		if err != nil {
			return err
		}
		all = append(all, term{id: id, times: 1})
	}
	r.derive(all, asItIs)
	return nil
}

// node derives that node a is not the one that runs: exclude derives that the case in which it is
// is excluded.
func (r *refuter) node(a int32, exclude func() (int64, error)) (int64, error) {
	from, runs := len(r.trail), r.f.Runs[a]
	if r.value[runs] < 0 {
		r.lines([]model.Lit{runs.Not()})
		return r.line[runs.Var()], nil
	}
	if r.value[runs] > 0 { // it is the only one
		return exclude()
	}
	defer r.forget(from)
	if broken := r.assume(runs); broken >= 0 {
		return r.broken(broken), nil
	}
	return exclude()
}

// broken derives, of a row of which no literal can be true, that what is assumed is not so.
func (r *refuter) broken(row int32) int64 {
	var all []model.Lit
	for _, l := range r.f.Rows[row].Lits {
		all = append(all, l.Not())
	}
	r.lines(all)
	return r.derive(r.known2(sum{{id: int64(row) + 1, times: 1}}, all), clause)
}

// forget takes back what was assumed, down to a length of the trail, and its lines.
func (r *refuter) forget(to int) {
	for _, l := range r.trail[to:] {
		r.line[l.Var()] = 0
	}
	r.back(to)
}

// known2 adds the lines of literals that are true to a sum.
func (r *refuter) known2(s sum, lits []model.Lit) sum {
	for _, l := range lits {
		if r.reason[l.Var()] != decided {
			s = append(s, term{id: r.line[l.Var()], times: 1})
		}
	}
	return s
}

// lines derives, of literals that are true, a constraint for each, and before that, of those
// from which it follows: the literal, or not the case.
func (r *refuter) lines(lits []model.Lit) {
	for _, l := range lits {
		r.mark[l.Var()] = true
	}
	for i := len(r.trail) - 1; i >= 0; i-- {
		v := r.trail[i].Var()
		if !r.mark[v] || r.line[v] > 0 || r.reason[v] == decided {
			continue
		}
		for _, l := range r.f.Rows[r.reason[v]].Lits {
			r.mark[l.Var()] = true
		}
	}
	for _, l := range r.trail {
		v := l.Var()
		if !r.mark[v] {
			continue
		}
		if r.mark[v] = false; r.line[v] > 0 || r.reason[v] == decided {
			continue
		}
		row := r.reason[v]
		var others []model.Lit
		for _, o := range r.f.Rows[row].Lits {
			if o != l {
				others = append(others, o.Not())
			}
		}
		if s := r.known2(sum{{id: int64(row) + 1, times: 1}}, others); len(s) > 1 {
			r.line[v] = r.derive(s, saturated)
		} else {
			r.line[v] = int64(row) + 1
		}
	}
}

// choices derives that the case is excluded, with some pairs left out: the clause "not the
// case, or one of these is taken". Where two pairs compete, it needs that of each choice.
func (r *refuter) choices(out []model.Lit) (int64, error) {
	if r.cases++; r.cases > maxCases {
		return 0, fmt.Errorf("the proof needs more than %d cases: nodes that may run first, times the choices of results over operands", maxCases)
	}
	if r.poll != nil {
		r.poll()
	}
	if r.arcs > maxArcs || r.size.bytes > maxBytes {
		return 0, fmt.Errorf("the proof is too large: after %d cases, it has %d bytes (expected at most %d) and took networks of %d arcs (expected at most %d)", r.cases-1, r.size.bytes, maxBytes, r.arcs, maxArcs)
	}
	id, value, ok := r.leaf(out)
	if ok {
		return id, nil
	}
	for _, i := range r.once {
		var open []model.Lit
		rest := sum{{id: int64(i) + 1, times: 1}}
		for _, l := range r.f.Rows[i].Lits {
			if r.value[l] == 0 && !slices.Contains(out, l) && len(open) < 2 {
				open = append(open, l)
			} else {
				rest = append(rest, term{lit: l.Not(), times: 1})
			}
		}
		if len(open) < 2 {
			continue
		}
		for _, l := range open {
			id, err := r.choices(append(slices.Clip(out), l))
			if err != nil {
				return 0, err
			}
			rest = append(rest, term{id: id, times: 1})
		}
		return r.derive(rest, clause), nil
	}
	return 0, &short{value, r.bound}
}

// short is the error of a case that is not excluded.
type short struct{ proven, expected int64 }

func (s *short) Error() string {
	return fmt.Sprintf("the constraints prove %d bytes, expected %d", s.proven, s.expected)
}

// leaf derives the clause of choices by one sum. It reports false, with what it finds instead,
// if the sum does not reach the bound.
func (r *refuter) leaf(out []model.Lit) (id, value int64, ok bool) {
	covers := r.covers(out)
	covered := map[model.Lit]bool{}
	value = -r.f.Saving
	s := sum{{id: r.below, times: 1}}
	for _, i := range covers {
		lits := r.f.Rows[i].Lits
		bytes := r.bytes[lits[0]]
		for _, l := range lits {
			covered[l] = true
		}
		s = append(s, term{id: int64(i) + 1, times: bytes})
		value += bytes * int64(len(lits)-1)
	}
	need := map[model.Lit]int64{}
	g := newFlow()
	r.nodes(g)
	type inflow struct {
		lit model.Lit
		arc int
	}
	var inflows []inflow
	for _, c := range r.f.Costs {
		switch {
		case covered[c.Lit]:
		case slices.Contains(out, c.Lit):
			value += c.Bytes
		case r.value[c.Lit] > 0:
			value += c.Bytes
			need[c.Lit] += c.Bytes
		case r.value[c.Lit] < 0:
			s = append(s, term{lit: c.Lit, times: c.Bytes})
		default:
			inflows = append(inflows, inflow{c.Lit, r.tensor(g, c)})
		}
	}
	r.arcs += len(g.arcs)
	if value += g.max(); value < r.bound {
		return 0, value, false
	}
	for _, x := range inflows {
		rest := r.bytes[x.lit]
		if x.arc >= 0 {
			rest -= g.used(x.arc)
		}
		if rest > 0 {
			s = append(s, term{lit: x.lit, times: rest})
		}
	}
	for i := 0; i < len(g.arcs); i += 2 {
		row, used := g.arcs[i].row, g.used(i)
		if row < 0 || used == 0 {
			continue
		}
		s = append(s, term{id: int64(row) + 1, times: used})
		for _, l := range r.f.Rows[row].Lits {
			if r.value[l] < 0 {
				need[l.Not()] += used
			}
		}
	}
	var all []model.Lit
	for l := range need {
		if r.reason[l.Var()] != decided {
			all = append(all, l)
		}
	}
	slices.Sort(all)
	r.lines(all)
	for _, l := range all {
		s = append(s, term{id: r.line[l.Var()], times: need[l]})
	}
	return r.derive(s, clause), value, true
}

// nodes makes a vertex for each node of which it is not known whether it has run, on the
// source's side if it has, and an arc to each that has run if it has.
func (r *refuter) nodes(g *flow) {
	for v := range r.f.Ran {
		if r.value[2*v] == 0 {
			r.at[v] = g.vertex()
		}
	}
	for v := range r.f.Ran {
		not := model.Lit(2*v + 1)
		if r.value[not] != 0 {
			continue
		}
		for _, i := range r.in[not] {
			if lits := r.f.Rows[i].Lits; len(lits) == 2 && lits[1] == not && r.ran(lits[0]) && r.value[lits[0]] == 0 {
				g.add(r.at[v], r.at[lits[0].Var()], i, unlimited)
			}
		}
	}
}

// ran reports whether a literal says of a node whether it has run.
func (r *refuter) ran(l model.Lit) bool { return int(l.Var()) < len(r.f.Ran) }

// tensor adds what costs bytes unless each of its rows has another true literal: "its maker
// has not run", or "its reader has". It returns the arc with the bytes, or -1.
func (r *refuter) tensor(g *flow, c model.Cost) int {
	type outflow struct{ to, row int32 }
	from := int32(-1)
	var list []outflow
rows:
	for _, i := range r.in[c.Lit] {
		tail, head := int32(source), int32(sink)
		for _, l := range r.f.Rows[i].Lits {
			switch {
			case l == c.Lit || r.value[l] < 0:
			case r.value[l] > 0 || !r.ran(l):
				continue rows
			case l&1 == 1 && tail == source:
				tail = r.at[l.Var()]
			case l&1 == 0 && head == sink:
				head = r.at[l.Var()]
			default:
				continue rows
			}
		}
		if from < 0 {
			from = tail
		}
		if tail == from {
			list = append(list, outflow{head, i})
		}
	}
	if from < 0 {
		return -1
	}
	at, arc := g.vertex(), len(g.arcs)
	g.add(from, at, -1, c.Bytes)
	for _, x := range list {
		g.add(at, x.to, x.row, unlimited)
	}
	return arc
}

// covers returns rows of pairs that compete for one tensor and for no other: together they
// save its bytes once.
func (r *refuter) covers(out []model.Lit) (list []int32) {
	competes := func(i int32) bool {
		n := 0
		for _, l := range r.f.Rows[i].Lits {
			if r.value[l] == 0 && !slices.Contains(out, l) {
				n++
			}
		}
		return n > 1
	}
	for _, i := range r.once {
		if !competes(i) {
			continue
		}
		alone := true
		for _, l := range r.f.Rows[i].Lits {
			alone = alone && !slices.Contains(out, l)
			for _, j := range r.rows[l.Var()] {
				alone = alone && (j == i || !competes(j))
			}
		}
		if alone {
			list = append(list, i)
		}
	}
	return list
}

// form is what becomes of a sum.
type form int8

const (
	asItIs    form = iota
	saturated      // no coefficient is above the degree
	clause         // some literal of it is true
)

// derive writes a constraint, the sum of others, and returns its id. Terms are added by
// halves, so that few sums are long. A quotient that is rounded up makes a clause of any
// saturated constraint whose degree is not above the divisor.
func (r *refuter) derive(s sum, as form) int64 {
	if as == clause {
		for _, l := range r.assumed {
			s = append(s, term{lit: l.Not(), times: 1})
		}
	}
	r.w.WriteString("pol")
	r.add(s)
	switch as {
	case saturated:
		r.w.WriteString(" s")
	case clause:
		r.w.WriteString(" s " + strconv.FormatInt(r.all, 10) + " d")
	}
	r.w.WriteString(" ;\n")
	r.id++
	return r.id
}

func (r *refuter) add(s sum) {
	if len(s) > 1 {
		r.add(s[:len(s)/2])
		r.add(s[len(s)/2:])
		r.w.WriteString(" +")
		return
	}
	r.w.WriteByte(' ')
	if x := s[0]; x.id > 0 {
		r.w.WriteString(strconv.FormatInt(x.id, 10))
	} else {
		r.w.WriteString(r.f.Name(x.lit))
	}
	if s[0].times > 1 {
		r.w.WriteByte(' ')
		r.w.WriteString(strconv.FormatInt(s[0].times, 10))
		r.w.WriteString(" *")
	}
}
