package schedule

// SizePriority runs, among the ready nodes, the one of the smallest static
// estimate of what it adds: the bytes of its outputs, less for each tensor that
// it reads the bytes divided by the number of its readers, rounded down. That is
// ScheduleGreedy of Chainer's compiler (compiler/scheduler.cc,
// EstimateMemoryIncrease) without what it adds for Relu and without its second
// pass, DelaySimpleNodes. The estimate does not follow who has run: unlike
// [Greedy], the last of many readers looks no better than the first. Workspace
// and in-place pairs count nothing. Ties fall to the smaller index.
// O(E + V log V).
func SizePriority(p *Problem) []int32 {
	f := index(p)
	adds := make([]int64, f.Nodes)
	for i := range adds {
		v := int32(i)
		for _, t := range f.Makes.Of(v) {
			adds[v] += f.Size[t]
		}
		for _, t := range f.Reads.Of(v) {
			adds[v] -= f.Size[t] / int64(len(f.Readers.Of(t)))
		}
	}
	return kahn(f, func(a, b int32) bool {
		return adds[a] < adds[b] || adds[a] == adds[b] && a < b
	})
}
