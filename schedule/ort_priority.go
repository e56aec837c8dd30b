package schedule

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
