package alloc

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/ilp"
)

// ILP is a problem as an integer program: OLLA's for offsets given lifetimes (Steiner et
// al. 2022, equation 15). Encode and Decode translate between its solutions and ours.
//
// Its columns are
//
//	A7     the offset of buffer 7, in units or, if that is more, in its alignment
//	a2_7   buffer 2 lies below buffer 7
//	b2_7   buffer 2 lies above buffer 7; only where it is not 1 - a
//	peak   the arena, in units
//
// Rows are named after OLLA's equations: c6_2_7, c7a_2_7 and c7b_2_7 keep buffers 2 and 7
// apart, c8_7 keeps buffer 7 below peak. Buffers with gaps are kept apart area by area, with
// a number more in the names. The columns A need not be declared integer unless they have
// an alignment: for any a and b, the program that is left has an optimum of integers.
type ILP struct {
	ilp.Program
	Unit int64 // bytes: a common divisor of sizes, fixed offsets and gaps; peak counts these
	Peak int   // the index of the column peak

	problem Problem
	opt     ILPOptions
	buffers []ilpBuffer // those of more than 0 bytes
	couples []couple
}

// ILPOptions says which program to build. The zero value is the program with all
// reductions, whose optimum is the smallest arena.
type ILPOptions struct {
	// These leave out reductions. None of them changes the optimum.
	NoDisjoint bool // section 4.2: no rows for buffers that are never live together
	NoMerging  bool // b = 1 - a for buffers that are live together (equation 6)
	NoLoads    bool // the largest load as lower bound of peak

	// Pyramid fixes the offsets of buffers whose lifetimes lie in one another, the longest
	// lowest (section 4.5, function 5). That can exclude every optimal placement. If the
	// problem has fixed offsets, they stay the only ones.
	Pyramid bool

	// Known bounds of the optimum, in bytes; 0: none. They become the bounds of peak, and
	// UpperBound also OLLA's M, which is the sum of all sizes otherwise.
	LowerBound, UpperBound int64
}

// ilpBuffer is a buffer with a column.
type ilpBuffer struct {
	index  int
	size   int64  // in units, as is the next
	align  int64  // what its column counts
	fixed  *int64 // in bytes
	column int
	areas  []area // in bytes
}

// couple is two buffers, by index into ILP.buffers, and an area of each that are live
// together; or any two, if those that are never together are not left out.
type couple struct {
	low, high         int
	lowArea, highArea area
	together          bool
	a, b              int // columns; b is -1 if it is 1 - a
}

// mostTerms is the most columns, rows and terms, all together, that a program may have: it
// takes a gigabyte then. Solvers give up long before.
const mostTerms = 1 << 25

// ILP returns the problem as an integer program. It has up to two columns and four rows for
// each pair of buffers that are live together. It fails if the problem is not valid, or if
// the program would have more than 33,554,432 columns, rows and terms.
func (p Problem) ILP(opt ILPOptions) (*ILP, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if pairs := p.pairsTogether(opt.NoDisjoint); pairs > mostTerms/10 { // each makes ten columns, rows and terms or so
		return nil, fmt.Errorf("integer program of %d buffers, %d pairs of which must be kept apart: expected at most %d columns, rows and terms, which these exceed", len(p.Buffers), pairs, mostTerms)
	}
	g := &ILP{problem: p, opt: opt, Unit: p.unit()}
	g.Name = "arena"
	pyramid := map[int]int64{}
	if opt.Pyramid {
		pyramid = p.pyramid()
	}
	most := g.most()
	for i, b := range p.Buffers {
		if b.Size == 0 {
			continue
		}
		fixed := b.Fixed
		if off, ok := pyramid[i]; ok {
			fixed = &off
		}
		x := ilpBuffer{index: i, size: p.size(i) / g.Unit, align: max(1, p.align(i)/g.Unit), fixed: fixed, areas: p.areas(i)}
		column := ilp.Column{Name: fmt.Sprint("A", i), Upper: max(0, most-x.size) / x.align, Integer: x.align > 1}
		if fixed != nil {
			column.Lower = *fixed / (x.align * g.Unit)
			column.Upper = column.Lower
		}
		x.column = g.Add(column)
		g.buffers = append(g.buffers, x)
	}
	g.findCouples()
	g.Peak = len(g.Columns)
	peak := ilp.Column{Name: "peak", Upper: most, Integer: true, Objective: 1}
	for _, low := range []int64{opt.LowerBound, g.load()} {
		peak.Lower = max(peak.Lower, (low+g.Unit-1)/g.Unit)
	}
	peak.Lower = min(peak.Lower, peak.Upper)
	g.Add(peak)
	for i := range g.couples {
		g.coupleRows(&g.couples[i], most)
	}
	for i := range g.buffers {
		b := &g.buffers[i]
		g.row(fmt.Sprint("c8_", b.index), -b.size, ilp.Term{Column: b.column, Coefficient: b.align}, ilp.Term{Column: g.Peak, Coefficient: -1})
	}
	return g, nil
}

// pairsTogether counts the pairs of buffers that are live together, or all pairs.
func (p Problem) pairsTogether(all bool) (n int) {
	if all {
		return len(p.Buffers) * (len(p.Buffers) - 1) / 2
	}
	var firsts, lasts []int
	for _, b := range p.Buffers {
		firsts, lasts = append(firsts, b.First), append(lasts, b.Last)
	}
	slices.Sort(firsts)
	slices.Sort(lasts)
	ended := 0
	for i, first := range firsts { // together with those that began before it and have not ended
		for lasts[ended] < first {
			ended++
		}
		n += i - ended
	}
	return n
}

// load is the largest load, unless it is left out.
func (g *ILP) load() int64 {
	if g.opt.NoLoads {
		return 0
	}
	return g.problem.MaxLoad()
}

// unit returns a number of bytes, the larger the better, such that some optimum has multiples
// of it as offsets. Pushed down, each buffer lies at a fixed offset, or at the first aligned
// one at or above what is below it. It divides all sizes, gaps and fixed offsets, and each
// alignment divides it or is a multiple of it.
func (p Problem) unit() (unit int64) {
	for i, b := range p.Buffers {
		if b.Size == 0 {
			continue
		}
		unit = gcd(unit, p.size(i))
		if b.Fixed != nil {
			unit = gcd(unit, *b.Fixed)
		}
		for _, a := range p.areas(i) {
			unit = gcd(gcd(unit, a.from), a.to)
		}
	}
	for changed := true; changed; {
		changed = false
		for i, b := range p.Buffers {
			if b.Size > 0 && unit%p.align(i) != 0 && p.align(i)%unit != 0 {
				unit, changed = gcd(unit, p.align(i)), true
			}
		}
	}
	return max(unit, 1)
}

// most returns an upper bound of the arena, in units: OLLA's M.
func (g *ILP) most() (sum int64) {
	var base int64
	for i, b := range g.problem.Buffers {
		if b.Size == 0 {
			continue
		}
		sum += g.problem.size(i) + max(0, g.problem.align(i)-g.Unit)
		if b.Fixed != nil {
			base = max(base, *b.Fixed)
		}
	}
	sum += base
	if known := g.opt.UpperBound; known > 0 {
		sum = min(sum, known)
	}
	return sum / g.Unit
}

// findCouples makes the columns a and b.
func (g *ILP) findCouples() {
	type areas struct{ from, to, from2, to2 int64 }
	for i := range g.buffers {
		for j := i + 1; j < len(g.buffers); j++ {
			low, high := &g.buffers[i], &g.buffers[j]
			if low.fixed != nil && high.fixed != nil {
				continue
			}
			known := map[areas]bool{} // several areas may ask for the same
			name := fmt.Sprint(low.index, "_", high.index)
			add := func(c couple) {
				if n := len(known); n > 1 {
					name = fmt.Sprint(low.index, "_", high.index, "_", n-1)
				}
				c.low, c.high, c.b = i, j, -1
				c.a = g.Add(ilp.Column{Name: "a" + name, Upper: 1, Integer: true})
				if g.opt.NoMerging || !c.together {
					c.b = g.Add(ilp.Column{Name: "b" + name, Upper: 1, Integer: true})
				}
				g.couples = append(g.couples, c)
			}
			for _, x := range low.areas {
				for _, y := range high.areas {
					key := areas{x.from, x.to, y.from, y.to}
					if x.first <= y.last && y.first <= x.last && !known[key] {
						known[key] = true
						add(couple{lowArea: x, highArea: y, together: true})
					}
				}
			}
			if g.opt.NoDisjoint && len(known) == 0 {
				add(couple{lowArea: area{to: low.size * g.Unit}, highArea: area{to: high.size * g.Unit}})
			}
		}
	}
}

// coupleRows makes equations 6, 7a and 7b.
func (g *ILP) coupleRows(c *couple, most int64) {
	low, high := &g.buffers[c.low], &g.buffers[c.high]
	name := strings.TrimPrefix(g.Columns[c.a].Name, "a")
	above := ilp.Term{Column: c.b, Coefficient: most}
	aboveRight := most
	if c.b < 0 {
		above, aboveRight = ilp.Term{Column: c.a, Coefficient: -most}, 0
	} else {
		one := ilp.Row{Name: "c6_" + name, Lower: -ilp.Unbounded, Upper: 1, Terms: []ilp.Term{{Column: c.a, Coefficient: 1}, {Column: c.b, Coefficient: 1}}}
		if c.together {
			one.Lower = 1
		}
		g.Rows = append(g.Rows, one)
	}
	g.row("c7a_"+name, most-(c.lowArea.to-c.highArea.from)/g.Unit,
		ilp.Term{Column: low.column, Coefficient: low.align}, ilp.Term{Column: high.column, Coefficient: -high.align}, ilp.Term{Column: c.a, Coefficient: most})
	g.row("c7b_"+name, aboveRight-(c.highArea.to-c.lowArea.from)/g.Unit,
		ilp.Term{Column: high.column, Coefficient: high.align}, ilp.Term{Column: low.column, Coefficient: -low.align}, above)
}

func (g *ILP) row(name string, upper int64, terms ...ilp.Term) {
	g.Rows = append(g.Rows, ilp.Row{Name: name, Lower: -ilp.Unbounded, Upper: upper, Terms: terms})
}

// pyramid returns the offsets that OLLA fixes beforehand (section 4.5, function 5): of the
// buffers within the lifetime of the last one, it takes the one with the longest lifetime
// and puts it on top of it. A buffer that lives for one step is not worth it.
func (p Problem) pyramid() map[int]int64 {
	offsets := map[int]int64{}
	for _, b := range p.Buffers {
		if b.Fixed != nil {
			return offsets
		}
	}
	var base int64
	outer := -1
	for {
		longest := -1
		for i, b := range p.Buffers {
			if _, placed := offsets[i]; placed || b.Size == 0 || b.Last == b.First {
				continue
			}
			if outer >= 0 && (b.First < p.Buffers[outer].First || b.Last > p.Buffers[outer].Last) {
				continue
			}
			if longest < 0 || b.Last-b.First > p.Buffers[longest].Last-p.Buffers[longest].First {
				longest = i
			}
		}
		if longest < 0 {
			return offsets
		}
		offsets[longest] = roundUp(base, p.align(longest))
		base = offsets[longest] + p.size(longest)
		outer = longest
	}
}

// Comment describes the program: its size, its unit and its buffers.
func (g *ILP) Comment() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The smallest arena of %d buffers.\n", len(g.problem.Buffers))
	fmt.Fprintf(&b, "OLLA (Steiner et al. 2022), equations 6-8 and 15. One unit is %d bytes.\n", g.Unit)
	for _, x := range g.buffers {
		buffer := &g.problem.Buffers[x.index]
		fmt.Fprintf(&b, "A%d: %s, steps %d-%d", x.index, g.problem.name(x.index), buffer.First, buffer.Last)
		if x.align > 1 {
			fmt.Fprintf(&b, ", in %d units", x.align)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// WriteLP writes the program in CPLEX's LP format, with comments that name the buffers.
func (g *ILP) WriteLP(w io.Writer) error { return g.Program.WriteLP(w, g.Comment()) }

// Encode returns the values of the columns for a placement, with offsets rounded down to the
// unit: the start solution for a solver. It fails if the placement is not valid or not one of the program, which fixes
// some offsets by Pyramid and bounds the arena by UpperBound.
func (g *ILP) Encode(a Placement) ([]int64, error) {
	if err := g.problem.CheckSweep(a); err != nil {
		return nil, err
	}
	x := make([]int64, len(g.Columns))
	at := func(b *ilpBuffer) int64 { return a.Offsets[b.index] }
	for i := range g.buffers {
		b := &g.buffers[i]
		x[b.column] = at(b) / (b.align * g.Unit)
		x[g.Peak] = max(x[g.Peak], x[b.column]*b.align+b.size)
	}
	for _, c := range g.couples {
		below := at(&g.buffers[c.low])+c.lowArea.to <= at(&g.buffers[c.high])+c.highArea.from
		switch {
		case !c.together:
		case below:
			x[c.a] = 1
		case c.b >= 0:
			x[c.b] = 1
		}
	}
	x[g.Peak] = max(x[g.Peak], g.Columns[g.Peak].Lower)
	_, err := g.Value(x)
	return x, err
}

// Decode returns the placement of a solution: one integer per column. It fails if the
// values break a row or a bound. [Problem.Check] checks the placement itself.
func (g *ILP) Decode(values []int64) (Placement, error) {
	if _, err := g.Value(values); err != nil {
		return Placement{}, err
	}
	a := Placement{Offsets: make([]int64, len(g.problem.Buffers))}
	for _, b := range g.buffers {
		a.Offsets[b.index] = values[b.column] * b.align * g.Unit
		a.Arena = max(a.Arena, a.Offsets[b.index]+g.problem.size(b.index))
	}
	return a, nil
}
