package schedule

import (
	"cmp"
	"fmt"
	"slices"
)

// Encode returns the values of the columns for an order, its in-place pairs and, with
// Offsets, its offsets, which are rounded down to the unit: the start solution for a
// solver. Bytes is not read. It fails if that is no solution of the program: the order
// breaks a precedence, or a control edge, or two tensors overlap.
func (g *ILP) Encode(s Solution) ([]int64, error) {
	e := encoder{layout: &g.layout, program: g, values: make([]int64, len(g.Columns))}
	step, err := g.problem.steps(s.Order)
	if err != nil {
		return nil, err
	}
	e.step = step
	for v, i := range step {
		if i < e.first[v] || i > e.last[v] {
			return nil, fmt.Errorf("order: step %d: %s: expected it at step %d to %d", i, g.problem.node(int32(v)), e.first[v], e.last[v])
		}
		e.values[e.x[v]+i-e.first[v]] = 1
	}
	e.lifetimes()
	if err := e.pairs(s.Taken); err != nil {
		return nil, err
	}
	peak := &e.values[g.Peak]
	if e.opt.Offsets {
		if err := e.offsets(s); err != nil {
			return nil, err
		}
		for _, it := range e.items {
			*peak = max(*peak, e.values[it.column]+it.size)
		}
	} else {
		evaluation := evaluate(g.layout.Graph, s.Order, NoPairs)
		loads := evaluation.Loads
		for _, pair := range s.Taken {
			loads[step[pair.Node]] -= e.Size[pair.Over]
		}
		*peak = evaluation.Peak
		if len(loads) > 0 {
			*peak = slices.Max(loads)
		}
		*peak /= g.Unit
	}
	*peak = max(*peak, g.Columns[g.Peak].Lower)
	_, err = g.Value(e.values)
	return e.values, err
}

// encoder sets the values of one solution.
type encoder struct {
	*layout
	program *ILP
	values  []int64
	step    []int
	ends    []int // tensor -> its last step
}

// lifetimes sets the columns c and p.
func (e *encoder) lifetimes() {
	e.ends = make([]int, len(e.Size))
	for t, size := range e.Size {
		from := 0
		if m := e.Producer[t]; m >= 0 {
			e.ends[t] = e.step[m]
			from = e.step[m] + 1
			if size > 0 {
				e.values[e.c[t]+e.step[m]-e.first[m]] = 1
			}
		}
		for _, r := range e.Readers.Of(int32(t)) {
			e.ends[t] = max(e.ends[t], e.step[r])
		}
		if e.Output[t] {
			e.ends[t] = max(0, e.Nodes-1)
		}
		for i := from; i <= e.ends[t]; i++ {
			if column, _ := e.heldAt(int32(t), i); column >= 0 {
				e.values[column] = 1
			}
		}
	}
}

// pairs sets the columns y.
func (e *encoder) pairs(taken []Pair) error {
	for _, pair := range taken {
		k := slices.Index(e.Pairs, pair)
		if k < 0 {
			return fmt.Errorf("in-place pair of tensors %d and %d: expected a pair of the program", pair.Result, pair.Over)
		}
		i := e.step[pair.Node]
		if i < e.from[k] {
			return fmt.Errorf("in-place pair of tensors %d and %d at step %d: expected all other readers of %d before it", pair.Result, pair.Over, i, pair.Over)
		}
		e.values[e.y[k]+i-e.from[k]] = 1
	}
	return nil
}

// offsets sets the columns A, a and b.
func (e *encoder) offsets(s Solution) error {
	if len(s.Offsets) != len(e.Size) || len(s.Workspaces) != e.Nodes {
		return fmt.Errorf("offsets: expected those of %d tensors and %d workspaces, found %d and %d", len(e.Size), e.Nodes, len(s.Offsets), len(s.Workspaces))
	}
	for _, it := range e.items {
		if it.tensor >= 0 {
			e.values[it.column] = s.Offsets[it.tensor] / e.program.Unit
		} else {
			e.values[it.column] = s.Workspaces[it.node] / e.program.Unit
		}
	}
	for _, c := range e.couples {
		low, high := e.items[c.low], e.items[c.high]
		first, last := e.lives(low)
		from, to := e.lives(high)
		if max(first, from) > min(last, to) || e.one(s.Taken, low, high) {
			continue
		}
		switch below, above := e.values[low.column], e.values[high.column]; {
		case below+low.size <= above:
			e.values[c.a] = 1
		case above+high.size <= below:
			e.values[c.b] = 1
		default:
			return fmt.Errorf("offsets: %s and %s overlap at step %d", e.label(low), e.label(high), max(first, from))
		}
	}
	return nil
}

// lives returns the lifetime of an item.
func (e *encoder) lives(it item) (first, last int) {
	if it.tensor < 0 {
		return e.step[it.node], e.step[it.node]
	}
	if m := e.Producer[it.tensor]; m >= 0 {
		first = e.step[m]
	}
	return first, e.ends[it.tensor]
}

// one reports whether a taken pair makes two items one.
func (e *encoder) one(taken []Pair, low, high item) bool {
	return low.tensor >= 0 && high.tensor >= 0 && slices.ContainsFunc(taken, func(p Pair) bool {
		return p.Result == low.tensor && p.Over == high.tensor || p.Over == low.tensor && p.Result == high.tensor
	})
}

func (e *encoder) label(it item) string {
	if it.tensor < 0 {
		return "the workspace of " + e.program.problem.node(it.node)
	}
	return e.program.problem.tensor(it.tensor)
}

// Decode returns the order, the in-place pairs and, with Offsets, the offsets of a solution:
// one integer per column. Of nodes at the same step, which NoSequence permits, the one
// with the smaller index runs first; no step needs more for that. It fails if the values
// break a row or a bound. It checks the values, not the program: [Problem.Evaluate] gives
// the peak of the order.
func (g *ILP) Decode(values []int64) (Solution, error) {
	value, err := g.Value(values)
	if err != nil {
		return Solution{}, err
	}
	l := &g.layout
	s := Solution{Bytes: value * g.Unit}
	step := make([]int, l.Nodes)
	for v := range step {
		step[v] = -1
		for i := l.first[v]; i <= l.last[v]; i++ {
			if values[l.x[v]+i-l.first[v]] == 1 {
				step[v] = i
			}
		}
		s.Order = append(s.Order, int32(v))
	}
	slices.SortStableFunc(s.Order, func(a, b int32) int { return cmp.Compare(step[a], step[b]) })
	if err := g.problem.checkOrder(l.Graph, s.Order); err != nil {
		return Solution{}, err
	}
	for k, pair := range l.Pairs {
		for i := l.from[k]; i <= l.last[pair.Node]; i++ {
			if values[l.y[k]+i-l.from[k]] == 1 {
				s.Taken = append(s.Taken, pair)
			}
		}
	}
	slices.SortStableFunc(s.Taken, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(step[a.Node], step[b.Node]), cmp.Compare(a.Result, b.Result))
	})
	if l.opt.Offsets {
		s.Offsets, s.Workspaces = make([]int64, len(g.problem.Tensors)), make([]int64, l.Nodes)
		for _, list := range [2][]int64{s.Offsets, s.Workspaces} {
			for i := range list {
				list[i] = -1
			}
		}
		for _, it := range l.items {
			if it.tensor >= 0 {
				s.Offsets[it.tensor] = values[it.column] * g.Unit
			} else {
				s.Workspaces[it.node] = values[it.column] * g.Unit
			}
		}
	}
	return s, nil
}
