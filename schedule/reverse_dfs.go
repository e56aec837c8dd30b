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
