package schedule

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/ilp"
)

// builder builds one program. Its rows take terms one by one; constants of the left side,
// such as those of a tensor that must be held, go to the right.
type builder struct {
	layout
	problem  *Problem
	program  *ILP
	row      []ilp.Term
	constant int64      // on the left side of the row
	kept     []ilp.Term // the terms of finished rows: many short slices in one
	terms    int        // of all rows
}

// build makes columns and rows. It stops when the program has become too large.
func (b *builder) build() error {
	if b.columnsAtLeast() > mostTerms/4 { // each column stands in three rows or so
		return b.refuse()
	}
	for _, make := range []func(){
		b.columns, b.tensorRows, b.precedenceRows, b.nodeRows, b.pairRows, b.loadRows, b.offsetRows,
	} {
		make()
		if b.tooLarge() {
			return b.refuse()
		}
	}
	return nil
}

// columnsAtLeast counts the columns x and p before there is one.
func (b *builder) columnsAtLeast() (n int) {
	for v := range b.first {
		n += b.last[v] - b.first[v] + 1
	}
	for t, size := range b.Size {
		may, must := b.lifetime(int32(t))
		if size > 0 {
			n += max(0, may[1]-may[0]+1) - max(0, must[1]-must[0]+1)
		}
	}
	return n
}

func (b *builder) refuse() error {
	return fmt.Errorf("integer program of %d nodes and %d tensors: expected at most %d columns, rows and terms, which these exceed",
		b.Nodes, len(b.Size), mostTerms)
}

func (b *builder) tooLarge() bool {
	return len(b.program.Columns)+len(b.program.Rows)+b.terms > mostTerms
}

// columns makes the columns, except those of offsets.
func (b *builder) columns() {
	add := func(kind string, i, step int, upper int64, integer bool) {
		if !b.tooLarge() {
			b.program.Add(ilp.Column{Name: indexName(kind, i, step), Upper: upper, Integer: integer})
		}
	}
	next := func() int { return len(b.program.Columns) }
	b.x = make([]int, b.Nodes)
	for v := range b.x {
		b.x[v] = next()
		for step := b.first[v]; step <= b.last[v]; step++ {
			add("x", v, step, 1, true)
		}
	}
	b.c = make([]int, len(b.Size))
	separate := make([]bool, b.Nodes) // the column x is that of another of its tensors
	for t, m := range b.Producer {
		if m < 0 || b.Size[t] == 0 {
			continue
		}
		b.c[t] = b.x[m]
		if b.opt.NoMerging && separate[m] {
			b.c[t] = next()
			for step := b.first[m]; step <= b.last[m]; step++ {
				add("c", t, step, 1, true)
			}
		}
		separate[m] = true
	}
	b.may, b.must, b.p = make([][2]int, len(b.Size)), make([][2]int, len(b.Size)), make([]int, len(b.Size))
	for t := range b.Size {
		b.may[t], b.must[t] = b.lifetime(int32(t))
		b.p[t] = next()
		for step := b.may[t][0]; b.Size[t] > 0 && step <= b.may[t][1]; step++ {
			if step < b.must[t][0] || step > b.must[t][1] {
				add("p", t, step, 1, false)
			}
		}
	}
	b.y, b.from = make([]int, len(b.Pairs)), make([]int, len(b.Pairs))
	for k, pair := range b.Pairs {
		b.y[k], b.from[k] = next(), b.first[pair.Node]
		for _, r := range b.Readers.Of(pair.Over) {
			if r != pair.Node {
				b.from[k] = max(b.from[k], b.first[r]+1) // the other readers must have run
			}
		}
		for step := b.from[k]; step <= b.last[pair.Node]; step++ {
			add("y", k, step, 1, false)
		}
	}
	b.program.Peak = next()
	peak := ilp.Column{Name: "peak", Upper: b.most(), Integer: true, Objective: 1}
	if low := b.opt.LowerBound; low > 0 {
		peak.Lower = min((low-1)/b.program.Unit+1, peak.Upper)
	}
	b.program.Add(peak)
}

// most returns an upper bound of the optimum, in units.
func (b *builder) most() (sum int64) {
	for _, list := range [2][]int64{b.Size, b.Workspace} {
		for _, size := range list {
			sum += size / b.program.Unit
		}
	}
	if known := b.opt.UpperBound; known > 0 {
		sum = min(sum, known/b.program.Unit)
	}
	return sum
}

func indexName(kind string, index ...int) string {
	name := append(make([]byte, 0, 16), kind...)
	for i, x := range index {
		if i > 0 {
			name = append(name, '_')
		}
		name = strconv.AppendInt(name, int64(x), 10)
	}
	return string(name)
}

// add adds a term to the row.
func (b *builder) add(coef int64, column int) {
	b.row = append(b.row, ilp.Term{Column: column, Coefficient: coef})
}

// held adds coef times the tensor's P at a step to the row.
func (b *builder) held(coef int64, t int32, step int) {
	if column, held := b.heldAt(t, step); column >= 0 {
		b.add(coef, column)
	} else {
		b.constant += coef * held
	}
}

// runs adds coef to the row if a node runs at a step.
func (b *builder) runs(coef int64, v int32, step int) {
	if step >= b.first[v] && step <= b.last[v] {
		b.add(coef, b.x[v]+step-b.first[v])
	}
}

// made adds coef times the tensor's C at a step to the row.
func (b *builder) made(coef int64, t int32, step int) {
	if m := b.Producer[t]; m >= 0 && step >= b.first[m] && step <= b.last[m] {
		b.add(coef, b.c[t]+step-b.first[m])
	}
}

// ran adds coef to the row if a node has run before a step.
func (b *builder) ran(coef int64, v int32, step int) {
	if step > b.last[v] {
		b.constant += coef
		return
	}
	for s := b.first[v]; s < step; s++ {
		b.runs(coef, v, s)
	}
}

// takes adds coef to the row if a pair is taken at a step.
func (b *builder) takes(coef int64, k, step int) {
	if step >= b.from[k] && step <= b.last[b.Pairs[k].Node] {
		b.add(coef, b.y[k]+step-b.from[k])
	}
}

// atMost ends the row, unless it follows from the bounds of its columns, and begins the
// next one.
func (b *builder) atMost(right int64, name string, index ...int) {
	right -= b.constant
	if len(b.row) == 1 && b.row[0].Coefficient == 1 && right >= 1 {
		b.row = b.row[:0]
	}
	b.end(-ilp.Unbounded, right, name, index)
}

// exactly is atMost for an equation.
func (b *builder) exactly(right int64, name string, index ...int) {
	right -= b.constant
	b.end(right, right, name, index)
}

func (b *builder) end(lower, upper int64, name string, index []int) {
	if len(b.row) > 0 && !b.tooLarge() {
		if cap(b.kept)-len(b.kept) < len(b.row) {
			b.kept = make([]ilp.Term, 0, max(1<<12, len(b.row)))
		}
		from := len(b.kept)
		b.kept = append(b.kept, b.row...)
		if len(index) > 0 {
			name += "_"
		}
		b.program.Rows = append(b.program.Rows, ilp.Row{
			Name: indexName(name, index...), Lower: lower, Upper: upper, Terms: b.kept[from:len(b.kept):len(b.kept)],
		})
		b.terms += len(b.row)
	}
	b.row, b.constant = b.row[:0], 0
}

// tensorRows makes equations 1, 2 and 4 for each tensor with bytes, and 12 for an output.
func (b *builder) tensorRows() {
	for t := range int32(len(b.Size)) {
		if b.Size[t] == 0 || b.tooLarge() {
			continue
		}
		may, must := b.may[t], b.must[t]
		m := b.Producer[t]
		for step := may[0]; step <= may[1]; step++ {
			if m >= 0 && step <= b.last[m] {
				b.held(1, t, step)
				b.made(1, t, step)
				b.atMost(1, "c1", int(t), step)
			}
			if (m >= 0 || step > 0) && (step <= must[0] || step-1 > must[1]) {
				b.held(1, t, step)
				b.held(-1, t, step-1)
				b.made(-1, t, step-1)
				b.atMost(0, "c2", int(t), step)
			}
		}
		for _, r := range b.Readers.Of(t) {
			for step := b.first[r]; step <= b.last[r]; step++ {
				b.runs(1, r, step)
				b.held(-1, t, step)
				b.atMost(0, "c4", int(t), int(r), step)
				for _, o := range b.separate(r) {
					b.made(1, o, step)
					b.held(-1, t, step)
					b.atMost(0, "c4", int(t), int(r), step, int(o))
				}
			}
		}
		if end := b.Nodes - 1; b.Output[t] && end >= 0 && (m >= 0 && b.last[m] == end || b.opt.NoPreserved) {
			b.held(1, t, end)
			b.made(1, t, end)
			b.exactly(1, "c12", int(t))
		}
	}
}

// separate returns the tensors of a node that have columns of their own.
func (b *builder) separate(v int32) (list []int32) {
	if !b.opt.NoMerging {
		return nil
	}
	for _, t := range b.Makes.Of(v) {
		if b.Size[t] > 0 && b.c[t] != b.x[v] {
			list = append(list, t)
		}
	}
	return list
}

// precedenceRows makes the precedence of tensors of 0 bytes, unless it follows from a
// tensor with bytes.
func (b *builder) precedenceRows() {
	ordered := make([]int32, b.Nodes) // node -> 1 + the last reader ordered after it
	for r := range int32(b.Nodes) {
		for _, bytes := range []bool{true, false} {
			for _, t := range b.Reads.Of(r) {
				m := b.Producer[t]
				if m < 0 || ordered[m] == r+1 || b.Size[t] > 0 != bytes || b.tooLarge() {
					continue
				}
				ordered[m] = r + 1
				if bytes {
					continue
				}
				for step := b.first[r]; step <= b.last[r]; step++ {
					b.runs(1, r, step)
					b.ran(-1, m, step)
					b.atMost(0, "d", int(t), int(r), step)
				}
			}
		}
	}
}

// nodeRows makes equation 3 and, where outputs have columns of their own, 5. Then come the
// rows s.
func (b *builder) nodeRows() {
	for v := range int32(b.Nodes) {
		for step := b.first[v]; step <= b.last[v]; step++ {
			b.runs(1, v, step)
		}
		b.exactly(1, "c3", int(v))
		for _, t := range b.separate(v) {
			for step := b.first[v]; step <= b.last[v]; step++ {
				b.made(1, t, step)
			}
			b.exactly(1, "c3", int(v), int(t))
			for step := b.first[v]; step <= b.last[v]; step++ {
				b.made(1, t, step)
				b.runs(-1, v, step)
				b.exactly(0, "c5", int(t), step)
			}
		}
	}
	if b.opt.NoSequence {
		return
	}
	at := make([][]int32, b.Nodes) // step -> the nodes that may run at it
	for v := range int32(b.Nodes) {
		for step := b.first[v]; step <= b.last[v]; step++ {
			at[step] = append(at[step], v)
		}
	}
	for step, nodes := range at {
		for _, v := range nodes {
			b.runs(1, v, step)
		}
		b.exactly(1, "s", step)
	}
}

// pairRows allows a node, at its step, a matching of those of its pairs whose overwritten
// tensor has no other reader left.
func (b *builder) pairRows() {
	for k, pair := range b.Pairs {
		for step := b.first[pair.Node]; step <= b.last[pair.Node] && !b.tooLarge(); step++ {
			for _, r := range b.Readers.Of(pair.Over) {
				if r == pair.Node || step > b.last[r] {
					continue
				}
				b.takes(1, k, step)
				if len(b.row) > 0 {
					b.ran(-1, r, step)
				}
				b.atMost(0, "r", k, int(r), step)
			}
			for _, same := range []func(Pair) int32{
				func(p Pair) int32 { return p.Result },
				func(p Pair) int32 { return p.Over },
			} {
				if slices.ContainsFunc(b.PairsOf(pair.Node)[:k-int(b.PairStart[pair.Node])], func(p Pair) bool { return same(p) == same(pair) }) {
					continue // the row of the first such pair covers all of them
				}
				for j := int(b.PairStart[pair.Node]); j < int(b.PairStart[pair.Node+1]); j++ {
					if same(b.Pairs[j]) == same(pair) {
						b.takes(1, j, step)
					}
				}
				if len(b.row) > 0 {
					b.runs(-1, pair.Node, step)
				}
				b.atMost(0, "m", k, int(same(pair)), step)
			}
		}
	}
}

// loadRows makes equation 13. In a problem without nodes, the load is that of the inputs.
func (b *builder) loadRows() {
	if b.opt.Offsets && b.opt.NoLoads {
		return
	}
	unit := b.program.Unit
	_, idle := b.InputBytes()
	for step := range max(1, b.Nodes) {
		if step == 0 {
			b.constant = idle / unit
		}
		for v := range int32(b.Nodes) {
			if step < b.first[v] || step > b.last[v] {
				continue
			}
			need := b.Workspace[v]
			for _, t := range b.Makes.Of(v) {
				if b.Size[t] > 0 && b.c[t] != b.x[v] {
					b.made(b.Size[t]/unit, t, step)
				} else {
					need += b.Size[t]
				}
			}
			if need > 0 {
				b.runs(need/unit, v, step)
			}
		}
		for t, size := range b.Size {
			switch {
			case size == 0:
			case b.Nodes > 0:
				b.held(size/unit, int32(t), step)
			case b.Output[t]:
				b.constant += size / unit
			}
		}
		for k, pair := range b.Pairs {
			b.takes(-b.Size[pair.Over]/unit, k, step)
		}
		b.add(-1, b.program.Peak)
		b.atMost(0, "c13", step)
		if b.tooLarge() {
			return
		}
	}
}
