package simd

// Operation is an operation on pairs of numbers that Rounded and Halves compute in one pass.
type Operation int8

// The operations.
const (
	NoOperation Operation = iota
	Addition
	Subtraction
	Multiplication
)

// Rounded writes a op b for each pair of numbers, rounded as RoundWide rounds; dst may be a or b.
func Rounded(op Operation, dst, a, b []float32, to Narrow) {
	n := len(dst)
	a, b = a[:n], b[:n]
	whole := n &^ 15
	if wide < 16 || whole == 0 {
		whole = 0
	} else {
		rounded16(op, &dst[0], &a[0], &b[0], whole, to)
	}
	dst = dst[whole:]
	op.apply(dst, a[whole:], b[whole:])
	RoundWide(dst, dst, to)
}

// Halves writes a op b for each pair of numbers of 16 bits, computed in float32 and rounded; dst may
// be a or b.
func Halves(op Operation, dst, a, b []uint16, as Narrow) {
	n := len(dst)
	a, b = a[:n], b[:n]
	whole := n &^ 15
	if wide < 16 || whole == 0 {
		whole = 0
	} else {
		halves16(op, &dst[0], &a[0], &b[0], whole, as)
	}
	var x, y [512]float32
	for from := whole; from < n; from += len(x) {
		m := min(len(x), n-from)
		Widen(x[:m], a[from:from+m], as)
		Widen(y[:m], b[from:from+m], as)
		op.apply(x[:m], x[:m], y[:m])
		Round(dst[from:from+m], x[:m], as)
	}
}

// apply writes a op b for each pair of numbers.
func (op Operation) apply(dst, a, b []float32) {
	switch op {
	case Addition:
		Add(dst, a, b)
	case Subtraction:
		Sub(dst, a, b)
	case Multiplication:
		Mul(dst, a, b)
	default:
		panic("simd: no operation on pairs")
	}
}
