package onnx

import (
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// padKey is the metadata entry for padding.
const padKey = Prefix + "pad"

// Kernels copy from file to file in chunks of up to 64 KiB, and file systems
// share blocks of 4 KiB. A span whose offset within its chunk is unchanged is
// copied in whole chunks: 1 GiB takes 0.37 s, shifted by 100 bytes 0.53 s, by 4
// KiB 0.49 s. Small files are not worth 64 KiB of padding.
const (
	blockSize  = 4 << 10
	chunkSize  = 64 << 10
	chunkWorth = 32 << 20 // length of spans that are worth a whole chunk of padding
)

// firstLarge finds the first span that is worth a copy by the kernel. It returns
// its index among the pieces (-1 if there is none), and the span.
func (p *pieces) firstLarge() (at int64, s graph.Span) {
	for _, q := range p.list {
		if q.data == nil && q.gen == nil && q.span.Len >= kernelCopy {
			return at, q.span
		}
		at += q.bytes()
	}
	return -1, graph.Span{}
}

// bytes is the size of a piece.
func (q piece) bytes() int64 {
	switch {
	case q.gen != nil:
		return q.size
	case q.data != nil:
		return int64(len(q.data))
	}
	return q.span.Len
}

// padding is a metadata entry that moves the following bytes by shift bytes,
// modulo the unit that is worthwhile for a span of the given length.
func padding(shift, length int64) []byte {
	unit := int64(blockSize)
	if length >= chunkWorth {
		unit = chunkSize
	}
	want := (shift%unit + unit) % unit
	if want == 0 {
		return nil
	}
	entry := func(n int64) []byte {
		return appendProp(nil, 14, graph.Prop{Key: padKey, Value: strings.Repeat(" ", int(n))})
	}
	// The entry itself takes some 20 bytes beside its value. Where its length
	// field grows by a byte, one size is impossible; the next multiple is used
	// then.
	for n := want + unit - 32; n < want+2*unit; n++ {
		if b := entry(n); int64(len(b))%unit == want {
			return b
		}
	}
	return nil
}
