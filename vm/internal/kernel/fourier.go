package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// fourier is the discrete Fourier transform of n numbers. It divides n into its prime
// factors (Cooley & Tukey 1965), so it takes n·(p+q+…) steps for n = p·q·….
type fourier struct {
	n       int
	factors []int
	turns   []complex128 // turns[k] = exp(-2πik/n)
	widest  int          // the largest factor
}

func newFourier(c *Invocation, n int) *fourier {
	f := &fourier{n: n, widest: 1}
	for p, rest := 2, n; rest > 1; {
		switch {
		case rest%p == 0:
			f.factors, f.widest = append(f.factors, p), max(f.widest, p)
			rest /= p
		case p*p > rest:
			p = rest
		default:
			p++
		}
	}
	if n > 0 {
		numbers := numbersOf[float64](c, mul(2, n))
		f.turns = span[complex128](unsafe.Pointer(&numbers[0]), n)
	}
	m := c.Meter()
	for k := range f.turns {
		m.Add(16)
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
		f.turns[k] = complex(cos, -sin)
	}
	return f
}

// room is the scratch of one transform: its numbers, their spectrum and one column.
func (f *fourier) room(c *Invocation) (off int) { return c.Each(mul(16, 2*f.n+f.widest)) }

// in and out return a worker's numbers and their spectrum.
func (f *fourier) in(w *work.Pool, worker, off int) []complex128 {
	return span[complex128](w.Each(worker, off), f.n)
}

func (f *fourier) transform(m *form.Meter, w *work.Pool, worker, off int) []complex128 {
	all := span[complex128](w.Each(worker, off), 2*f.n+f.widest)
	f.divide(m, all[f.n:2*f.n], all[:f.n], all[2*f.n:], 1, f.factors)
	return all[f.n : 2*f.n]
}

// divide transforms every step-th number: first the numbers of each residue modulo the
// first factor p, then columns of p results.
func (f *fourier) divide(m *form.Meter, to, from, column []complex128, step int, factors []int) {
	if len(factors) == 0 {
		copy(to, from[:len(to)])
		return
	}
	p := factors[0]
	n := len(to) / p
	if len(to) == 4 && p == 2 {
		fourNumbers(to, from, step)
		return
	}
	for r := range p {
		f.divide(m, to[r*n:(r+1)*n], from[r*step:], column, step*p, factors[1:])
	}
	if p == 2 {
		low, high := to[:n], to[n:][:n]
		for k := range low {
			m.Add(8)
			x := high[k] * f.turns[k*step]
			low[k], high[k] = low[k]+x, low[k]-x
		}
		return
	}
	for k := range n {
		for r := range p {
			column[r] = to[r*n+k] * f.turns[r*k*step]
		}
		for q := range p {
			m.Add(4 * p)
			sum, turn := column[0], 0
			for _, x := range column[1:p] {
				if turn += q * n * step; turn >= f.n {
					turn -= f.n
				}
				sum += x * f.turns[turn]
			}
			to[q*n+k] = sum
		}
	}
}

// fourNumbers transforms four numbers that are step apart.
func fourNumbers(to, from []complex128, step int) {
	a, b, c, d := from[0], from[step], from[2*step], from[3*step]
	even, odd := a-c, b-d
	odd = complex(imag(odd), -real(odd)) // a quarter turn
	a, b = a+c, b+d
	to[0], to[1], to[2], to[3] = a+b, even+odd, a-b, even-odd
}

// spectrum writes a transform to elements off, off + step, … of out: real and imaginary
// parts, or real parts only.
type spectrum struct {
	set   func(at unsafe.Pointer, i int, v float64)
	out   *Tensor
	parts int
}

func (s *spectrum) write(m *form.Meter, list []complex128, off, step int) {
	for k, x := range list {
		m.Add(2)
		s.set(s.out.At, off+k*step, real(x))
		if s.parts == 2 {
			s.set(s.out.At, off+k*step+1, imag(x))
		}
	}
}

// makeDFT transforms the lines along an axis. The last axis holds real and imaginary
// parts. The inverse of half a spectrum (onesided) gives real numbers.
func makeDFT(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	get, ok := form.Reader(in.Type)
	set, fits := form.Writer(out.Type)
	if !ok || !fits {
		return nil, unsupported(in.Type)
	}
	rank := in.Rank()
	axis := c.Int("axis", 1)
	if c.Version >= 20 {
		axis = -2
		if list, err := c.Value(2); err != nil {
			return nil, err
		} else if len(list) > 0 {
			axis = list[0]
		}
	}
	k, err := attr.Axis("axis", int64(axis), rank)
	if err != nil {
		return nil, err
	}
	inverse, half := c.Int("inverse", 0) != 0, c.Int("onesided", 0) != 0
	parts, given, s := in.Shape[rank-1], in.Shape[k], &spectrum{set, out, out.Shape[rank-1]}
	n := given
	if inverse && half {
		n = 2 * (given - 1)
	}
	if list, err := c.Value(1); err != nil {
		return nil, err
	} else if len(list) > 0 {
		n = list[0]
	}
	kept := n
	if half && !inverse {
		kept = n/2 + 1
	}
	if k == rank-1 || n < 1 || kept != out.Shape[k] || parts != 1 && parts != 2 {
		return nil, fmt.Errorf("shape %v of a transform of %d numbers along axis %d of %v, expected length %d", out.Shape, n, k, in.Shape, kept)
	}
	f := newFourier(c, n)
	off := f.room(c)
	inner := count(in.Shape[k+1 : rank-1])
	lines := count(in.Shape[:k]) * inner
	used := min(given, n)
	if inverse && half {
		used = min(given, n/2+1)
	}
	var pool *work.Pool
	part := func(line, worker int) {
		m := c.Meter()
		list := f.in(pool, worker, off)
		from, to := line/inner*given*inner+line%inner, line/inner*kept*inner+line%inner
		for i := range list {
			m.Add(2)
			list[i] = 0
			if i < used {
				at := (from + i*inner) * parts
				re, im := get(in.At, at), 0.0
				if parts == 2 {
					im = get(in.At, at+1)
				}
				if inverse { // the conjugate of the transform of the conjugate
					im = -im
				}
				list[i] = complex(re, im)
			}
		}
		if inverse && half {
			for i := used; i < n; i++ {
				if j := n - i; j < used {
					list[i] = complex(real(list[j]), -imag(list[j]))
				}
			}
		}
		list = f.transform(&m, pool, worker, off)
		if inverse {
			for i, x := range list {
				list[i] = complex(real(x)/float64(n), -imag(x)/float64(n))
			}
		}
		s.write(&m, list[:kept], to*s.parts, inner*s.parts)
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(lines, part)
		return nil
	}, nil
}

// makeSTFT transforms frames of a signal, each multiplied by a window.
func makeSTFT(c *Invocation) (Run, error) {
	in, out, window := c.In[0], c.Out[0], c.Input(2)
	get, ok := form.Reader(in.Type)
	set, fits := form.Writer(out.Type)
	if !ok || !fits {
		return nil, unsupported(in.Type)
	}
	steps, err := c.Value(1)
	if err != nil {
		return nil, err
	}
	length, parts := in.Shape[1], 1
	if in.Rank() == 3 {
		parts = in.Shape[2]
	}
	n := length
	if list, err := c.Value(3); err != nil {
		return nil, err
	} else if len(list) > 0 {
		n = list[0]
	} else if window != nil {
		n = window.Len()
	}
	if len(steps) != 1 || steps[0] < 1 || n < 1 || n > length || parts != 1 && parts != 2 || window != nil && window.Len() != n {
		return nil, fmt.Errorf("frames of %d numbers of a signal of shape %v, expected a window and a signal of that length", n, in.Shape)
	}
	step, frames := steps[0], (length-n)/steps[0]+1
	kept := n
	if c.Int("onesided", 1) != 0 {
		kept = n/2 + 1
	}
	if out.Len() != mul(mul(in.Shape[0], frames), 2*kept) {
		return nil, fmt.Errorf("shape %v, expected %d frames of %d bins", out.Shape, frames, kept)
	}
	f := newFourier(c, n)
	off := f.room(c)
	s := &spectrum{set, out, 2}
	var pool *work.Pool
	part := func(p, worker int) {
		m := c.Meter()
		list := f.in(pool, worker, off)
		from := (p/frames*length + p%frames*step) * parts
		for i := range list {
			m.Add(2)
			x := complex(get(in.At, from+i*parts), 0)
			if parts == 2 {
				x += complex(0, get(in.At, from+2*i+1))
			}
			if window != nil {
				x *= complex(get(window.At, i), 0)
			}
			list[i] = x
		}
		s.write(&m, f.transform(&m, pool, worker, off)[:kept], p*kept*2, 2)
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(in.Shape[0]*frames, part)
		return nil
	}, nil
}
