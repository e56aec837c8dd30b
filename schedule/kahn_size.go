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
	f := flatten(p)
	adds := make([]int64, f.nodes)
	for i := range adds {
		v := int32(i)
		for _, t := range f.made.of(v) {
			adds[v] += f.size[t]
		}
		for _, t := range f.read.of(v) {
			adds[v] -= f.size[t] / int64(len(f.readers.of(t)))
		}
	}
	return f.kahn(func(a, b int32) bool {
		return adds[a] < adds[b] || adds[a] == adds[b] && a < b
	})
}
