package lora

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
)

// source is the random numbers of a tensor. They depend on its name alone, so that the same
// flags give the same bytes, whatever other adapters there are.
func source(name string) *rand.Rand {
	h := fnv.New64a()
	io.WriteString(h, name)
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// drawUniform returns n float32 elements as PEFT draws A: by Kaiming's rule for a slope of
// sqrt(5) (He et al. 2015), which is uniform within 1/sqrt(fan), where fan is the number of
// elements that one element of the result sums over.
func drawUniform(name string, n, fan int64) []byte {
	r, bound := source(name), 1/math.Sqrt(float64(max(fan, 1)))
	return draw(n, func() float64 { return bound * (2*r.Float64() - 1) })
}

// drawNormal returns n float32 elements of deviation 1, as PEFT draws B beside an embedding.
func drawNormal(name string, n int64) []byte {
	r := source(name)
	return draw(n, r.NormFloat64)
}

func draw(n int64, next func() float64) []byte {
	raw := make([]byte, 0, 4*n)
	for range n {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(next())))
	}
	return raw
}
