package simd

//go:noescape
func lessAVX2(dst *uint8, a, b *float32, n, aStep, bStep int)

//go:noescape
func lessOrEqualAVX2(dst *uint8, a, b *float32, n, aStep, bStep int)

//go:noescape
func equalAVX2(dst *uint8, a, b *float32, n, aStep, bStep int)

//go:noescape
func notEqualAVX2(dst *uint8, a, b *float32, n, aStep, bStep int)

//go:noescape
func unorderedAVX2(dst *uint8, a, b *float32, n, aStep, bStep int)

//go:noescape
func andAVX2(dst, a, b *uint8, n int)

//go:noescape
func orAVX2(dst, a, b *uint8, n int)

//go:noescape
func xorAVX2(dst, a, b *uint8, n int)

//go:noescape
func notAVX2(dst, a, b *uint8, n int)

//go:noescape
func chooseAVX2(dst *uint32, condition *uint8, a, b *uint32, n, aStep, bStep int)

//go:noescape
func choose16AVX2(dst *uint16, condition *uint8, a, b *uint16, n, aStep, bStep int)

func (r Relation) lists(dst *uint8, a, b *float32, n, aStep, bStep int) {
	switch r {
	case Less:
		lessAVX2(dst, a, b, n, aStep, bStep)
	case LessOrEqual:
		lessOrEqualAVX2(dst, a, b, n, aStep, bStep)
	case Equal:
		equalAVX2(dst, a, b, n, aStep, bStep)
	case NotEqual:
		notEqualAVX2(dst, a, b, n, aStep, bStep)
	case Unordered:
		unorderedAVX2(dst, a, b, n, aStep, bStep)
	}
}
