package regions

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// contents says what a tensor of the planned graph holds of a tensor of the graph
// before the slices.
type contents struct {
	kind contentKind
	of   graph.TensorID // before the slices
	axis int            // of the rows; none: all of it
	lo   int64          // the first row; anyRow: all rows are alike
	hi   int64          // the row behind the last one; the number of rows if lo is anyRow
	over graph.TensorID // written: the tensor whose rows are in the place of those to be written; none: they have no meaning
	// modulo: the elements are those of the rows but for multiples of it; 0: they are those.
	modulo int64
	top    int64 // of an attention in pieces: it is for the largest of the scores of rows [0, top); 0: it is no part of one
}

// contentKind says what the rows are.
type contentKind int8

const (
	hasNothing contentKind = iota // of the graph before
	hasFault                      // a fault has been reported: what follows from it is not judged
	hasRows                       // rows [lo, hi) of the tensor
	hasLengths                    // the lengths of hi rows of the tensor; without an axis, of all of it
	hasRoom                       // space for the tensor
	hasWritten                    // rows [0, hi) of the tensor, the others are to be written
	hasSum                        // what the rows [lo, hi) that are summed contribute to the tensor

	// Of an attention in pieces, with the output of the Softmax as the tensor.
	hasMost    // the largest scores of rows [lo, hi)
	hasTop     // the largest scores of rows [0, hi)
	hasBelow   // the scores of rows [lo, hi) less the largest
	hasWeights // exp of that; of the tensor that the guard makes, too
	hasTotal   // the sum of the weights of rows [lo, hi)
	hasFall    // the largest scores of rows [0, lo) less those of rows [0, hi)
	hasScale   // exp of that
	hasRatio   // the sum of all weights by itself
	hasEmpty   // whether that is NaN
	hasShare   // the product: the sum of the weighted rows by that of the weights
)

// anyRow is the first row of rows that are all alike.
const anyRow = -1

// all are the contents of a tensor that holds all of t.
func all(t graph.TensorID) contents { return contents{kind: hasRows, of: t, axis: none} }

// all are the contents of a tensor that holds all of t: of a tensor of a slice, rows of one
// of the source.
func (b *before) all(t graph.TensorID) contents {
	if r, inSlice := b.slices[t]; inSlice {
		return b.rowsOf(r.of, r.axis, r.lo, r.hi)
	}
	return all(t)
}

// rowsOf are the contents of a tensor with some rows of t. Rows of an initializer of
// which there is a part are rows of the part.
func (b *before) rowsOf(t graph.TensorID, axis int, lo, hi int64) contents {
	shape := b.shape(t)
	if axis >= 0 && axis < len(shape) && (lo == 0 || lo == anyRow) && hi == shape[axis] {
		return b.all(t)
	}
	if r, inSlice := b.slices[t]; inSlice && axis == r.axis {
		if lo == anyRow {
			return b.rowsOf(r.of, axis, anyRow, hi)
		}
		return b.rowsOf(r.of, axis, r.lo+lo, r.lo+hi)
	}
	for _, w := range b.weights[t] {
		if axis == w.axis && w.lo <= lo && hi <= w.hi {
			return b.rowsOf(w.part, axis, lo-w.lo, hi-w.lo)
		}
	}
	return contents{kind: hasRows, of: t, axis: axis, lo: lo, hi: hi}
}

// whole reports whether a tensor holds all of t.
func (b *before) whole(c contents, t graph.TensorID) bool {
	return c == b.all(t) || b.relative(c, t) == all(t)
}

// has reports whether a tensor holds rows [lo, hi) of an axis of t, and nothing else.
func (b *before) has(c contents, t graph.TensorID, axis int, lo, hi int64) bool {
	if r := b.relative(c, t); r.kind == hasRows && r.of == t && r.axis == axis && r.lo == anyRow && r.modulo == 0 {
		return r.hi == hi-lo
	}
	return b.ofSource(c) == b.rowsOf(t, axis, lo, hi)
}

// ofSource returns rows of a tensor of a slice as rows of the tensor of the source, where
// that can be said. Both are the same, and what a tensor holds may have been made relative to
// the slice before it is compared.
func (b *before) ofSource(c contents) contents {
	if c.kind != hasRows || c.axis == none || c.modulo != 0 {
		return c
	}
	return b.rowsOf(c.of, c.axis, c.lo, c.hi)
}

// text describes contents in a message.
func (b *before) text(c contents) string {
	name := func(t graph.TensorID) string { return fmt.Sprintf("%q", graph.Short(b.g.Tensors[t].Name)) }
	switch c.kind {
	case hasRows:
		if m := c.modulo; m != 0 {
			c.modulo = 0
			return fmt.Sprintf("%s but for multiples of %d", b.text(c), m)
		}
		if c.axis == none {
			return "all of " + name(c.of)
		}
		if c.lo == anyRow {
			return fmt.Sprintf("%s of axis %d of %s", subject.Count(int(c.hi), "row"), c.axis, name(c.of))
		}
		return fmt.Sprintf("rows [%d, %d) of axis %d of %s", c.lo, c.hi, c.axis, name(c.of))
	case hasLengths:
		return "lengths of " + name(c.of)
	case hasRoom:
		return "room for " + name(c.of)
	case hasWritten:
		if c.over != none {
			return fmt.Sprintf("%s, written over rows [0, %d) of axis %d of %s", name(c.of), c.hi, c.axis, name(c.over))
		}
		return fmt.Sprintf("rows [0, %d) of axis %d of %s, the others not written yet", c.hi, c.axis, name(c.of))
	case hasSum:
		if c.lo == anyRow {
			return fmt.Sprintf("the part of %s that %s add", name(c.of), subject.Count(int(c.hi), "row"))
		}
		if c.top > 0 {
			return fmt.Sprintf("the part of %s that rows [%d, %d) add, for the largest of %d scores", name(c.of), c.lo, c.hi, c.top)
		}
		return fmt.Sprintf("the part of %s that rows [%d, %d) add", name(c.of), c.lo, c.hi)
	}
	if text := kindText[c.kind]; text != "" {
		if c.hi > 0 {
			return fmt.Sprintf("%s of rows [%d, %d) of %s", text, c.lo, c.hi, name(c.of))
		}
		return fmt.Sprintf("%s of %s", text, name(c.of))
	}
	return "no tensor of the source"
}
