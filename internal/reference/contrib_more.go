package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// cdist is the distance of each row of one matrix to each row of another.
func cdist(c *evaluation) []*Tensor {
	a, b, metric := c.x(0), c.x(1), c.str("metric", "sqeuclidean")
	if metric != "sqeuclidean" && metric != "euclidean" {
		fail("metric")
	}
	y := zeros(a.Type, []int{a.Shape[0], b.Shape[0]})
	mass := make([]float64, len(y.F))
	n := a.Shape[1]
	each(y.Shape, func(at []int) {
		i := index(y.Shape, at)
		for k := range n {
			u, v := a.F[at[0]*n+k], b.F[at[1]*n+k]
			y.F[i] += (u - v) * (u - v)
			mass[i] += u*u + v*v
		}
		if metric == "euclidean" {
			y.F[i], mass[i] = math.Sqrt(y.F[i]), math.Sqrt(mass[i])
		}
	})
	c.sums(0, mass, n)
	return one(y)
}

// cropAndResize reads crops of images between the centres of their outer elements.
func cropAndResize(c *evaluation) []*Tensor {
	x, boxes, images, lengths := c.x(0), c.x(1), c.list(2), c.list(3)
	y := zeros(x.Type, []int{boxes.Shape[0], x.Shape[1], lengths[0], lengths[1]})
	linear, outside := c.str("mode", "bilinear") == "bilinear", c.float("extrapolation_value", 0)
	open := make([]bool, len(y.F))
	mass := make([]float64, len(y.F))
	each(y.Shape, func(at []int) {
		i := index(y.Shape, at)
		var place [2]float64
		for a := range 2 {
			from, to := boxes.F[4*at[0]+a], boxes.F[4*at[0]+2+a]
			n := float64(x.Shape[2+a] - 1)
			if place[a] = (from + to) / 2 * n; lengths[a] > 1 {
				place[a] = (from + (to-from)*float64(at[2+a])/float64(lengths[a]-1)) * n
			}
			open[i] = open[i] || math.Abs(place[a]) < 1e-4 || math.Abs(place[a]-n) < 1e-4 || !linear && math.Abs(place[a]-math.Floor(place[a])-0.5) < 1e-4
			if place[a] < 0 || place[a] > n {
				y.F[i] = outside
				return
			}
			if !linear {
				place[a] = math.Floor(place[a] + 0.5)
			}
		}
		for corner := range 4 {
			weight := 1.0
			p := []int{images[at[0]], at[1], 0, 0}
			for a, step := range []int{corner / 2, corner % 2} {
				low := math.Floor(place[a])
				p[2+a] = min(int(low)+step, x.Shape[2+a]-1)
				weight *= math.Abs(1 - float64(step) - (place[a] - low))
			}
			v := x.F[index(x.Shape, p)]
			y.F[i] += weight * v
			mass[i] += math.Abs(v)
		}
	})
	*c.bounded(0) = bound{mass: mass, open: open}
	return one(y)
}

// packedProduct multiplies by weights of 4 or 8 bits, in blocks with a scale each.
func packedProduct(c *evaluation) []*Tensor {
	a, b, scales, zeroes := c.x(0), c.x(1), c.x(2), c.x(3)
	n, k, bits, block := c.int("N", 0), c.int("K", 0), c.int("bits", 4), c.int("block_size", 0)
	if c.x(4) != nil || bits != 2 && bits != 4 && bits != 8 {
		fail("g_idx, or bits")
	}
	blocks, each8 := (k+block-1)/block, 8/bits
	number := func(list []int64, row, perRow, i int) float64 {
		v := list[row*perRow+i/each8] >> (bits * (i % each8))
		return float64(v & (1<<bits - 1))
	}
	w := make([]float64, n*k)
	for row := range n {
		for i := range k {
			zero := float64(int(1) << (bits - 1))
			switch {
			case zeroes == nil:
			case zeroes.I != nil:
				zero = number(zeroes.I, row, (blocks*bits+7)/8, i/block)
			default:
				zero = zeroes.F[row*blocks+i/block]
			}
			w[row*k+i] = (number(b.I, row, blocks*block/each8, i) - zero) * scales.F[row*blocks+i/block]
		}
	}
	shape := append([]int{}, a.Shape...)
	shape[len(shape)-1] = n
	y := zeros(a.Type, shape)
	mass := make([]float64, len(y.F))
	rows := a.F
	if whole := zeroes == nil || zeroes.I != nil; whole && bits == 4 && c.int("accuracy_level", 0) == 4 {
		rows = roundedBlocks(a, k, block)
	}
	for i := range y.F {
		for j := range k {
			term := rows[i/n*k+j] * w[i%n*k+j]
			y.F[i] += term
			mass[i] += math.Abs(term)
		}
		if bias := c.x(5); bias != nil {
			y.F[i] += bias.F[i%n]
			mass[i] += math.Abs(bias.F[i%n])
		}
	}
	c.sums(0, mass, k)
	return one(y)
}

// roundedBlocks returns the numbers of rows of length k as multiples of a scale for each
// block, 1/127 of its largest number.
func roundedBlocks(a *Tensor, k, block int) []float64 {
	list := make([]float64, len(a.F))
	for from := 0; from < len(list); {
		to := min(from+block, from-from%k+k)
		largest := 0.0
		for _, v := range a.F[from:to] {
			largest = max(largest, math.Abs(v))
		}
		// In float32, since a scale of other bits moves elements to the next unit.
		scale := float64(float32(largest) / 127)
		for i := from; i < to && scale != 0; i++ {
			list[i] = math.RoundToEven(quotient(a, i, scale)) * scale
		}
		from = to
	}
	return list
}

// gatheredBlocks reads slices of a table of packed numbers, which have a scale and a zero
// point for each block along an axis. An index out of range gives zeros.
func gatheredBlocks(c *evaluation) []*Tensor {
	x, ids, scales, zeroes := c.x(0), c.x(1), c.x(2), c.x(3)
	shape := append([]int{}, x.Shape...)
	rank, bits := len(shape), c.int("bits", 4)
	middle, bytes := 0.0, x.Type == graph.Uint8
	if bytes {
		shape[rank-1] *= 8 / bits
		middle = float64(int(1) << (bits - 1))
	}
	number := func(list *Tensor, at []int) float64 {
		if !bytes {
			return list.real(index(list.Shape, at))
		}
		at = append([]int{}, at...)
		last := at[rank-1]
		at[rank-1] = last * bits / 8
		return float64(list.I[index(list.Shape, at)] >> (last * bits % 8) & (1<<bits - 1))
	}
	k, q := c.axis("gather_axis", 0, rank), c.axis("quantize_axis", 1, rank)
	outer, inner := shape[:k], shape[k+1:]
	y := zeros(scales.Type, slices.Concat(outer, ids.Shape, inner))
	each(y.Shape, func(at []int) {
		i := int(ids.I[index(ids.Shape, at[k:k+len(ids.Shape)])])
		if i < 0 {
			i += shape[k]
		}
		if i < 0 || i >= shape[k] {
			return
		}
		from := slices.Concat(at[:k], []int{i}, at[k+len(ids.Shape):])
		v := number(x, from)
		from[q] /= c.int("block_size", 128)
		zero := middle
		if zeroes != nil {
			zero = number(zeroes, from)
		}
		y.F[index(y.Shape, at)] = (v - zero) * scales.F[index(scales.Shape, from)]
	})
	return one(y)
}
