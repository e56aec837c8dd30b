package schedule

import "slices"

// withControlEdges returns the problem with a tensor of 0 bytes from each update to an
// anchor, which must run after it: OLLA's EnforceEarlyWeightUpdates (section 4.3, functions
// 3 and 4). An anchor has a higher level than the update, so that no cycle arises, and of
// those found first the highest level backward, so that it can run early.
//
// OLLA calls the nodes that apply gradients updates. A bare problem does not name them, so
// an update here is a node that makes no bytes and reads some that a node made: running it
// can only free memory.
func (p *Problem) withControlEdges() *Problem {
	q := *p
	q.Tensors = slices.Clone(p.Tensors)
	f := index(p)
	a := anchors{readersOf: make([][]int32, f.Nodes)}
	a.forward, a.backward = levels(f)
	preds := f.Precedence()
	for v := range int32(f.Nodes) {
		for _, u := range preds.Of(v) {
			a.readersOf[u] = append(a.readersOf[u], v)
		}
	}
	for v := range int32(f.Nodes) {
		bytes := func(t int32) bool { return f.Size[t] > 0 }
		made := func(t int32) bool { return f.Size[t] > 0 && f.Producer[t] >= 0 }
		if f.Workspace[v] > 0 || slices.ContainsFunc(f.Makes.Of(v), bytes) || !slices.ContainsFunc(f.Reads.Of(v), made) {
			continue
		}
		if anchor := a.find(v, preds.Of); anchor >= 0 {
			q.Tensors = append(q.Tensors, Tensor{
				Name: "before:" + p.Nodes[anchor].Name, Kind: "control", Producer: v, Consumers: []int32{anchor},
			})
		}
	}
	return &q
}

// anchors searches for the anchor of one update after the other.
type anchors struct {
	readersOf         [][]int32 // node -> its direct successors
	forward, backward []int     // levels
	level             int       // that of the update
	visited           map[int32]candidate
}

// candidate is a node and its level backward, or -1 and -1.
type candidate struct {
	node     int32
	backward int
}

// find is the body of function 3: it looks from the direct predecessors of an update, then
// from theirs, and so on until it finds a candidate.
func (a *anchors) find(v int32, preds func(int32) []int32) int32 {
	a.level, a.visited = a.forward[v], map[int32]candidate{}
	best := candidate{-1, -1}
	started := map[int32]bool{}
	for starts := []int32{v}; best.node < 0 && len(starts) > 0; {
		var next []int32
		for _, s := range starts {
			for _, u := range preds(s) {
				if !started[u] {
					started[u] = true
					next = append(next, u)
				}
			}
		}
		for _, s := range next {
			if c := a.candidate(s); c.backward > best.backward {
				best = c
			}
		}
		starts = next
	}
	return best.node
}

// candidate (OLLA, function 4) returns, among the descendants of v whose forward level
// exceeds the update's, the one of highest backward level. The depth is at most the number of
// levels, since a node beyond the update's level is not followed.
func (a *anchors) candidate(v int32) candidate {
	if c, ok := a.visited[v]; ok {
		return c
	}
	best := candidate{-1, -1}
	for _, s := range a.readersOf[v] {
		switch {
		case a.backward[s] <= best.backward:
		case a.forward[s] > a.level:
			best = candidate{s, a.backward[s]}
		default:
			if c := a.candidate(s); c.backward > best.backward {
				best = c
			}
		}
	}
	a.visited[v] = best
	return best
}
