package simd

import "math"

// Functions made of vector operations, a block at a time that stays in the fastest cache.

const blockLen = 256

// LeakyRelu writes alpha·x for each x of src below 0, else x; dst may be src.
func LeakyRelu(dst, src []float32, alpha float32) {
	var scaled [blockLen]float32
	blocks(dst, src, func(d, a []float32) {
		s := scaled[:len(a)]
		MulScalar(s, a, alpha)
		below(d, a, 0, s, a)
	})
}

// ThresholdedRelu writes each x of src above alpha, and 0 for others; dst may be src.
func ThresholdedRelu(dst, src []float32, alpha float32) {
	limit, zero := [1]float32{alpha}, [1]float32{}
	var is [blockLen]uint8
	blocks(dst, src, func(d, a []float32) {
		Compare(is[:len(a)], limit[:], a, Less)
		ChooseReals(d, is[:len(a)], a, zero[:])
	})
}

// Elu writes alpha·(exp(x/beta) - 1) for each x of src below 0, else x, both times gamma; dst
// may be src. beta is above 0.
func Elu(dst, src []float32, alpha, beta, gamma float32) {
	var negative, rest, steep [blockLen]float32
	blocks(dst, src, func(d, a []float32) {
		n, r := negative[:len(a)], rest[:len(a)]
		// With t = tanh(x/2), exp(x) - 1 is 2·t/(1 - t), which loses no digits where x is near 0.
		DivScalar(n, a, 2*beta)
		Tanh(n, n)
		SubFrom(r, n, 1)
		Div(n, n, r)
		MulScalar(n, n, 2*alpha*gamma)
		// Where x is so near 0 that halves of it may be lost, exp(x) - 1 is x.
		MulScalar(r, a, gamma)
		if alpha != beta {
			s := steep[:len(a)]
			MulScalar(s, a, alpha*gamma/beta)
			below(r, a, 0, s, r)
		}
		below(d, a, -1e-20, n, r)
	})
}

// Softsign writes x/(1 + |x|) for each x of src; dst may be src.
func Softsign(dst, src []float32) {
	var size [blockLen]float32
	blocks(dst, src, func(d, a []float32) {
		s := size[:len(a)]
		Abs(s, a)
		AddScalar(s, s, 1)
		Div(d, a, s)
	})
}

// Softplus writes log(1 + exp(x)) for each x of src, without overflow; dst may be src.
func Softplus(dst, src []float32) {
	var small, whole, square, sum [blockLen]float32
	blocks(dst, src, func(d, a []float32) {
		u, v, s, p := small[:len(a)], whole[:len(a)], square[:len(a)], sum[:len(a)]
		// The function is max(x, 0) + log(1 + u) with u = exp(-|x|). With s = u/(2 + u), which is
		// at most a third, log(1 + u) is 2·(s + s³/3 + s⁵/5 + …).
		Abs(u, a)
		Exp(u, u, -1, 0)
		AddScalar(v, u, 2)
		Div(u, u, v)
		Mul(s, u, u)
		for i := range p {
			p[i] = 2. / softplusEnd
		}
		for k := softplusEnd - 2; k > 0; k -= 2 {
			Mul(p, p, s)
			AddScalar(p, p, 2/float32(k))
		}
		Mul(p, p, u)
		Clamp(v, a, 0, float32(math.Inf(1)))
		Add(d, v, p)
	})
}

// softplusEnd is the last exponent: the next power is below a unit in the last place.
const softplusEnd = 13

// Mish writes x·tanh(log(1 + exp(x))) for each x of src; dst may be src.
func Mish(dst, src []float32) {
	var power, product [blockLen]float32
	blocks(dst, src, func(d, a []float32) {
		w, n := power[:len(a)], product[:len(a)]
		// The hyperbolic tangent is n/(n + 2) with w = exp(x) and n = w·(w + 2).
		Clamp(w, a, float32(math.Inf(-1)), mishEnd)
		Exp(w, w, 1, 0)
		AddScalar(n, w, 2)
		Mul(n, n, w)
		AddScalar(w, n, 2)
		Div(n, n, w)
		Mul(d, n, a)
	})
}

// mishEnd is an x from which on the hyperbolic tangent is 1.
const mishEnd = 20

// Sin writes sin(x) for each x of src; dst may be src. The error of the vectors is below a
// unit in the last place of 1.
func Sin(dst, src []float32) { circle(dst, src, vectorSin, math.Sin) }

// Cos writes cos(x) for each x of src; dst may be src. The error of the vectors is below a
// unit in the last place of 1.
func Cos(dst, src []float32) { circle(dst, src, vectorCos, math.Cos) }

// Tan writes tan(x) for each x of src; dst may be src. The vectors compute in float64: hardly any
// result is rounded otherwise than the exact one.
func Tan(dst, src []float32) { circle(dst, src, vectorTan, math.Tan) }

// mostCircle is the largest x for which the vectors know how far it is from a quarter of the
// circle.
const mostCircle = 8192

func circle(dst, src []float32, v vector, f func(float64) float64) {
	var kept [blockLen]float32
	blocks(dst, src, func(d, a []float32) {
		k := kept[:copy(kept[:], a)]
		apply(d, a, 1, 0, v, f)
		for i, x := range k {
			if x == 0 || !(max(x, -x) <= mostCircle) { // the vectors lose the sign of -0
				d[i] = float32(f(float64(x)))
			}
		}
	})
}

// below writes a where x is below a limit, else b; dst may be x or b.
func below(dst, x []float32, limit float32, a, b []float32) {
	var is [blockLen]uint8
	limits := [1]float32{limit}
	Compare(is[:len(x)], x, limits[:], Less)
	ChooseReals(dst, is[:len(x)], a, b)
}

// blocks calls f for each block.
func blocks(dst, src []float32, f func(d, a []float32)) {
	dst = dst[:len(src)]
	for from := 0; from < len(src); from += blockLen {
		to := min(from+blockLen, len(src))
		f(dst[from:to], src[from:to])
	}
}
