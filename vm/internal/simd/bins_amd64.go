package simd

import "unsafe"

//go:noescape
func binsAVX512(p *Bins)

// Any other offset does not compile.
const _ = -(unsafe.Offsetof(Bins{}.Samples) ^ 16 | unsafe.Offsetof(Bins{}.Each) ^ 32 | unsafe.Offsetof(Bins{}.PlaneStep) ^ 48 |
	unsafe.Offsetof(Bins{}.RowStep) ^ 64 | unsafe.Offsetof(Bins{}.Write) ^ 76 | unsafe.Offsetof(Bins{}.Total) ^ 80 |
	unsafe.Offsetof(Samples{}.Left) ^ 16 | unsafe.Offsetof(Samples{}.Right) ^ 80 | unsafe.Offsetof(Samples{}.Weights) ^ 144 | unsafe.Sizeof(Samples{}) ^ 400)

// HasBins reports whether this machine computes Means.
func HasBins() bool { return wide == 16 }

// Means writes the means, each of which adds up its samples in their order.
func (b *Bins) Means() { binsAVX512(b) }
