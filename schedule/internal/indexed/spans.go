package indexed

// Spans returns the first and the last step at which each node can run, by its ancestors,
// which all run before it, and its descendants, which all run after it. The order is any
// topological one, preds has the nodes that each node waits for. It counts ancestors for
// 64 nodes at a time: O(V E / 64).
func Spans(order []int32, preds Lists) (first, last []int) {
	nodes := len(order)
	first, last = make([]int, nodes), make([]int, nodes)
	reach := make([]uint64, nodes) // node -> which of the 64 are its ancestors
	for from := 0; from < nodes; from += 64 {
		clear(reach)
		for _, v := range order {
			for _, u := range preds.Of(v) {
				reach[v] |= reach[u]
				if i := int(u) - from; i >= 0 && i < 64 {
					reach[v] |= 1 << i
				}
			}
			for i := range min(64, nodes-from) {
				if reach[v]>>i&1 == 1 {
					first[v]++
					last[from+i]++
				}
			}
		}
	}
	for v := range last {
		last[v] = nodes - 1 - last[v]
	}
	return first, last
}

// Divisor returns the greatest common divisor of all sizes, or 1.
func Divisor(lists ...[]int64) (d int64) {
	for _, list := range lists {
		for _, x := range list {
			for x != 0 {
				d, x = x, d%x
			}
		}
	}
	return max(d, 1)
}
