package schedule

import (
	"fmt"
	"math"
	"slices"
)

// Rounded returns the problem with all sizes rounded up to multiples of n bytes.
// It fails if n is below 1 or a size or their sum passes an int64. The problem
// itself stays.
func (p *Problem) Rounded(n int64) (*Problem, error) {
	if n < 1 {
		return nil, fmt.Errorf("alignment: expected 1 or more bytes, found %d", n)
	}
	q := *p
	q.Nodes, q.Tensors = slices.Clone(p.Nodes), slices.Clone(p.Tensors)
	round := func(bytes *int64) bool {
		rest := *bytes % n
		if rest > 0 && *bytes > math.MaxInt64-n {
			return false
		}
		if rest > 0 {
			*bytes += n - rest
		}
		return true
	}
	for v := range q.Nodes {
		if !round(&q.Nodes[v].Workspace) {
			return nil, &Error{int32(v), -1, p.node(int32(v)), fmt.Sprintf("workspace of %d bytes: rounded up to %d it passes %d", p.Nodes[v].Workspace, n, math.MaxInt64)}
		}
	}
	for t := range q.Tensors {
		if !round(&q.Tensors[t].Bytes) {
			return nil, &Error{-1, int32(t), p.tensor(int32(t)), fmt.Sprintf("size of %d bytes: rounded up to %d it passes %d", p.Tensors[t].Bytes, n, math.MaxInt64)}
		}
	}
	return &q, q.Validate()
}
