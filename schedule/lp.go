package schedule

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// WriteLP writes the problem as an integer program in CPLEX's LP format, so that any
// solver (HiGHS, CBC, SCIP, Gurobi) can find an order of the smallest peak and check
// ours. The optimum times the unit, which is the greatest common divisor of all sizes,
// is the smallest peak in bytes.
//
// It is OLLA's program for lifetimes (Steiner et al. 2022, equations 1 to 5, 13 and 14)
// with the reductions of their section 4.1 (equations 10 to 12). Addresses (equations 6
// to 9) are left to placement, as in their section 4.4. The program covers the whole
// model of this package: workspaces, outputs, inputs, tensors that nobody reads, the
// precedence of resident tensors and of tensors of 0 bytes, and in-place pairs, which
// OLLA does not have.
//
//	x3_5   node 3 runs at step 5: C of each of its outputs, which are equal by equation 5
//	p7_5   tensor 7 is held at step 5 and was made before: P
//	y2_5   in-place pair 2 is taken at step 5
//	peak   the largest load, in units
//
// Rows are named after their equations: c2_7_5 is equation 2 for tensor 7 at step 5. The
// names of rows that OLLA does not have begin with other letters:
//
//	s    one node runs at each step. No order is lost, and a node's possible steps follow
//	     from its numbers of ancestors and descendants, which is tighter than OLLA's
//	     longest paths
//	d    precedence by a tensor of 0 bytes
//	r    a pair is taken only if the other readers of the overwritten tensor have run
//	m    the pairs taken at a step are a matching
//
// OLLA's control edges (section 4.3) are left out: they can exclude every optimal order.
// p and y need not be declared integer, since they are integer whenever x is.
//
// The program has about nodes²/2 columns and as many rows for each tensor, so it suits
// small graphs only. O(V E / 64) time besides the output.
func WriteLP(w io.Writer, p *Problem) error {
	if err := p.Validate(); err != nil {
		return err
	}
	f := index(p)
	l := &lp{Graph: f, problem: p, w: bufio.NewWriter(w), unit: unit(f)}
	l.first, l.last = spans(f)
	l.header()
	l.rows()
	l.columns()
	return l.w.Flush()
}

// lp writes one program.
type lp struct {
	*indexed.Graph
	problem     *Problem
	w           *bufio.Writer
	unit        int64
	first, last []int // node -> the span of its steps
	row         lpRow
}

// unit returns the greatest common divisor of all sizes, or 1.
func unit(f *indexed.Graph) (unit int64) {
	for _, list := range [2][]int64{f.Size, f.Workspace} {
		for _, x := range list {
			for x != 0 {
				unit, x = x, unit%x
			}
		}
	}
	return max(unit, 1)
}

// spans returns the first and the last step at which each node can run: all its ancestors
// run before it, all its descendants after it. It counts them for 64 nodes at a time.
func spans(f *indexed.Graph) (first, last []int) {
	first, last = make([]int, f.Nodes), make([]int, f.Nodes)
	order := breadthFirst(f)
	preds := f.Precedence()
	reach := make([]uint64, f.Nodes) // node -> which of the 64 are its ancestors
	for from := 0; from < f.Nodes; from += 64 {
		clear(reach)
		for _, v := range order {
			for _, u := range preds.Of(v) {
				reach[v] |= reach[u]
				if i := int(u) - from; i >= 0 && i < 64 {
					reach[v] |= 1 << i
				}
			}
			for i := range min(64, f.Nodes-from) {
				if reach[v]>>i&1 == 1 {
					first[v]++
					last[from+i]++
				}
			}
		}
	}
	for v := range last {
		last[v] = f.Nodes - 1 - last[v]
	}
	return first, last
}

// lifetime returns two spans of steps, from the first to the last: those at which a tensor
// that was made earlier may be held, and those at which it must be (equations 11 and 12).
// A tensor without a producer counts as made before step 0. A span whose last step is
// less than its first is empty.
func (l *lp) lifetime(t int32) (may, must [2]int) {
	may, must = [2]int{0, -1}, [2]int{0, -1}
	if m := l.Producer[t]; m >= 0 {
		may[0], must[0] = l.first[m]+1, l.last[m]+1
	}
	for _, r := range l.Readers.Of(t) {
		may[1] = max(may[1], l.last[r])
		must[1] = max(must[1], l.first[r])
	}
	if l.Output[t] {
		may[1], must[1] = l.Nodes-1, l.Nodes-1
	}
	return may, must
}

// held adds coef times the tensor's P at a step to the row.
func (l *lp) held(coef int64, t int32, step int) {
	may, must := l.lifetime(t)
	switch {
	case step < may[0] || step > may[1]:
	case step >= must[0] && step <= must[1]:
		l.row.constant += coef
	default:
		l.row.add(coef, "p", int(t), step)
	}
}

// runs adds coef to the row if a node runs at a step.
func (l *lp) runs(coef int64, v int32, step int) {
	if step >= l.first[v] && step <= l.last[v] {
		l.row.add(coef, "x", int(v), step)
	}
}

// ran adds coef to the row if a node has run before a step.
func (l *lp) ran(coef int64, v int32, step int) {
	if step > l.last[v] {
		l.row.constant += coef
		return
	}
	for s := l.first[v]; s < step; s++ {
		l.row.add(coef, "x", int(v), s)
	}
}

func (l *lp) header() {
	fmt.Fprintf(l.w, "\\ The smallest peak of %.64q: %d nodes, %d tensors, %d in-place pairs.\n", l.problem.Name, l.Nodes, len(l.Size), len(l.Pairs))
	fmt.Fprintf(l.w, "\\ OLLA (Steiner et al. 2022), equations 1-5 and 10-14. One unit is %d bytes.\n", l.unit)
	for v := range l.Nodes {
		fmt.Fprintf(l.w, "\\ x%d_*: %s\n", v, l.problem.node(int32(v)))
	}
	for k, pair := range l.Pairs {
		fmt.Fprintf(l.w, "\\ y%d_*: %s over %s\n", k, l.problem.tensor(pair.Result), l.problem.tensor(pair.Over))
	}
	fmt.Fprintln(l.w, "Minimize\n peak: peak\nSubject To")
}

func (l *lp) rows() {
	for t, size := range l.Size {
		if size > 0 {
			l.tensorRows(int32(t))
		}
	}
	l.precedenceRows()
	for v := range int32(l.Nodes) {
		for step := l.first[v]; step <= l.last[v]; step++ {
			l.runs(1, v, step)
		}
		l.end("=", 1, "c3", int(v))
	}
	for step := range l.Nodes {
		for v := range int32(l.Nodes) {
			l.runs(1, v, step)
		}
		l.end("=", 1, "s", step)
	}
	l.pairRows()
	l.loadRows()
}

// tensorRows writes equations 1, 2 and 4 for a tensor, and 12 for an output.
func (l *lp) tensorRows(t int32) {
	may, must := l.lifetime(t)
	m := l.Producer[t]
	for step := may[0]; step <= may[1]; step++ {
		if m >= 0 && step <= l.last[m] {
			l.held(1, t, step)
			l.runs(1, m, step)
			l.end("<=", 1, "c1", int(t), step)
		}
		if (m >= 0 || step > 0) && (step <= must[0] || step-1 > must[1]) {
			l.held(1, t, step)
			l.held(-1, t, step-1)
			if m >= 0 {
				l.runs(-1, m, step-1)
			}
			l.end("<=", 0, "c2", int(t), step)
		}
	}
	for _, r := range l.Readers.Of(t) {
		for step := l.first[r]; step <= l.last[r]; step++ {
			l.runs(1, r, step)
			l.held(-1, t, step)
			l.end("<=", 0, "c4", int(t), int(r), step)
		}
	}
	if end := l.Nodes - 1; l.Output[t] && m >= 0 && l.last[m] == end {
		l.held(1, t, end)
		l.runs(1, m, end)
		l.end("=", 1, "c12", int(t))
	}
}

// precedenceRows writes the precedence of tensors of 0 bytes, unless it follows from a
// tensor with bytes.
func (l *lp) precedenceRows() {
	ordered := make([]int32, l.Nodes) // node -> 1 + the last reader ordered after it
	for r := range int32(l.Nodes) {
		for _, bytes := range []bool{true, false} {
			for _, t := range l.Reads.Of(r) {
				m := l.Producer[t]
				if m < 0 || ordered[m] == r+1 || l.Size[t] > 0 != bytes {
					continue
				}
				ordered[m] = r + 1
				if bytes {
					continue
				}
				for step := l.first[r]; step <= l.last[r]; step++ {
					l.runs(1, r, step)
					l.ran(-1, m, step)
					l.end("<=", 0, "d", int(t), int(r), step)
				}
			}
		}
	}
}

// takes adds coef to the row if a pair is taken at a step. That is impossible before the
// other readers of the overwritten tensor can have run.
func (l *lp) takes(coef int64, k, step int) {
	pair := l.Pairs[k]
	for _, r := range l.Readers.Of(pair.Over) {
		if r != pair.Node && step <= l.first[r] {
			return
		}
	}
	if step >= l.first[pair.Node] && step <= l.last[pair.Node] {
		l.row.add(coef, "y", k, step)
	}
}

// pairRows allows a node, at its step, a matching of those of its pairs whose overwritten
// tensor has no other reader left.
func (l *lp) pairRows() {
	for k, pair := range l.Pairs {
		for step := l.first[pair.Node]; step <= l.last[pair.Node]; step++ {
			for _, r := range l.Readers.Of(pair.Over) {
				if r != pair.Node && step <= l.last[r] {
					l.takes(1, k, step)
					if l.row.count > 0 {
						l.ran(-1, r, step)
					}
					l.end("<=", 0, "r", k, int(r), step)
				}
			}
			for _, same := range []func(Pair) int32{
				func(p Pair) int32 { return p.Result },
				func(p Pair) int32 { return p.Over },
			} {
				if slices.ContainsFunc(l.PairsOf(pair.Node)[:k-int(l.PairStart[pair.Node])], func(p Pair) bool { return same(p) == same(pair) }) {
					continue // the row of the first such pair covers all of them
				}
				for j := int(l.PairStart[pair.Node]); j < int(l.PairStart[pair.Node+1]); j++ {
					if same(l.Pairs[j]) == same(pair) {
						l.takes(1, j, step)
					}
				}
				if l.row.count > 0 {
					l.runs(-1, pair.Node, step)
				}
				l.end("<=", 0, "m", k, int(same(pair)), step)
			}
		}
	}
}

// loadRows writes equation 13. In a problem without nodes, the load is that of the inputs.
func (l *lp) loadRows() {
	_, idle := l.InputBytes()
	for step := range max(1, l.Nodes) {
		if step == 0 {
			l.row.constant = idle / l.unit
		}
		for v := range int32(l.Nodes) {
			need := l.Workspace[v]
			for _, t := range l.Makes.Of(v) {
				need += l.Size[t]
			}
			if need > 0 {
				l.runs(need/l.unit, v, step)
			}
		}
		for t, size := range l.Size {
			switch {
			case size == 0:
			case l.Nodes > 0:
				l.held(size/l.unit, int32(t), step)
			case l.Output[t]:
				l.row.constant += size / l.unit
			}
		}
		for k, pair := range l.Pairs {
			l.takes(-l.Size[pair.Over]/l.unit, k, step)
		}
		l.row.text(-1, "peak")
		l.end("<=", 0, "c13", step)
	}
}

// columns writes the bounds and the kinds of the variables.
func (l *lp) columns() {
	fmt.Fprintln(l.w, "Bounds")
	for t, size := range l.Size {
		may, must := l.lifetime(int32(t))
		for step := may[0]; size > 0 && step <= may[1]; step++ {
			if step < must[0] || step > must[1] {
				fmt.Fprintf(l.w, " p%d_%d <= 1\n", t, step)
			}
		}
	}
	fmt.Fprintln(l.w, "Binaries")
	for v := range l.Nodes {
		for step := l.first[v]; step <= l.last[v]; step++ {
			fmt.Fprintf(l.w, " x%d_%d\n", v, step)
		}
	}
	fmt.Fprintln(l.w, "Generals\n peak\nEnd")
}

// lpRow is the row that is being built.
type lpRow struct {
	terms    []byte
	line     int   // where its last line begins in terms
	count    int   // of terms
	sum      int64 // of the coefficients
	constant int64 // on the left side
}

func (r *lpRow) add(coef int64, kind string, i, step int) {
	r.text(coef, kind+strconv.Itoa(i)+"_"+strconv.Itoa(step))
}

// text adds a term. It breaks lines, since some readers limit their length.
func (r *lpRow) text(coef int64, name string) {
	r.count++
	r.sum += coef
	if len(r.terms)-r.line > 200 {
		r.terms = append(r.terms, "\n "...)
		r.line = len(r.terms)
	}
	switch {
	case coef < 0:
		r.terms = append(r.terms, " -"...)
	case r.count > 1:
		r.terms = append(r.terms, " +"...)
	}
	if coef = max(coef, -coef); coef != 1 {
		r.terms = append(r.terms, ' ')
		r.terms = strconv.AppendInt(r.terms, coef, 10)
	}
	r.terms = append(append(r.terms, ' '), name...)
}

// end writes the row, unless it follows from the bounds of its variables, and begins the
// next row.
func (l *lp) end(relation string, right int64, name string, index ...int) {
	right -= l.row.constant
	implied := l.row.count == 1 && l.row.sum == 1 && relation == "<=" && right >= 1
	if l.row.count > 0 && !implied {
		l.w.WriteString(" " + name)
		for _, i := range index {
			l.w.WriteString("_" + strconv.Itoa(i))
		}
		fmt.Fprintf(l.w, ":%s %s %d\n", l.row.terms, relation, right)
	}
	l.row = lpRow{terms: l.row.terms[:0]}
}
