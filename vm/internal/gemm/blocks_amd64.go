package gemm

import "unsafe"

//go:noescape
func blocksAVX2(p *blockPanel)

//go:noescape
func blocksAVX512(p *blockPanel)

//go:noescape
func aheadThinBlocksAVX512(p *blockPanel)

//go:noescape
func aheadBlocksAVX512(p *blockPanel)

//go:noescape
func thinBlocksAVX2(p *blockPanel)

//go:noescape
func thinBlocksAVX512(p *blockPanel)

// Any other offset does not compile.
const _ = -(unsafe.Offsetof(blockPanel{}.c) ^ 16 | unsafe.Offsetof(blockPanel{}.rows) ^ 40 | unsafe.Offsetof(blockPanel{}.aRow) ^ 56 |
	unsafe.Offsetof(blockPanel{}.cLine) ^ 80 | unsafe.Offsetof(blockPanel{}.added) ^ 96 | unsafe.Offsetof(blockPanel{}.flags) ^ 112 |
	unsafe.Offsetof(blockPanel{}.halves) ^ 120 | unsafe.Offsetof(blockPanel{}.low) ^ 128 | unsafe.Offsetof(blockPanel{}.high) ^ 132 |
	unsafe.Offsetof(blockPanel{}.second) ^ 136 | unsafe.Offsetof(blockPanel{}.tail) ^ 144 | unsafe.Offsetof(blockPanel{}.tailB) ^ 152 |
	unsafe.Offsetof(blockPanel{}.next) ^ 168 | unsafe.Offsetof(blockPanel{}.passes) ^ 176)

// run calls the micro-kernel in use.
func (p *blockPanel) run() {
	switch wide := chosen == avx512; {
	case p.thin && wide && p.ahead:
		aheadThinBlocksAVX512(p)
	case p.thin && wide:
		thinBlocksAVX512(p)
	case p.thin:
		thinBlocksAVX2(p)
	case p.ahead:
		aheadBlocksAVX512(p)
	case wide:
		blocksAVX512(p)
	default:
		blocksAVX2(p)
	}
}
