package dimrange

import "math/big"

// most is the largest number of lengths of a dimension that determine a polynomial: its
// powers are below that.
const most = 3

// maxFitPoints bounds the points of an interpolation: 3 to the power of 6 dimensions.
const maxFitPoints = 729

// Interpolation chooses a few lengths of each dimension, all of whose combinations are
// accepted, and returns these lengths and the numbers of the points, the last dimension
// fastest. It returns nil if there are none or too many: the lengths are those that are
// accepted where all others are at the corner, the smallest, the largest and one between.
func (b *Box) Interpolation(accepted func(point int) bool) (lengths [][]int64, points []int) {
	points = []int{0}
	weight := 1 // of one step of the present dimension
	stride := make([]int, len(b.Names))
	for k := len(b.Names) - 1; k >= 0; k-- {
		stride[k] = weight
		weight *= int(b.Lengths[k].Count)
	}
	for k := range b.Names {
		l := b.Lengths[k]
		var taken []int64
		for _, i := range l.sample() {
			if accepted(b.Corner() - int(l.Count-1-i)*stride[k]) {
				taken = append(taken, i)
			}
		}
		if n := len(taken); n > most {
			taken = []int64{taken[0], taken[n/2], taken[n-1]}
		}
		var own []int64
		var more []int
		for _, i := range taken {
			own = append(own, l.At(i))
		}
		for _, p := range points {
			for _, i := range taken {
				more = append(more, p+int(i)*stride[k])
			}
		}
		lengths = append(lengths, own)
		if points = more; len(points) == 0 || len(points) > maxFitPoints {
			return nil, nil
		}
	}
	for _, p := range points {
		if !accepted(p) {
			return nil, nil
		}
	}
	return lengths, points
}

// Term is Factor times the product of the lengths of the dimensions to the given powers.
type Term struct {
	Factor int64
	Powers []int
}

// Interpolate returns the polynomial that has the given values at all combinations of the
// lengths, the last dimension fastest, and in each dimension fewer powers than lengths.
// The terms ascend by powers, the first dimension first. ok is false if a factor is no
// whole number of 64 bits.
func Interpolate(lengths [][]int64, values []int64) (terms []Term, ok bool) {
	v := make([]*big.Rat, len(values))
	for i, n := range values {
		v[i] = new(big.Rat).SetInt64(n)
	}
	stride := len(v)
	for _, nodes := range lengths {
		n := len(nodes)
		stride /= n
		for base := range v {
			if base/stride%n == 0 {
				newton(v, base, stride, nodes)
			}
		}
	}
	for i, f := range v {
		if f.Sign() == 0 {
			continue
		}
		if !f.IsInt() || !f.Num().IsInt64() {
			return nil, false
		}
		powers := make([]int, len(lengths))
		rest := i
		for k := len(lengths) - 1; k >= 0; k-- {
			powers[k] = rest % len(lengths[k])
			rest /= len(lengths[k])
		}
		terms = append(terms, Term{f.Num().Int64(), powers})
	}
	return terms, true
}

// newton replaces the values of one line, v[base], v[base+stride] and so on, at the
// lengths x by the factors of the powers of the polynomial through them: divided
// differences, then Horner's scheme.
func newton(v []*big.Rat, base, stride int, x []int64) {
	n := len(x)
	at := func(i int) **big.Rat { return &v[base+i*stride] }
	for level := 1; level < n; level++ {
		for i := n - 1; i >= level; i-- {
			d := new(big.Rat).Sub(*at(i), *at(i - 1))
			*at(i) = d.Quo(d, new(big.Rat).SetInt64(x[i]-x[i-level]))
		}
	}
	// So far: sum of v[i] * (X-x[0]) ... (X-x[i-1]).
	for k := n - 2; k >= 0; k-- {
		for i := k; i < n-1; i++ {
			*at(i) = new(big.Rat).Sub(*at(i), new(big.Rat).Mul(*at(i + 1), new(big.Rat).SetInt64(x[k])))
		}
	}
}
