package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// given returns the numbers of the attribute PREFIX_int64s, PREFIX_floats or
// PREFIX_tensor; nil if the node has none of them.
func (c *evaluation) given(prefix string) *Tensor {
	if a := c.attr(prefix + "_strings"); a != nil && len(a.Strings) > 0 {
		fail("type string: not held")
	}
	if a := c.attr(prefix + "_tensor"); a != nil && a.Tensor != nil {
		x, err := FromData(a.Tensor)
		if err != nil {
			fail("%v", err)
		}
		return x
	}
	if a := c.attr(prefix + "_int64s"); a != nil && len(a.Ints) > 0 {
		return Ints([]int{len(a.Ints)}, a.Ints...)
	}
	if a := c.attr(prefix + "_floats"); a != nil && len(a.Floats) > 0 {
		x := zeros(graph.Float32, []int{len(a.Floats)})
		for i, v := range a.Floats {
			x.F[i] = float64(v)
		}
		return x
	}
	return nil
}

// same reports whether element i of x is element j of y, which has its type. A NaN is
// every NaN.
func (x *Tensor) same(i int, y *Tensor, j int) bool {
	if !isFloat(x.Type) {
		return x.I[i] == y.I[j]
	}
	return x.F[i] == y.F[j] || math.IsNaN(x.F[i]) && math.IsNaN(y.F[j])
}

// labelEncoder writes the value at the place of the first key that an element is, or else
// the default.
func labelEncoder(c *evaluation) []*Tensor {
	x := c.x(0)
	if c.has("classes_strings") { // the first version
		fail("type string: not held")
	}
	keys, values := c.given("keys"), c.given("values")
	if keys == nil || values == nil || keys.Type != x.Type || size(keys.Shape) != size(values.Shape) {
		fail("expected as many keys of type %v as values", x.Type)
	}
	otherwise := zeros(values.Type, []int{1})
	switch a := c.attr("default_tensor"); {
	case a != nil && a.Tensor != nil:
		otherwise = c.given("default")
	case isFloat(values.Type):
		otherwise.F[0] = c.float("default_float", math.Copysign(0, -1))
	default:
		otherwise.I[0] = int64(c.int("default_int64", -1))
	}
	y := zeros(values.Type, x.Shape)
	for i := range size(x.Shape) {
		from, at := otherwise, 0
		for k := range size(keys.Shape) {
			if x.same(i, keys, k) {
				from, at = values, k
				break
			}
		}
		y.copy(i, from, at)
	}
	return one(y)
}

// imputer replaces the elements that stand for a missing value: by one value, or one for
// each feature.
func imputer(c *evaluation) []*Tensor {
	x := c.x(0)
	missing, values := zeros(x.Type, []int{1}), zeros(x.Type, []int{0})
	if isFloat(x.Type) {
		missing.F[0] = c.float("replaced_value_float", 0)
		if a := c.attr("imputed_value_floats"); a != nil {
			for _, v := range a.Floats {
				values.F = append(values.F, float64(v))
			}
		}
	} else {
		missing.I[0] = int64(c.int("replaced_value_int64", 0))
		if a := c.attr("imputed_value_int64s"); a != nil {
			values.I = slices.Clone(a.Ints)
		}
	}
	n := len(values.F) + len(values.I)
	if n == 0 {
		fail("no imputed values for type %v", x.Type)
	}
	y := x.clone()
	for i := range size(x.Shape) {
		if x.same(i, missing, 0) {
			y.copy(i, values, i%n) // the features are the last axis
		}
	}
	return one(y)
}

// featureVectorizer puts the features of its inputs side by side. Where inputdimensions
// asks for another number of features of an input, the rest is cut off, or 0.
func featureVectorizer(c *evaluation) []*Tensor {
	wants := c.ints("inputdimensions", nil)
	rows := 1
	for _, x := range c.in {
		if len(x.Shape) > 1 {
			rows = x.Shape[0]
		}
	}
	var columns []func(row int) float64
	for i, x := range c.in {
		has := size(x.Shape) / max(rows, 1)
		n := has
		if len(wants) == len(c.in) {
			n = wants[i]
		}
		for k := range n {
			columns = append(columns, func(row int) float64 {
				if k >= has {
					return 0
				}
				v := x.real(row*has + k)
				if x.Type != graph.Float32 {
					v = float64(float32(v))
				}
				return v
			})
		}
	}
	y := zeros(graph.Float32, []int{rows, len(columns)})
	for i := range y.F {
		y.F[i] = columns[i%len(columns)](i / len(columns))
	}
	return one(y)
}

// oneHotEncoder writes 1 at the place of the category that an element is, on a new last
// axis. The integer part of a real is its category.
func oneHotEncoder(c *evaluation) []*Tensor {
	x, cats := c.x(0), c.given("cats")
	if cats == nil {
		fail("no categories")
	}
	n := size(cats.Shape)
	y := zeros(graph.Float32, append(slices.Clone(x.Shape), n))
	for i := range size(x.Shape) {
		at := slices.Index(cats.I, int64(math.Trunc(x.real(i))))
		switch {
		case at >= 0:
			y.F[i*n+at] = 1
		case c.int("zeros", 1) == 0:
			fail("element %d is no category", i)
		}
	}
	return one(y)
}
