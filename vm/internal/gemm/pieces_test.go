package gemm

import (
	"bytes"
	"fmt"
	"math/rand"
	"testing"
	"unsafe"
)

// released notes which bytes of a source were released.
type released struct {
	base unsafe.Pointer
	seen []bool
	t    *testing.T
}

func (*released) Stopping() bool { return false }

func (r *released) Release(p unsafe.Pointer, n int) {
	from := int(uintptr(p) - uintptr(r.base))
	if from < 0 || n <= 0 {
		r.t.Errorf("released %d bytes from byte %d on", n, from)
		return
	}
	for i := from; i < min(from+n, len(r.seen)); i++ {
		if r.seen[i] {
			r.t.Errorf("byte %d is released twice", i)
			return
		}
		r.seen[i] = true
	}
}

// A source that is packed in pieces has the packed form of one that is packed at once, and
// each of its bytes is released once.
func TestPieces(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, size := range [][2]int{{1, 700}, {37, 301}, {96, 64}, {530, 1100}} {
		n, k := size[0], size[1]
		source := make([]byte, 4*n*k)
		for i := 0; i < len(source); i += 4 { // floats that are finite, as bytes and as halves
			copy(source[i:], []byte{byte(r.Intn(256)), byte(r.Intn(256)), byte(r.Intn(256)), byte(r.Intn(60))})
		}
		base := unsafe.Pointer(unsafe.SliceData(source))
		dense := func(f Format, step, deep int) *Dense {
			return &Dense{At: base, Len: n, Step: step, Deep: deep, Format: f}
		}
		byted := func(step, deep int) *Bytes {
			return &Bytes{At: base, Len: n, Step: step, Deep: deep, Zeros: []int16{0}}
		}
		nibbles := &Nibbles{M: 1, N: n, K: k / 32 * 32, Block: 32}
		blocks := &Dense{At: base, Len: n, Step: k / 7 * 7, Deep: 1, Taps: 7}
		type form struct {
			name         string
			bytes, taken int // of the packed form; of the source
			pack         func(dst unsafe.Pointer, run Packing)
		}
		forms := []form{
			{"rows of A", PackedABytes(n, k), 4 * n * k, func(dst unsafe.Pointer, run Packing) { PackA(dst, dense(Float32, k, 1), n, k, run) }},
			{"columns of A", PackedABytes(n, k), 4 * n * k, func(dst unsafe.Pointer, run Packing) { PackA(dst, dense(Float32, 1, n), n, k, run) }},
			{"rows of B", PackedBBytes(n, k), 4 * n * k, func(dst unsafe.Pointer, run Packing) { PackB(dst, dense(Float32, k, 1), n, k, run) }},
			{"columns of B", PackedBBytes(n, k), 4 * n * k, func(dst unsafe.Pointer, run Packing) { PackB(dst, dense(Float32, 1, n), n, k, run) }},
			{"halves of B", PackedBBytes(n, k), 2 * n * k, func(dst unsafe.Pointer, run Packing) { PackB(dst, dense(Float16, 1, n), n, k, run) }},
			{"narrow rows", PackedBBytes(n, k) / 2, 2 * n * k, func(dst unsafe.Pointer, run Packing) { PackNarrow(dst, dense(Float16, k, 1), n, k, true, run) }},
			{"narrow columns", PackedABytes(n, k) / 2, 2 * n * k, func(dst unsafe.Pointer, run Packing) { PackNarrow(dst, dense(Float16, 1, n), n, k, false, run) }},
			{"taps", PackedABytes(n, k/7*7), 4 * n * (k / 7 * 7), func(dst unsafe.Pointer, run Packing) { PackA(dst, blocks, n, k/7*7, run) }},
			{"bytes, rows", PackedRowsBytes(n, k), n * k, func(dst unsafe.Pointer, run Packing) { PackRows(dst, byted(k, 1), n, k, run) }},
			{"bytes, columns", PackedColumnsBytes(n, k), n * k, func(dst unsafe.Pointer, run Packing) { PackColumns(dst, byted(1, n), n, k, run) }},
			{"bytes, columns along", PackedColumnsBytes(n, k), n * k, func(dst unsafe.Pointer, run Packing) { PackColumns(dst, byted(k, 1), n, k, run) }},
			{"nibbles", nibbles.NumbersBytes(), n * nibbles.K / 2, func(dst unsafe.Pointer, run Packing) {
				nibbles.PackNumbers(dst, source[:n*nibbles.K/2], run)
			}},
		}
		if Quads() {
			forms = append(forms,
				form{"quads, columns", QuadColumnsBytes(n, k), n * k, func(dst unsafe.Pointer, run Packing) { PackQuadColumns(dst, byted(1, n), n, k, run) }},
				form{"quads, rows", QuadRowsBytes(n, k), n * k, func(dst unsafe.Pointer, run Packing) { PackQuadRows(dst, byted(k, 1), n, k, run) }})
		}
		for _, f := range forms {
			t.Run(fmt.Sprintf("%s/%dx%d", f.name, n, k), func(t *testing.T) {
				packed := func(piece int, run Packing) []byte {
					defer func(was int) { pieceBytes = was }(pieceBytes)
					pieceBytes = piece
					room := make([]uint64, f.bytes/8+8)
					f.pack(unsafe.Pointer(unsafe.SliceData(room)), run)
					return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(room))), 8*len(room))
				}
				whole := packed(1<<30, &released{base, nil, t})
				seen := &released{base, make([]bool, f.taken), t}
				if !bytes.Equal(packed(500, seen), whole) {
					t.Error("packed in pieces, it differs")
				}
				for i, is := range seen.seen {
					if !is && f.taken > 500 {
						t.Fatalf("byte %d of %d is not released", i, f.taken)
					}
				}
			})
		}
	}
}
