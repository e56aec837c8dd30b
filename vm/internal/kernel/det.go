package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// makeDet computes determinants of square matrices by elimination in float64.
func makeDet(c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	get, okIn := form.Reader(x.Type)
	set, okOut := form.Writer(out.Type)
	if !okIn || !okOut {
		return nil, unsupported(x.Type)
	}
	n := x.Shape[x.Rank()-1]
	off := c.Each(mul(8, n, n))
	var pool *work.Pool
	part := func(p, worker int) {
		m := span[float64](pool.Each(worker, off), n*n)
		for i := range m {
			if i&form.Often == 0 {
				c.Poll()
			}
			m[i] = get(x.At, p*n*n+i)
		}
		set(out.At, p, determinant(c, m, n))
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(out.Len(), part)
		return nil
	}, nil
}

// determinant returns the determinant of m, which it overwrites.
func determinant(c *Invocation, m []float64, n int) float64 {
	t := c.Meter()
	det := 1.0
	for k := range n {
		t.Add(n)
		best := k
		for i := k + 1; i < n; i++ {
			if math.Abs(m[i*n+k]) > math.Abs(m[best*n+k]) {
				best = i
			}
		}
		if m[best*n+k] == 0 {
			return 0
		}
		if best != k {
			det = -det
			for j := k; j < n; j++ {
				m[k*n+j], m[best*n+j] = m[best*n+j], m[k*n+j]
			}
		}
		det *= m[k*n+k]
		for i := k + 1; i < n; i++ {
			t.Add(n - k)
			f := m[i*n+k] / m[k*n+k]
			for j := k; j < n; j++ {
				m[i*n+j] -= f * m[k*n+j]
			}
		}
	}
	return det
}
