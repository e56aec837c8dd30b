package gemm

import "unsafe"

// panel holds the arguments of a micro-kernel, which multiplies several strips of A with
// one strip of B. Element (r, k) of a strip of A lies r·aRow + k·aDeep bytes after its
// first element, so A can be packed or read in place. The columns of B at depth k are
// contiguous, k·bDeep bytes after the first. Package asm addresses the fields by their
// offsets.
type panel struct {
	a, b, c unsafe.Pointer
	rows    int // of C; more rows than the micro-kernel has take several strips of A
	depth   int // 0 if K is: then the sums are 0
	aStrip  int // bytes from one strip of A to the next
	aRow    int
	aDeep   int
	bDeep   int
	cRow    int // bytes from one row of C to the next
	flags   int
	rowBias unsafe.Pointer // of the first row
	colBias unsafe.Pointer // of the first column
	columns int            // of C, at most those of the micro-kernel
	mask    uint64         // AVX-512: a bit for each column; AVX2: the address of a lane for each
	alpha   float32
	beta    float32
	low     float32
	high    float32
	zero    int32
	words   int16   // zero, plus 128 if the bytes are signed
	flip    byte    // what then makes them signed
	next    uintptr // AVX-512: where the next strip of B lies, or 0; it is prefetched
	passes  int     // how many strips of A prefetch a part of it, nextPasses in all
}

// nextPasses is how many strips of A it takes to prefetch a strip of B.
const nextPasses = 4

// The steps of the epilogue for a sum of products s, in this order.
const (
	flagAlpha   = 1 << iota // s = alpha·s
	flagBeta                // s = s + beta·C
	flagRowBias             // s = s + rowBias
	flagColBias             // s = s + colBias
	flagLow                 // s = max(s, low), NaN stays, -0 becomes 0
	flagHigh                // s = min(s, high), NaN stays
	flagBytes               // only quads: see ByteRows
)

func float(at unsafe.Pointer, off int) *float32 { return (*float32)(unsafe.Add(at, off)) }

// panelPlain is the micro-kernel in Go.
func panelPlain(p *panel) {
	const rows, columns = 4, 8
	for i := 0; i < p.rows; i += rows {
		m := min(rows, p.rows-i)
		a := unsafe.Add(p.a, i/rows*p.aStrip)
		// The last strip of an unpacked A may be short: read its last row again.
		var at [rows]unsafe.Pointer
		for r := range at {
			at[r] = unsafe.Add(a, min(r, m-1)*p.aRow)
		}
		for j := 0; j < p.columns; j += columns / 2 {
			n := min(columns/2, p.columns-j)
			var acc [rows][columns / 2]float32
			p.multiply(&acc, at, unsafe.Add(p.b, 4*j), n)
			for r := range m {
				p.finish(acc[r][:n], i+r, j)
			}
		}
	}
}

// multiply adds up the products of 4 rows with up to 4 columns.
func (p *panel) multiply(acc *[4][4]float32, a [4]unsafe.Pointer, b unsafe.Pointer, n int) {
	if n < 4 {
		for k := range p.depth {
			for r := range acc {
				x := *float(a[r], k*p.aDeep)
				for j := range n {
					acc[r][j] += x * *float(b, k*p.bDeep+4*j)
				}
			}
		}
		return
	}
	var (
		c00, c01, c02, c03 float32
		c10, c11, c12, c13 float32
		c20, c21, c22, c23 float32
		c30, c31, c32, c33 float32
	)
	a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
	for k := range p.depth {
		y := (*[4]float32)(unsafe.Add(b, k*p.bDeep))
		b0, b1, b2, b3 := y[0], y[1], y[2], y[3]
		x := *float(a0, k*p.aDeep)
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = *float(a1, k*p.aDeep)
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
		x = *float(a2, k*p.aDeep)
		c20 += x * b0
		c21 += x * b1
		c22 += x * b2
		c23 += x * b3
		x = *float(a3, k*p.aDeep)
		c30 += x * b0
		c31 += x * b1
		c32 += x * b2
		c33 += x * b3
	}
	*acc = [4][4]float32{{c00, c01, c02, c03}, {c10, c11, c12, c13}, {c20, c21, c22, c23}, {c30, c31, c32, c33}}
}

// finish applies the epilogue to a piece of row i, beginning at column j, and writes it
// to C.
func (p *panel) finish(sum []float32, i, j int) {
	row := unsafe.Slice(float(p.c, i*p.cRow+4*j), len(sum))
	for x, s := range sum {
		if p.flags&flagAlpha != 0 {
			s *= p.alpha
		}
		if p.flags&flagBeta != 0 {
			s += p.beta * row[x]
		}
		if p.flags&flagRowBias != 0 {
			s += *float(p.rowBias, 4*i)
		}
		if p.flags&flagColBias != 0 {
			s += *float(p.colBias, 4*(j+x))
		}
		if p.flags&flagLow != 0 {
			s = max(s, p.low) + 0
		}
		if p.flags&flagHigh != 0 {
			s = min(s, p.high)
		}
		row[x] = s
	}
}
