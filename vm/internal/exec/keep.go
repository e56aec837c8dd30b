package exec

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// kept is the scratch in which a node of a body keeps something from one iteration to the
// next, such as a weight in the layout of the micro-kernels. It lies behind the scratch
// that kernels share, so no other kernel writes there during the loop.
type kept struct {
	off, bytes int
	round      uint64 // in which it was filled
	base       unsafe.Pointer
}

// Keep implements kernel.Runtime. Only a captured tensor is the same in all iterations.
func (st *step) Keep(i, bytes int) bool {
	s, f := st.f.s, st.f
	if !f.loops || st.live || st.has().kept != nil || s.opt.NoPack || s.Mem.Guard != nil || s.gpu != nil || s.watch.comparer != nil || i >= len(st.n().Inputs) {
		return false
	}
	if t := st.n().Inputs[i]; t < 0 || !f.g.Tensors[t].Capture {
		return false
	}
	st.own().kept = &kept{off: s.scratch.keeps, bytes: bytes}
	s.scratch.keeps += (bytes + 63) &^ 63
	s.scratch.keep = max(s.scratch.keep, s.scratch.keeps)
	return true
}

// Kept implements kernel.Runtime.
func (st *step) Kept() (at unsafe.Pointer, filled bool) {
	k := st.more.kept
	at = unsafe.Add(st.f.s.scratch.block.Base, st.f.s.scratch.shared+k.off)
	filled = k.round == st.f.round && k.base == at // the scratch may have moved
	k.round, k.base = st.f.round, at
	return at, filled
}

// begin marks the begin of a loop, whose iterations run a body: what its nodes kept is
// of an earlier one.
func (f *frame) begin() {
	f.s.scratch.rounds++
	f.round = f.s.scratch.rounds
}

// isLoop reports whether a node runs a body several times.
func isLoop(n *graph.Node) bool { return ops.Repeats(n) }
