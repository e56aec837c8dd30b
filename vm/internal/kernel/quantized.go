package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// quantizedNodes are the kernels that Quantized makes.
var quantizedNodes = map[string]func(*Invocation) (Run, error){
	"QLinearConv": makeQLinearConv, "QLinearMatMul": makeQLinearMatMul, "QGemm": makeQGemm,
	"QLinearGlobalAveragePool": makeQLinearGlobalAveragePool, "QLinearAdd": qlinearBinary(simd.Add), "QLinearMul": qlinearBinary(simd.Mul),
}

// Quantized makes an operation on quantized tensors; c has the inputs of QLinearConv or
// another of quantizedNodes. If real is not nil, it has the numbers
// that input 0 represents, and the kernel first quantizes them, which is exact.
func Quantized(c *Invocation, real *Tensor) (_ Run, err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = form.Refused(r); err == nil {
				panic(r)
			}
		}
	}()
	image := 0
	if real != nil {
		image = c.Shared(c.In[0].Bytes())
	}
	run, err := quantizedNodes[c.Node.Op](c)
	if err != nil || real == nil {
		return run, err
	}
	signed, _ := byteType(c.In[0].Type)
	zero := zeroPoint(c, 2)
	n := real.Len()
	quantize := func(p, _ int) {
		from, n := p*grain, min(grain, n-p*grain)
		simd.Quantize(span[byte](element[byte](c.In[0], from), n), span[float32](element[float32](real, from), n),
			data[float32](c.In[1])[0], simd.Byte{Signed: signed, Zero: int32(zero(0))})
	}
	return func(w *work.Pool) error {
		c.In[0].At = w.Shared(image)
		w.For(cuts(n, grain), quantize)
		return run(w)
	}, nil
}
