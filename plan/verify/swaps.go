package verify

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// swapped reports whether SwapOut made a storage that lies on the host: with several pools,
// it lies in one of them.
func (s *scope) swapped(st *storage) bool {
	return s.kind == mainGraph && len(s.v.p.Tiers()) == 0 && st.maker >= 0 && s.g.Nodes[st.maker].IsSwapOut()
}

// hostLifetime returns the steps during which the host holds a copy if node n
// runs at step pos[n]. The transfer out may begin once the last reader before
// SwapOut has run; the transfer back ends before the first reader of SwapIn's
// output runs.
func (s *scope) hostLifetime(st *storage, pos []int) (first, last int) {
	first = s.transferBegin(st.maker, pos)
	last = pos[st.maker]
	for _, n := range st.readers {
		last = max(last, pos[n], s.transferEnd(n, pos)-1)
	}
	if st.output {
		last = s.end()
	}
	return first, last
}

// transferBegin returns the first step during which the transfer of a SwapOut may
// be in progress: the step of SwapOut itself if the tensor's size is only
// bounded.
func (s *scope) transferBegin(out graph.NodeID, pos []int) int {
	t := s.g.Nodes[out].Inputs[0]
	if s.storageOf[t] == none || s.g.Tensors[t].Bounded {
		return pos[out]
	}
	st := &s.storages[s.storageOf[t]]
	begin := 0
	if st.maker >= 0 {
		begin = max(pos[st.maker]+1, s.transferEnd(st.maker, pos))
	}
	for _, n := range st.readers {
		if pos[n] < pos[out] {
			begin = max(begin, pos[n]+1)
		}
	}
	return begin
}

// transferEnd returns the step before which the transfer of a SwapIn has ended.
// It is none if n is not a SwapIn, or waits for its transfer itself: its output
// has no reader, its size is only bounded, or its input is not on the host.
func (s *scope) transferEnd(n graph.NodeID, pos []int) int {
	if !s.g.Nodes[n].IsSwapIn() {
		return none
	}
	t := s.g.Tensors[s.g.Nodes[n].Outputs[0]]
	from := s.storageOf[s.g.Nodes[n].Inputs[0]]
	if len(t.Readers) == 0 || t.Bounded || from == none || !s.swapped(&s.storages[from]) {
		return none
	}
	end := math.MaxInt
	for _, r := range t.Readers {
		end = min(end, pos[r])
	}
	return end
}

// checkSwaps checks that a runtime without support for transfers can run them.
func (v *verifier) checkSwaps(s *scope) {
	for i, n := range s.g.Nodes {
		if !n.IsSwap() {
			continue
		}
		is := func(f *graph.Function) bool { return f.Name == n.Op && f.IsSwap() }
		if !slices.ContainsFunc(v.m.Functions, is) {
			v.fault(CodeSwap, "%s: expected a function %s of domain %s in the model whose body is Identity, found none", s.g.Label(graph.NodeID(i)), n.Op, graph.SwapDomain)
		}
	}
}

// waiting returns the nanoseconds for which the steps wait for transfers over a
// link of that many bytes per second in each direction. Transfers of one
// direction run one after the other: transfers out in the order in which they may
// begin, transfers back in the order of their SwapIn nodes. SwapOut waits for its
// own transfer, and each step for the transfers of its inputs.
func (s *scope) waiting(cost func(step int) int64, link int64) int64 {
	pos := s.steps()
	time := func(t graph.TensorID) int64 {
		if s.storageOf[t] == none {
			return 0
		}
		const most = math.MaxInt64 >> 24 // so that sums fit
		return int64(math.Ceil(min(float64(s.storages[s.storageOf[t]].bytes)/float64(link)*1e9, most)))
	}
	type queued struct {
		node  graph.NodeID
		begin int
	}
	var outs []queued
	for i, n := range s.g.Nodes {
		if n.IsSwapOut() {
			outs = append(outs, queued{graph.NodeID(i), s.transferBegin(graph.NodeID(i), pos)})
		}
	}
	slices.SortStableFunc(outs, func(a, b queued) int { return a.begin - b.begin })
	done := map[graph.NodeID]int64{} // when each transfer has ended
	var clock, outFree, inFree, idle int64
	wait := func(until int64) {
		if until > clock {
			idle += until - clock
			clock = until
		}
	}
	for i, n := range s.g.Nodes {
		for ; len(outs) > 0 && outs[0].begin == i; outs = outs[1:] {
			outFree = max(outFree, clock) + time(s.g.Nodes[outs[0].node].Outputs[0])
			done[outs[0].node] = outFree
		}
		n.Reads(func(t graph.TensorID) {
			if m := s.g.Tensors[t].Maker; m >= 0 && s.transferEnd(m, pos) == i {
				wait(done[m])
			}
		})
		switch id := graph.NodeID(i); {
		case n.IsSwapOut():
			wait(done[id])
		case n.IsSwapIn():
			inFree = max(inFree, clock) + time(n.Outputs[0])
			if done[id] = inFree; s.transferEnd(id, pos) == none {
				wait(inFree)
			}
		}
		clock += cost(i)
	}
	return idle
}
