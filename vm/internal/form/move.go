package form

// Move is a copy of elements of an input to an output, between two strided layouts. An
// operator that only moves elements consists of such copies, whose order does not
// matter.
type Move struct {
	In, Out        int   // the tensors are input In and output Out
	Shape          []int // the lengths of the axes that are run through
	From, To       []int // strides along these axes in the input and the output, in elements
	FromOff, ToOff int   // the elements at which the copy begins
}

// moveOf is a copy of input 0 to output 0 that fills the output in its order.
func moveOf(shape, from []int, fromOff int) []Move {
	return []Move{{Shape: shape, From: from, To: Strides(shape), FromOff: fromOff}}
}

// Merged is the same copy without axes of length 1, and with adjacent axes merged that
// are contiguous in both layouts. It has at least one axis.
func (m *Move) Merged() Move {
	v := Move{In: m.In, Out: m.Out, FromOff: m.FromOff, ToOff: m.ToOff}
	for a, n := range m.Shape {
		if n == 1 {
			continue
		}
		if k := len(v.Shape) - 1; k >= 0 && v.From[k] == m.From[a]*n && v.To[k] == m.To[a]*n {
			v.Shape[k] *= n
			v.From[k], v.To[k] = m.From[a], m.To[a]
			continue
		}
		v.Shape, v.From, v.To = append(v.Shape, n), append(v.From, m.From[a]), append(v.To, m.To[a])
	}
	if len(v.Shape) == 0 {
		v.Shape, v.From, v.To = []int{Count(m.Shape)}, []int{1}, []int{1}
	}
	return v
}
