package kernel

import "math"

// Functions of float32 whose results vary too much for float32 arithmetic. They compute in
// float64, with relative errors below 2^-31, so that hardly any result is rounded otherwise than
// the exact one.

// hyperbolicSines writes sinh(x) for each x of a.
func hyperbolicSines(d, a []float32) {
	for i, x := range a[:len(d)] {
		v := float64(x)
		if x < 0.5 && x > -0.5 {
			z := v * v
			d[i] = float32(v + v*z*(1./6+z*(1./120+z*(1./5040+z*(1./362880)))))
			continue
		}
		e := exponential(math.Abs(v))
		d[i] = float32(math.Copysign((e-1/e)/2, v))
	}
}

// hyperbolicCosines writes cosh(x) for each x of a.
func hyperbolicCosines(d, a []float32) {
	for i, x := range a[:len(d)] {
		e := exponential(math.Abs(float64(x)))
		d[i] = float32((e + 1/e) / 2)
	}
}

// exponential is exp(x) for x of at least 0 as 2^n·exp(r), with exp(r) by its series; half of
// it is beyond float32 where it is infinite.
func exponential(x float64) float64 {
	if !(x < 128) {
		return x + math.Inf(1) // NaN stays
	}
	const high, low = 0x1.62e42fefp-1, 0x1.473de6af278edp-34 // of ln(2)
	n := math.RoundToEven(x * math.Log2E)
	r := (x - n*high) - n*low
	p := 1 + r*(1+r*(1./2+r*(1./6+r*(1./24+r*(1./120+r*(1./720+r*(1./5040+r*(1./40320))))))))
	return math.Float64frombits(math.Float64bits(p) + uint64(int64(n))<<52)
}

// inverseHyperbolicSines writes asinh(x) for each x of a.
func inverseHyperbolicSines(d, a []float32) {
	for i, x := range a[:len(d)] {
		v := float64(x)
		if x < 1./64 && x > -1./64 {
			z := v * v
			d[i] = float32(v * (1 - z*(1./6-z*(3./40-z*(15./336)))))
			continue
		}
		size := math.Abs(v)
		d[i] = float32(math.Copysign(math.Log(size+math.Sqrt(size*size+1)), v))
	}
}

// inverseHyperbolicCosines writes acosh(x) for each x of a.
func inverseHyperbolicCosines(d, a []float32) {
	for i, x := range a[:len(d)] {
		v := float64(x)
		if x < 1 {
			v = math.NaN()
		}
		d[i] = float32(math.Log(v + math.Sqrt((v-1)*(v+1))))
	}
}

// inverseHyperbolicTangents writes atanh(x) for each x of a.
func inverseHyperbolicTangents(d, a []float32) {
	for i, x := range a[:len(d)] {
		v := float64(x)
		if x < 1./64 && x > -1./64 {
			z := v * v
			d[i] = float32(v + v*z*(1./3+z*(1./5+z*(1./7))))
			continue
		}
		d[i] = float32(math.Log((1+v)/(1-v)) / 2)
	}
}
