package verify

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// holdOnHost marks the storages that SwapOut makes on the host, and says how long the host
// holds them. With several pools, they lie in one of these instead.
func (s *scope) holdOnHost() {
	if s.kind != mainGraph || len(s.v.Plan.Tiers()) > 0 {
		return
	}
	for i := range s.Storages {
		st := &s.Storages[i]
		st.Host = st.Maker >= 0 && s.g.Nodes[st.Maker].IsSwapOut()
	}
	for i := range s.Storages {
		if st := &s.Storages[i]; st.Host {
			st.First, st.Last = s.hostLifetime(st)
		}
	}
}

// hostLifetime returns the steps during which the host holds a copy. The transfer out may
// begin once the last reader before SwapOut has run; the transfer back ends before the first
// reader of SwapIn's output runs.
func (s *scope) hostLifetime(st *core.Storage) (first, last int) {
	first = s.transferBegin(st.Maker)
	last = int(st.Maker)
	for _, n := range st.Readers {
		last = max(last, int(n), s.transferEnd(n)-1)
	}
	if st.Output {
		last = s.End()
	}
	return first, last
}

// transferBegin returns the first step during which the transfer of a SwapOut may
// be in progress: the step of SwapOut itself if the tensor's size is only
// bounded.
func (s *scope) transferBegin(out int32) int {
	t := s.g.Nodes[out].Inputs[0]
	if s.storageOf[t] == none || s.g.Tensors[t].Bounded {
		return int(out)
	}
	st := &s.Storages[s.storageOf[t]]
	begin := 0
	if st.Maker >= 0 {
		begin = max(int(st.Maker)+1, s.transferEnd(st.Maker))
	}
	for _, n := range st.Readers {
		if n < out {
			begin = max(begin, int(n)+1)
		}
	}
	return begin
}

// transferEnd returns the step before which the transfer of a SwapIn has ended.
// It is none if n is not a SwapIn, or waits for its transfer itself: its output
// has no reader, its size is only bounded, or its input is not on the host.
func (s *scope) transferEnd(n int32) int {
	if !s.g.Nodes[n].IsSwapIn() {
		return none
	}
	t := s.g.Tensors[s.g.Nodes[n].Outputs[0]]
	from := s.storageOf[s.g.Nodes[n].Inputs[0]]
	if len(t.Readers) == 0 || t.Bounded || from == none || !s.Storages[from].Host {
		return none
	}
	return int(slices.Min(t.Readers))
}

// checkSwaps checks that a runtime without support for transfers can run them.
func (v *verifier) checkSwaps() bool {
	s := v.main
	for i, n := range s.g.Nodes {
		if !n.IsSwap() {
			continue
		}
		is := func(f *graph.Function) bool { return f.Name == n.Op && f.IsSwap() }
		if !slices.ContainsFunc(v.Model.Functions, is) {
			v.Fault(CodeSwap, "%s: expected a function %s of domain %s in the model whose body is Identity, found none", s.g.Label(graph.NodeID(i)), n.Op, graph.SwapDomain)
		}
	}
	return true
}

// waiting returns the nanoseconds for which the steps wait for transfers over a
// link of that many bytes per second in each direction. Transfers of one
// direction run one after the other: transfers out in the order in which they may
// begin, transfers back in the order of their SwapIn nodes. SwapOut waits for its
// own transfer, and each step for the transfers of its inputs.
func (s *scope) waiting(cost func(step int) int64, link int64) int64 {
	time := func(t graph.TensorID) int64 {
		if s.storageOf[t] == none {
			return 0
		}
		const most = math.MaxInt64 >> 24 // so that sums fit
		return int64(math.Ceil(min(float64(s.Storages[s.storageOf[t]].Bytes)/float64(link)*1e9, most)))
	}
	type queued struct {
		node  graph.NodeID
		begin int
	}
	var outs []queued
	for i, n := range s.g.Nodes {
		if n.IsSwapOut() {
			outs = append(outs, queued{graph.NodeID(i), s.transferBegin(int32(i))})
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
			if m := s.g.Tensors[t].Maker; m >= 0 && s.transferEnd(int32(m)) == i {
				wait(done[m])
			}
		})
		switch id := graph.NodeID(i); {
		case n.IsSwapOut():
			wait(done[id])
		case n.IsSwapIn():
			inFree = max(inFree, clock) + time(n.Outputs[0])
			if done[id] = inFree; s.transferEnd(int32(i)) == none {
				wait(inFree)
			}
		}
		clock += cost(i)
	}
	return idle
}
