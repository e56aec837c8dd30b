package alloc

// StripPacking is the best-fit heuristic for strip packing as Sekiyama et al.
// 2018, section 3.2, use it for memory: [BestFit], but without a rule for equal
// lifetimes. They fall to the smaller index here, which gives the figures of
// Pisarchyk & Lee 2020, table 2, for it. Cost as there.
func StripPacking(p Problem) Placement {
	s := prepare(p)
	sortBy(s.ids, func(i int) uint64 { return ^duration(p.Buffers[i]) })
	return layBottomUp(s)
}
