package gemm

import "unsafe"

//go:noescape
func weighPixelsAVX2(p *weighing)

//go:noescape
func weighSignedPixelsAVX2(p *weighing)

// Any other offset does not compile.
const _ = -(unsafe.Offsetof(weighing{}.count) ^ 8 | unsafe.Offsetof(weighing{}.block) ^ 16 | unsafe.Offsetof(weighing{}.channels) ^ 32 |
	unsafe.Offsetof(weighing{}.step) ^ 40 | unsafe.Offsetof(weighing{}.low) ^ 56 | unsafe.Offsetof(weighing{}.zero) ^ 64 |
	unsafe.Offsetof(segment{}.taps) ^ 8 | unsafe.Offsetof(segment{}.pixels) ^ 16 | unsafe.Sizeof(segment{}) ^ 24)

func (p *weighing) run(signed bool) {
	switch {
	case chosen == plain:
		p.plain(signed)
	case signed:
		weighSignedPixelsAVX2(p)
	default:
		weighPixelsAVX2(p)
	}
}
