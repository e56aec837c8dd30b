package gpu

import (
	"math"
	"strconv"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// Figures of kernels/decode.cu.
const (
	decodedKeys    = 64  // a tile
	decodedColumns = 128 // of the values, of a block
	decodedLanes   = 8   // that compute the score of a key together
)

// These steer how the keys are split. Bits must not depend on the device's number of
// multiprocessors.
const (
	mostDecoded  = 4               // queries of a head: more are worth a tile of attention.cu
	mostShared   = 24 << 10        // bytes of shared memory for the queries of a block
	leastSplit   = 2 * decodedKeys // keys that are worth a block
	mostSplits   = 64              // of the keys of a head
	decodeBlocks = 4 * multiprocessors
)

// decodes reports whether an attention is one of so few queries that its keys are split.
func decodes(s *attending) bool {
	return s.queries <= mostDecoded && s.keys < 1<<30 && decodedDepth(s)*4*decodedRows(s) <= mostShared
}

// decodedRows is the number of queries of a block.
func decodedRows(s *attending) int {
	switch rows := s.shared * s.queries; {
	case rows == 1:
		return 1
	case rows <= 4:
		return 4
	default:
		return 8
	}
}

// decodedDepth is the size of a query in shared memory.
func decodedDepth(s *attending) int {
	return cuts(int(s.size), 4*decodedLanes) * 4 * decodedLanes
}

// splits is the struct Splits there.
type splits struct {
	count, tiles, depth, _ int32
	beyond                 int64
}

// decode appends the launches of an attention of few queries. The number of splits rests on
// the room for keys; where they begin, on the number of keys that there are when it runs.
func (n *Node) decode(s *attending, batch int, element string, y driver.Ptr, a *attended, f faults) error {
	rows := decodedRows(s)
	p := splits{tiles: int32(cuts(int(s.shared*s.queries), rows)), depth: int32(decodedDepth(s))}
	across := cuts(int(s.valueSize), decodedColumns)
	blocks := batch * int(s.heads/s.shared) * int(p.tiles)
	p.count = int32(max(1, min(cuts(decodeBlocks, blocks*across), cuts(int(s.keys), leastSplit), mostSplits)))
	blocks *= int(p.count)
	queries := batch * int(s.heads*s.queries)
	if blocks > math.MaxInt32 || across > math.MaxUint16 || queries > math.MaxInt32 {
		return unsupportedf("attention of %d blocks of queries and %d of values", blocks, across)
	}
	parts := any(driver.Ptr(0))
	if p.count > 1 {
		p.beyond = int64(queries) * int64(p.count) * int64(s.valueSize)
		parts = n.scratch(4 * (p.beyond + 2*int64(queries)*int64(p.count)))
	}
	definitions := []string{"ELEMENT=" + element, "ROWS=" + strconv.Itoa(rows)}
	block := driver.Dim3{X: 128, Y: 1, Z: 1}
	err := n.launch3(n.kernel("decode.cu", "decode", definitions...), driver.Dim3{X: uint32(blocks), Y: uint32(across), Z: 1}, block, 4*rows*int(p.depth),
		y, parts, a.q, a.k, a.v, a.masks, a.numbers, *s, p, f)
	if err != nil || p.count == 1 {
		return err
	}
	return n.launch3(n.kernel("decode.cu", "combine", definitions...), driver.Dim3{X: uint32(queries), Y: 1, Z: 1}, block, 0, y, parts, a.masks, *s, p)
}
