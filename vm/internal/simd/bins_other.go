//go:build !amd64

package simd

// HasBins reports whether this machine computes Means.
func HasBins() bool { return false }

// Means writes the means, each of which adds up its samples in their order.
func (b *Bins) Means() { panic("simd: no bins") }
