package gemm

import "unsafe"

// Packing is what the owner of constants is told while they are packed.
type Packing interface {
	Stopper
	// Release says that bytes of a constant were packed, and are not read again soon: pages
	// of a mapped file need not stay in memory beside what was made of them.
	Release(at unsafe.Pointer, bytes int)
}

// pieceBytes is how much of a source is packed before its bytes are released. A source that
// is no larger is left to its owner. It is a variable for tests.
var pieceBytes = 8 << 20

// pieces is the order in which a source is packed: in strips of width rows over the whole
// depth where rows are contiguous, else by the depth. So each part of the source is read once
// and can be released.
type pieces struct {
	at          unsafe.Pointer
	row, deep   int // bytes from a row to the next, and from a depth to the next
	n, k, width int
	quantum     int  // depths that belong together
	byRows      bool // a row is contiguous
}

func (m *Dense) pieces(n, k, width int) *pieces {
	size := 4
	if m.Format != Float32 {
		size = 2
	}
	return &pieces{at: m.At, row: size * m.Step, deep: size * m.Deep, n: n, k: k, width: width, quantum: 1, byRows: m.Deep == 1 && m.Step >= k || m.Taps > 0}
}

func (m *Bytes) pieces(n, k, width, quantum int) *pieces {
	return &pieces{at: m.At, row: m.Step, deep: m.Deep, n: n, k: k, width: width, quantum: quantum, byRows: m.Deep == 1 && m.Step >= k}
}

// pack calls strip for rows [i, i+width) at depths [d, d+deep), and releases what was packed.
func (p *pieces) pack(run Packing, strip func(i, d, deep int)) {
	each := p.row // bytes of a row, or of a depth
	count, whole := p.n, p.k
	if !p.byRows {
		each, count, whole = p.deep, p.k, pieceBytes/max(p.deep, 1)/p.quantum*p.quantum
		whole = min(max(whole, p.quantum), p.k)
	}
	release := func(from, end int) {
		if run != nil && each > 0 && each*count > pieceBytes && end > from {
			run.Release(unsafe.Add(p.at, from*each), (end-from)*each)
		}
	}
	for d := 0; d < p.k; d += whole {
		deep, from := min(whole, p.k-d), 0
		for i := 0; i < p.n; i += p.width {
			if run != nil && run.Stopping() {
				return
			}
			strip(i, d, deep)
			if end := min(i+p.width, p.n); p.byRows && ((end-from)*each >= pieceBytes || end == p.n) {
				release(from, end)
				from = end
			}
		}
		if !p.byRows {
			release(d, d+deep)
		}
	}
}
