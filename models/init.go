package models

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
)

// jitter is the maximum deviation of the elements of a constant weight.
const jitter = 1e-3

// fan is the number of values that one output of a layer reads (in), and that
// one input reaches (out).
type fan struct{ in, out int64 }

// draw returns the next element of a weight.
type draw func(r *rand.Rand) float64

// initializer says how the elements of a weight are drawn.
type initializer func(f fan) draw

// kaimingNormal keeps the variance of gradients through layers of ReLU: a
// normal distribution of variance 2/out (He et al. 2015, section 2.2).
func kaimingNormal(f fan) draw { return gaussian(math.Sqrt(2 / float64(f.out))) }

// kaimingUniformSigmoid is uniform with variance 1/out, which is He's with the
// gain of a sigmoid.
func kaimingUniformSigmoid(f fan) draw { return flat(math.Sqrt(3 / float64(f.out))) }

// xavierUniform keeps the variance in both directions: uniform within
// sqrt(6/(in+out)) (Glorot & Bengio 2010, equation 16).
func xavierUniform(f fan) draw { return flat(math.Sqrt(6 / float64(f.in+f.out))) }

// lecunNormal keeps the variance forward: a normal distribution of variance
// 1/in, cut at two deviations (LeCun et al. 1998, section 4.6).
func lecunNormal(f fan) draw { return truncated(math.Sqrt(1 / float64(f.in))) }

// heNormal is a normal distribution of variance 2/in, cut at two deviations (He et al.
// 2015, section 2.2, as in Keras).
func heNormal(f fan) draw { return truncated(math.Sqrt(2 / float64(f.in))) }

// uniformIn is uniform within 1/sqrt(in), uniformOut within 1/sqrt(out).
func uniformIn(f fan) draw  { return flat(1 / math.Sqrt(float64(f.in))) }
func uniformOut(f fan) draw { return flat(1 / math.Sqrt(float64(f.out))) }

// normal is a normal distribution of that deviation.
func normal(std float64) initializer { return func(fan) draw { return gaussian(std) } }

// truncatedNormal is normal, but values beyond two deviations are drawn again.
func truncatedNormal(std float64) initializer { return func(fan) draw { return truncated(std) } }

// zeros and ones are the constants, each element off by up to jitter.
func zeros(fan) draw { return flat(jitter) }

func ones(fan) draw {
	off := flat(jitter)
	// The conversion prevents a fused multiply-add, which some processors have and
	// which rounds differently.
	return func(r *rand.Rand) float64 { return 1 + float64(off(r)) }
}

func flat(limit float64) draw {
	return func(r *rand.Rand) float64 { return limit * (2*r.Float64() - 1) }
}

func gaussian(std float64) draw {
	return func(r *rand.Rand) float64 { return std * r.NormFloat64() }
}

func truncated(std float64) draw {
	return func(r *rand.Rand) float64 {
		for {
			if z := r.NormFloat64(); math.Abs(z) <= 2 {
				return std * z
			}
		}
	}
}

// stream returns the function that writes the n elements of a weight. Its random numbers
// depend only on the seed and the weight's name.
func stream(seed uint64, name string, n int64, next draw) func(io.Writer) error {
	return func(w io.Writer) error {
		h := fnv.New64a()
		io.WriteString(h, name)
		r := rand.New(rand.NewPCG(seed, h.Sum64()))
		return float32s(w, n, func(int64) float64 { return next(r) })
	}
}

// float32s writes element(0) to element(n-1), a few thousand at a time.
func float32s(w io.Writer, n int64, element func(i int64) float64) error {
	const most = 8192
	buf := make([]byte, 0, 4*min(n, most))
	for i := range n {
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(float32(element(i))))
		if len(buf) == 4*most || i == n-1 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}
