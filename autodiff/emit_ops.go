package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// The operators of which gradients are made, in the opset of the graph (18 or
// later).

func (e *emitter) add(a, b ID) ID { return e.op("Add", a, b) }
func (e *emitter) sub(a, b ID) ID { return e.op("Sub", a, b) }
func (e *emitter) mul(a, b ID) ID { return e.op("Mul", a, b) }
func (e *emitter) div(a, b ID) ID { return e.op("Div", a, b) }

// times multiplies by a number.
func (e *emitter) times(a ID, v float64) ID { return e.mul(a, e.scalar(a, v)) }

// plus adds a number.
func (e *emitter) plus(a ID, v float64) ID { return e.add(a, e.scalar(a, v)) }

// where is a where cond holds, else b.
func (e *emitter) where(cond, a, b ID) ID { return e.op("Where", cond, a, b) }

// castLike converts t to the element type of like.
func (e *emitter) castLike(t, like ID) ID {
	if e.typeOf(t).Elem == e.typeOf(like).Elem {
		return t
	}
	return e.with("Cast", attrs{"to": e.typeOf(like).Elem}, t)
}

// widened converts 16 bits to float32.
func (e *emitter) widened(t ID) ID {
	if !is16Bits(e.typeOf(t).Elem) {
		return t
	}
	return e.castTo(t, graph.Float32)
}

// reshape changes the shape of t; the number of elements stays.
func (e *emitter) reshape(t ID, shape []int64) ID {
	if slices.Equal(e.shape(t), shape) {
		return t
	}
	a := attrs(nil)
	if slices.Contains(shape, 0) {
		a = attrs{"allowzero": 1}
	}
	return e.with("Reshape", a, t, e.list(shape...))
}

// transpose permutes the axes.
func (e *emitter) transpose(t ID, perm ...int64) ID {
	if slices.IsSorted(perm) {
		return t
	}
	return e.with("Transpose", attrs{"perm": perm}, t)
}

// swapLast exchanges the last two axes.
func (e *emitter) swapLast(t ID) ID {
	perm := axes(0, e.rank(t))
	if r := len(perm); r >= 2 {
		perm[r-1], perm[r-2] = perm[r-2], perm[r-1]
	}
	return e.transpose(t, perm...)
}

// reduce is a ReduceX over axes.
func (e *emitter) reduce(op string, t ID, over []int64, keep bool) ID {
	if len(over) == 0 && op == "ReduceSum" {
		return t
	}
	keepdims := 0
	if keep {
		keepdims = 1
	}
	return e.with(op, attrs{"keepdims": keepdims}, t, e.list(over...))
}

// sum is ReduceSum.
func (e *emitter) sum(t ID, over []int64, keep bool) ID { return e.reduce("ReduceSum", t, over, keep) }

// unbroadcast sums a gradient over the axes along which like was repeated.
func (e *emitter) unbroadcast(d, like ID) ID {
	if over := e.repeated(d, like); len(over) > 0 {
		return e.reshape(e.sum(d, over, true), e.shape(like))
	}
	return e.reshape(d, e.shape(like))
}

// repeated lists the axes of d along which like was repeated.
func (e *emitter) repeated(d, like ID) (over []int64) {
	from, to := e.shape(d), e.shape(like)
	if e.err != nil {
		return nil
	}
	lead := len(from) - len(to)
	for i := range from {
		if i < lead || to[i-lead] == 1 && from[i] != 1 {
			over = append(over, int64(i))
		}
	}
	return over
}

// expand repeats t along axes of length 1.
func (e *emitter) expand(t ID, shape []int64) ID {
	if slices.Equal(e.shape(t), shape) {
		return t
	}
	return e.op("Expand", t, e.list(shape...))
}

// zeros is a tensor of zeros, of the element type of like.
func (e *emitter) zeros(like ID, shape ...int64) ID {
	elem := e.typeOf(like).Elem
	value := e.scalar(like, 0)
	if e.err != nil {
		return graph.None
	}
	d := &graph.Data{Type: elem, Dims: []int64{1}, Raw: e.g.Tensors[value].Data.Raw, Bytes: e.g.Tensors[value].Data.Bytes}
	return e.with("ConstantOfShape", attrs{"value": d}, e.list(shape...))
}

// slice cuts t along axes, from starts to ends.
func (e *emitter) slice(t ID, over, starts, ends []int64) ID {
	return e.op("Slice", t, e.list(starts...), e.list(ends...), e.list(over...))
}

// split cuts t along an axis into parts of those lengths.
func (e *emitter) split(t ID, axis int, lengths ...int64) []ID {
	if len(lengths) == 1 {
		return []ID{t}
	}
	return slices.Clone(e.emit("Split", attrs{"axis": axis}, len(lengths), t, e.list(lengths...)))
}

// joined concatenates tensors along an axis.
func (e *emitter) joined(parts []ID, axis int) ID {
	if len(parts) == 1 {
		return parts[0]
	}
	return e.with("Concat", attrs{"axis": axis}, parts...)
}

// axes lists n axes from the first on.
func axes(first, n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(first + i)
	}
	return list
}

// concat concatenates lists.
func concat(lists ...[]int64) []int64 { return slices.Concat(lists...) }

// filled is a list of n copies of v.
func filled(v int64, n int) []int64 { return slices.Repeat([]int64{v}, n) }
