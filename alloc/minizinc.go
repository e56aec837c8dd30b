package alloc

import (
	"bufio"
	"fmt"
	"io"
)

// WriteMiniZinc writes the problem as a MiniZinc model with its data: offsets, and for any
// two areas that are live together that one lies below the other. It shares nothing with
// the integer program of [Problem.ILP], and any solver that MiniZinc knows can check an
// optimum. All numbers are in units of their greatest common divisor, and so is the
// optimum. Buffers of 0 bytes are left out.
func WriteMiniZinc(w io.Writer, p Problem) error {
	if err := p.Validate(); err != nil {
		return err
	}
	m := miniZinc{w: bufio.NewWriter(w)}
	m.data(p)
	m.w.WriteString(miniZincModel)
	return m.w.Flush()
}

// miniZincModel is the same for all problems.
const miniZincModel = `
array[BUFFER] of var 0..total: offset;
constraint forall(b in BUFFER)(offset[b] mod align[b] = 0);
constraint forall(b in BUFFER where fixed[b] >= 0)(offset[b] = fixed[b]);

% Areas of two buffers that are live together lie one below the other.
constraint forall(x, y in AREA where x < y /\ buffer[x] != buffer[y] /\ first[x] <= last[y] /\ first[y] <= last[x])(
	offset[buffer[x]] + to[x] <= offset[buffer[y]] + from[y] \/ offset[buffer[y]] + to[y] <= offset[buffer[x]] + from[x]);

var 0..total: arena = max([0] ++ [offset[b] + size[b] | b in BUFFER]);

solve minimize arena;
output ["arena = \(arena); offset = \(offset);\n"];
`

type miniZinc struct {
	w *bufio.Writer
}

// data writes the problem.
func (m *miniZinc) data(p Problem) {
	unit := p.unit()
	fmt.Fprintf(m.w, "%% The smallest arena of %d buffers. One unit is %d bytes.\n\n", len(p.Buffers), unit)
	var size, align, fixed []int64
	var buffer, first, last, from, to []int64
	var total, highest int64
	for i, b := range p.Buffers {
		if b.Size == 0 {
			continue
		}
		fmt.Fprintf(m.w, "%% %d: %s\n", len(size), p.name(i))
		for _, a := range p.areas(i) {
			buffer = append(buffer, int64(len(size)))
			first, last = append(first, int64(a.first)), append(last, int64(a.last))
			from, to = append(from, a.from/unit), append(to, a.to/unit)
		}
		size, align, fixed = append(size, p.size(i)/unit), append(align, max(1, p.align(i)/unit)), append(fixed, -1)
		if b.Fixed != nil {
			fixed[len(fixed)-1] = *b.Fixed / unit
			highest = max(highest, *b.Fixed/unit)
		}
		total += p.size(i)/unit + max(1, p.align(i)/unit) - 1
	}
	fmt.Fprintf(m.w, "int: total = %d; %% all sizes, and what alignment may add\n", total+highest)
	fmt.Fprintf(m.w, "set of int: BUFFER = 0..%d;\n", len(size)-1)
	m.array("BUFFER", "size", size)
	m.array("BUFFER", "align", align)
	m.array("BUFFER", "fixed", fixed)
	fmt.Fprintf(m.w, "set of int: AREA = 0..%d; %% bytes from..to-1 of a buffer at steps first..last\n", len(buffer)-1)
	m.array("AREA", "buffer", buffer)
	m.array("AREA", "first", first)
	m.array("AREA", "last", last)
	m.array("AREA", "from", from)
	m.array("AREA", "to", to)
}

// array writes an array of numbers.
func (m *miniZinc) array(indices, name string, items []int64) {
	fmt.Fprintf(m.w, "array[%s] of int: %s = array1d(%s, [", indices, name, indices)
	for i, x := range items {
		switch {
		case i == 0:
		case i%20 == 0:
			m.w.WriteString(",\n\t")
		default:
			m.w.WriteString(", ")
		}
		fmt.Fprint(m.w, x)
	}
	m.w.WriteString("]);\n")
}
