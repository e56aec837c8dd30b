package lower

import "unsafe"

// kept is the scratch in which a node of a body keeps something from one iteration to the
// next, such as a weight in the layout of the micro-kernels. It lies behind the scratch
// that kernels share, so no other kernel writes there during the loop.
type kept struct {
	off, bytes int
	round      uint64 // in which it was filled
	base       unsafe.Pointer
}

// Keep implements kernel.Runtime. Only a captured tensor is the same in all iterations.
func (st *Step) Keep(i, bytes int) bool {
	s, f := st.Frame.Site, st.Frame
	if !f.loops || st.live || st.Has().kept != nil || s.Options.NoPack || s.Mem.Guard != nil || s.GPU != nil || s.Compared != nil || i >= len(st.Node().Inputs) {
		return false
	}
	if t := st.Node().Inputs[i]; t < 0 || !f.Graph.Tensors[t].Capture {
		return false
	}
	st.own().kept = &kept{off: s.Scratch.keeps, bytes: bytes}
	s.Scratch.keeps += (bytes + 63) &^ 63
	s.Scratch.Keep = max(s.Scratch.Keep, s.Scratch.keeps)
	return true
}

// Kept implements kernel.Runtime.
func (st *Step) Kept() (at unsafe.Pointer, filled bool) {
	k := st.More.kept
	at = unsafe.Add(st.Frame.Site.Scratch.Block.Base, st.Frame.Site.Scratch.Shared+k.off)
	filled = k.round == st.Frame.round && k.base == at // the scratch may have moved
	k.round, k.base = st.Frame.round, at
	return at, filled
}

// Begin marks the begin of a loop, whose iterations run a body: what its nodes kept is
// of an earlier one.
func (f *Frame) Begin() {
	f.Site.Scratch.rounds++
	f.round = f.Site.Scratch.rounds
}
