package schedule

import "slices"

// ReverseDepthFirst returns ONNX Runtime's default order
// (ExecutionOrder::DEFAULT): the post-order of Graph::ReverseDFSFrom, called by
// GraphViewer with all leaves and with NodeCompare, which is by index. Leaves
// and inputs are pushed on a stack in ascending order, so that it begins with
// the last leaf and follows the input of the largest index first: the mirror of
// [DepthFirst]. Sizes count nothing. O(E log V).
func ReverseDepthFirst(p *Problem) []int32 {
	f := index(p)
	roots := sinks(f)
	slices.Reverse(roots)
	needs := f.Precedence()
	for v := range int32(f.Nodes) {
		slices.Reverse(needs.Of(v))
	}
	return postOrder(roots, needs)
}

// PriorityFirst returns ONNX Runtime's priority-based order
// (ExecutionOrder::PRIORITY_BASED): Graph::KahnsTopologicalSort with
// PriorityNodeCompare of graph_viewer.cc. Among the ready nodes Shape and Size
// come first, so that what they read may be freed; then the smaller index. The
// further keys of the original are those of its own training graphs: a node's
// priority, which its recomputation lowers, and forward before backward.
// O(E + V log V).
func PriorityFirst(p *Problem) []int32 {
	urgent := make([]bool, len(p.Nodes))
	for v := range p.Nodes {
		urgent[v] = p.Nodes[v].Op == "Shape" || p.Nodes[v].Op == "Size"
	}
	return kahn(index(p), func(a, b int32) bool {
		if urgent[a] != urgent[b] {
			return urgent[a]
		}
		return a < b
	})
}
