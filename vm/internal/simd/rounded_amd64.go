package simd

//go:noescape
func addAsHalfAVX512(dst, a, b *float32, n int)

//go:noescape
func addAsBrainAVX512(dst, a, b *float32, n int)

//go:noescape
func addHalvesAVX512(dst, a, b *uint16, n int)

//go:noescape
func addBrainsAVX512(dst, a, b *uint16, n int)

//go:noescape
func subAsHalfAVX512(dst, a, b *float32, n int)

//go:noescape
func subAsBrainAVX512(dst, a, b *float32, n int)

//go:noescape
func subHalvesAVX512(dst, a, b *uint16, n int)

//go:noescape
func subBrainsAVX512(dst, a, b *uint16, n int)

//go:noescape
func mulAsHalfAVX512(dst, a, b *float32, n int)

//go:noescape
func mulAsBrainAVX512(dst, a, b *float32, n int)

//go:noescape
func mulHalvesAVX512(dst, a, b *uint16, n int)

//go:noescape
func mulBrainsAVX512(dst, a, b *uint16, n int)

// rounded16 is Rounded for n numbers, a multiple of 16.
func rounded16(op Operation, dst, a, b *float32, n int, to Narrow) {
	switch {
	case op == Addition && to == BFloat16:
		addAsBrainAVX512(dst, a, b, n)
	case op == Addition:
		addAsHalfAVX512(dst, a, b, n)
	case op == Subtraction && to == BFloat16:
		subAsBrainAVX512(dst, a, b, n)
	case op == Subtraction:
		subAsHalfAVX512(dst, a, b, n)
	case op == Multiplication && to == BFloat16:
		mulAsBrainAVX512(dst, a, b, n)
	case op == Multiplication:
		mulAsHalfAVX512(dst, a, b, n)
	default:
		panic("simd: no operation on pairs")
	}
}

// halves16 is Halves for n numbers, a multiple of 16.
func halves16(op Operation, dst, a, b *uint16, n int, to Narrow) {
	switch {
	case op == Addition && to == BFloat16:
		addBrainsAVX512(dst, a, b, n)
	case op == Addition:
		addHalvesAVX512(dst, a, b, n)
	case op == Subtraction && to == BFloat16:
		subBrainsAVX512(dst, a, b, n)
	case op == Subtraction:
		subHalvesAVX512(dst, a, b, n)
	case op == Multiplication && to == BFloat16:
		mulBrainsAVX512(dst, a, b, n)
	case op == Multiplication:
		mulHalvesAVX512(dst, a, b, n)
	default:
		panic("simd: no operation on pairs")
	}
}
