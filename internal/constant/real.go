package constant

import (
	"encoding/binary"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// Real is element i of a tensor of a floating-point type of two, four or eight bytes; NaN for
// other types.
func (t *Tensor) Real(i int) float64 {
	switch t.Type {
	case graph.Float32:
		return float64(t.float32(i))
	case graph.Float64:
		return t.float64(i)
	case graph.Float16:
		if v, ok := half(binary.LittleEndian.Uint16(t.Raw[2*i:])); ok {
			return v
		}
	case graph.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Raw[2*i:])) << 16))
	}
	return math.NaN()
}
