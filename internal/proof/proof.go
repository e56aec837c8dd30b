// Package proof writes lower bounds of peaks as proofs that a checker of others accepts: a
// pseudo-Boolean formula in the format OPB, and its proof in the format of VeriPB 3. Package
// model makes the formula, and is what a reader has to trust. Nothing else here is: a wrong
// multiplier gives a proof that is refused.
package proof

import (
	"bufio"
	"io"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/internal/proof/model"
)

// Write writes a formula, and a proof that its optimum is at least bound. The order is one of
// the problem's nodes: the load of its step is the upper end of what the proof concludes, which
// is returned. It fails if the bound does not hold, or if the proof is too large.
func Write(opb, pbp io.Writer, p *model.Problem, f *model.Formula, bound int64, order []int32) (upper int64, err error) {
	return write(opb, pbp, f, bound, solution(p, f, order), (*refuter).refute, nil)
}

// write writes a formula and its proof. The values keep all constraints; refute derives a
// contradiction. It calls poll, if there is one, before each case.
func write(opb, pbp io.Writer, f *model.Formula, bound int64, values []bool, refute func(*refuter) error, poll func()) (upper int64, err error) {
	if err := f.Write(opb); err != nil {
		return 0, err
	}
	size := &counter{w: pbp}
	w := bufio.NewWriterSize(size, 1<<16)
	r := newRefuter(f, w, size, bound)
	r.poll = poll
	w.WriteString("pseudo-Boolean proof version 3.0\nf " + strconv.FormatInt(r.id, 10) + " ;\npbc")
	f.WriteObjective(w)
	w.WriteString(" >= " + strconv.FormatInt(bound, 10) + " : subproof\n")
	r.id++
	r.below = r.id
	if err := refute(r); err != nil {
		return 0, err
	}
	w.WriteString("qed : -1 ;\noutput NONE ;\n")
	upper = -f.Saving
	for _, c := range f.Costs {
		if values[c.Lit.Var()] == (c.Lit&1 == 0) {
			upper += c.Bytes
		}
	}
	w.WriteString("conclusion BOUNDS " + strconv.FormatInt(bound, 10) + " : " + strconv.FormatInt(r.id+1, 10) + " " + strconv.FormatInt(upper, 10) + " :")
	for v, is := range values {
		w.WriteByte(' ')
		l := model.Lit(2 * v)
		if !is {
			l = l.Not()
		}
		w.WriteString(f.Name(l))
	}
	w.WriteString(" ;\nend pseudo-Boolean proof ;\n")
	return upper, w.Flush()
}

// solution returns the values of the variables at the step of an order at which the node of
// the set runs.
func solution(p *model.Problem, f *model.Formula, order []int32) []bool {
	values := make([]bool, len(f.Names))
	pos := make([]int, len(order))
	for i, v := range order {
		pos[v] = i
	}
	v := decides(f, order, pos)
	for u, at := range pos {
		values[f.Ran[u]] = at < pos[v]
	}
	for j, z := range f.Zones {
		values[f.In[j].Var()] = within(z, pos, pos[v])
	}
	for u, behind := range f.Behind {
		values[behind] = pos[u] <= pos[v]
	}
	values[f.Runs[v].Var()] = true
	for _, x := range matching(p, v, pos) {
		values[f.Takes[model.Take{Node: v, Pair: x}]] = true
	}
	return completed(f, values, len(f.Ran)+len(f.Set))
}

// completed makes variables from one on true where a row needs them.
func completed(f *model.Formula, values []bool, from int) []bool {
	for _, row := range f.Rows {
		var needed model.Lit = -1
		holds := 0
		for _, l := range row.Lits {
			if values[l.Var()] == (l&1 == 0) {
				holds++
			} else if l&1 == 0 && int(l.Var()) >= from {
				needed = l
			}
		}
		if holds < row.Least && needed >= 0 {
			values[needed.Var()] = true
		}
	}
	return values
}

// decides returns the node of which a formula speaks in an order.
func decides(f *model.Formula, order []int32, pos []int) int32 {
	switch {
	case f.Zones != nil:
		step := 0
		for slices.ContainsFunc(f.Zones, func(z model.Zone) bool { return within(z, pos, step+1) }) {
			step++
		}
		return order[step]
	case f.Last:
		return slices.MaxFunc(f.Set, func(a, b int32) int { return pos[a] - pos[b] })
	}
	return slices.MinFunc(f.Set, func(a, b int32) int { return pos[a] - pos[b] })
}

// within reports whether the state before a step is in a zone.
func within(z model.Zone, pos []int, step int) bool {
	return !slices.ContainsFunc(z.In, func(u int32) bool { return pos[u] >= step }) &&
		!slices.ContainsFunc(z.Out, func(u int32) bool { return pos[u] < step })
}

// matching returns a largest choice of a node's pairs of which no tensor is in two, and of
// which no other reader runs later.
func matching(p *model.Problem, v int32, pos []int) (list []model.Pair) {
	options := map[int32][]int32{} // by result
	var results []int32
	for _, x := range p.Pairs[v] {
		if slices.ContainsFunc(p.Tensors[x.Over].Readers, func(r int32) bool { return pos[r] > pos[v] }) {
			continue
		}
		if options[x.Result] == nil {
			results = append(results, x.Result)
		}
		options[x.Result] = append(options[x.Result], x.Over)
	}
	holder := map[int32]int32{} // by overwritten tensor: the result
	var take func(result int32, tried map[int32]bool) bool
	take = func(result int32, tried map[int32]bool) bool {
		for _, over := range options[result] {
			if tried[over] {
				continue
			}
			tried[over] = true
			if other, held := holder[over]; !held || take(other, tried) {
				holder[over] = result
				return true
			}
		}
		return false
	}
	for _, result := range results {
		take(result, map[int32]bool{})
	}
	for over, result := range holder {
		list = append(list, model.Pair{Result: result, Over: over})
	}
	return list
}
