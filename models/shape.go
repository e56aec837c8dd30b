package models

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// merged is a product of lengths of which one is symbolic.
const merged = math.MinInt64

// product returns the length of axes that are merged.
func product(lengths ...int64) int64 {
	if slices.ContainsFunc(lengths, func(n int64) bool { return n < 0 }) {
		return merged
	}
	return elements(lengths)
}

// reshape changes the shape of x. The file has each known length as a number, 0 for a
// length that x has on the same axis, and -1 for one other length. Only if two lengths
// remain are they computed from the inputs at run time.
func (b *builder) reshape(x value, name string, shape ...int64) value {
	spec := slices.Clone(shape)
	left := 0
	for i, n := range spec {
		switch {
		case i < len(x.shape) && n == x.shape[i] && n != merged:
			spec[i] = 0
		case n < 0:
			spec[i] = -1
			left++
		}
	}
	if left > 1 {
		return b.node("Reshape", name, shape, nil, x, b.lengths(shape...))
	}
	return b.node("Reshape", name, shape, nil, x, b.ints(spec...))
}

// lengths returns a shape as a tensor: a constant if all lengths are known, else computed
// at run time.
func (b *builder) lengths(shape ...int64) value {
	if !slices.ContainsFunc(shape, func(n int64) bool { return n < 0 }) {
		return b.ints(shape...)
	}
	top := &builder{state: b.state} // shared by all scopes, so outside of them
	parts := make([]value, len(shape))
	for i, n := range shape {
		if n < 0 {
			parts[i] = top.length(n)
		} else {
			parts[i] = top.ints(n)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return b.node("Concat", "shape", []int64{int64(len(parts))}, list(attrInt("axis", 0)), parts...)
}

// length returns a symbolic length as a list of one element, taken from the shape of an
// input that has it. It is computed once.
func (b *builder) length(symbol int64) value {
	name := "length." + b.dims[-1-symbol].name
	v, ok := b.constants[name]
	if !ok {
		at := b.carriers[symbol]
		v = b.node("Shape", name, []int64{1}, list(attrInt("start", int64(at.axis)), attrInt("end", int64(at.axis+1))), at.of)
		b.constants[name] = v
	}
	return v
}

// flatten merges all axes but the first.
func (b *builder) flatten(x value) value {
	return b.node("Flatten", "flatten", []int64{x.shape[0], product(x.shape[1:]...)}, list(attrInt("axis", 1)), x)
}

// transpose makes axis perm[i] of x axis i of the result.
func (b *builder) transpose(x value, name string, perm ...int64) value {
	shape := make([]int64, len(perm))
	for i, from := range perm {
		shape[i] = x.shape[from]
	}
	return b.node("Transpose", name, shape, list(attrInts("perm", perm)), x)
}

// concat joins values along an axis.
func (b *builder) concat(name string, axis int, xs ...value) value {
	shape := slices.Clone(xs[0].shape)
	for _, x := range xs[1:] {
		shape[axis] += x.shape[axis]
	}
	return b.node("Concat", name, shape, list(attrInt("axis", int64(axis))), xs...)
}

// expand repeats x to the shape.
func (b *builder) expand(x value, name string, shape ...int64) value {
	return b.node("Expand", name, shape, nil, x, b.lengths(shape...))
}

// first is the first n rows of a table.
func (b *builder) first(table value, name string, n int64) value {
	shape := append([]int64{n}, table.shape[1:]...)
	return b.node("Slice", name, shape, nil, table, b.ints(0), b.lengths(n), b.ints(0))
}

// at returns row i of x along an axis, without that axis.
func (b *builder) at(x value, name string, axis int, i int64) value {
	return b.node("Gather", name, slices.Delete(slices.Clone(x.shape), axis, axis+1), list(attrInt("axis", int64(axis))), x, b.index(i))
}

// cast converts the elements of x.
func (b *builder) cast(x value, name string, to graph.DType) value {
	return b.node("Cast", name, x.shape, list(attrInt("to", int64(to))), x)
}

// broadcast is the shape of an operator that works element by element.
func (b *builder) broadcast(x, y []int64) []int64 {
	if len(x) < len(y) {
		x, y = y, x
	}
	shape := slices.Clone(x)
	for i, n := range y {
		k := len(x) - len(y) + i
		switch {
		case shape[k] == 1:
			shape[k] = n
		case n != 1 && n != shape[k]:
			panic(fmt.Sprintf("models: shapes %v and %v do not broadcast", x, y))
		}
	}
	return shape
}
