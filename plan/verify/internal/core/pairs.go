package core

// Pairs returns the pairs of a node that save bytes: what is overwritten is neither
// resident nor outside nor an output.
func (p *Problem) Pairs(n int32) []Pair {
	if !p.Inplace || len(p.Nodes[n].Over) == 0 {
		return nil
	}
	var list []Pair
	seen := map[Pair]bool{}
	for _, x := range p.Nodes[n].Over {
		if seen[x] || p.Storages[x.Over].Bytes == 0 || !p.Counts(x.Result) || !p.Counts(x.Over) || p.Storages[x.Over].Output {
			continue
		}
		seen[x] = true
		list = append(list, x)
	}
	return list
}

// Saved is the largest number of bytes that pairs of one node save together: the
// weight of a largest matching. Both storages of a pair have the same size, so
// pairs of different sizes never compete, and a matching with the most pairs is
// the heaviest.
func (p *Problem) Saved(pairs []Pair) int64 {
	if len(pairs) == 1 {
		return p.Storages[pairs[0].Over].Bytes
	}
	options := map[int32][]int32{}
	var results []int32
	for _, x := range pairs {
		if options[x.Result] == nil {
			results = append(results, x.Result)
		}
		options[x.Result] = append(options[x.Result], x.Over)
	}
	holder := map[int32]int32{} // from an overwritten storage to the result that overwrites it
	var take func(result int32, tried map[int32]bool) bool
	take = func(result int32, tried map[int32]bool) bool {
		for _, over := range options[result] {
			if tried[over] {
				continue
			}
			tried[over] = true
			if other, held := holder[over]; !held || take(other, tried) {
				holder[over] = result
				return true
			}
		}
		return false
	}
	for _, result := range results {
		take(result, map[int32]bool{})
	}
	sum := int64(0)
	for over := range holder {
		sum += p.Storages[over].Bytes
	}
	return sum
}

// AtNode is a load below which a node cannot run in any order: its inputs, outputs and
// workspace are live while it runs, and in-place results save at most the weight of a largest
// matching.
func (p *Problem) AtNode(n int32) int64 {
	sum := p.Work[n]
	seen := map[int32]bool{}
	for _, list := range [][]int32{p.Nodes[n].Reads, p.Nodes[n].Writes} {
		for _, storage := range list {
			for _, i := range p.PartsOf(storage) {
				if !seen[i] && p.Counts(i) {
					seen[i] = true
					sum = p.Sums.Add(sum, p.Storages[i].Bytes)
				}
			}
		}
	}
	if p.Sums.Overflow {
		return 0
	}
	return sum - p.Saved(p.Pairs(n))
}
