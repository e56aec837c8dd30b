package reference

import (
	"math"
	"slices"
	"strings"
)

// einsumOperators multiply tensors and sum the products by an equation.
var einsumOperators = []operator{{"Einsum", einsum}}

// einsum sums over all labels that the output does not name. The axes of an ellipsis
// get capital labels, counted from the right.
func einsum(c *evaluation) []*Tensor {
	left, right, stated := strings.Cut(strings.ReplaceAll(c.str("equation", ""), " ", ""), "->")
	terms := strings.Split(left, ",")
	hidden := 0
	for i, t := range terms {
		if strings.Contains(t, "...") {
			hidden = max(hidden, len(c.in[i].Shape)-len(t)+3)
		}
	}
	const dots = "\x01\x02\x03\x04\x05\x06\x07\x08"
	for i, t := range terms {
		n := len(c.in[i].Shape) - len(t) + 3
		if strings.Contains(t, "...") {
			terms[i] = strings.Replace(t, "...", dots[hidden-n:hidden], 1)
		}
	}
	if stated {
		right = strings.Replace(right, "...", dots[:hidden], 1)
	} else {
		var once []rune
		all := strings.Join(terms, "")
		for _, label := range all {
			if label > '\x08' && strings.Count(all, string(label)) == 1 {
				once = append(once, label)
			}
		}
		slices.Sort(once)
		right = dots[:hidden] + string(once)
	}
	lengths := map[rune]int{}
	var labels []rune
	for i, t := range terms {
		for k, label := range []rune(t) {
			if _, known := lengths[label]; !known {
				labels = append(labels, label)
				lengths[label] = 1
			}
			lengths[label] = max(lengths[label], c.in[i].Shape[k])
		}
	}
	var shape, space []int
	for _, label := range right {
		shape = append(shape, lengths[label])
	}
	for _, label := range labels {
		space = append(space, lengths[label])
	}
	y := zeros(c.x(0).Type, shape)
	mass := make([]float64, size(shape))
	each(space, func(at []int) {
		value := map[rune]int{}
		for k, label := range labels {
			value[label] = at[k]
		}
		p := 1.0
		for i, t := range terms {
			src := make([]int, len(c.in[i].Shape))
			for k, label := range []rune(t) {
				if c.in[i].Shape[k] > 1 {
					src[k] = value[label]
				}
			}
			p *= c.in[i].real(index(c.in[i].Shape, src))
		}
		to := make([]int, 0, len(shape))
		for _, label := range right {
			to = append(to, value[label])
		}
		j := index(shape, to)
		y.set(j, y.real(j)+p)
		mass[j] += math.Abs(p)
	})
	if y.F != nil {
		c.sums(0, mass, size(space)/max(size(shape), 1))
	}
	return one(y)
}
