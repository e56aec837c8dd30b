package alloc_test

import (
	"context"
	"fmt"

	"github.com/onnxmem/onnxmem/alloc"
)

// The four buffers of the package comment.
func Example() {
	r, err := alloc.Solve(context.Background(), alloc.Problem{Buffers: []alloc.Buffer{
		{ID: "a", Size: 4, First: 0, Last: 1},
		{ID: "b", Size: 2, First: 0, Last: 1},
		{ID: "c", Size: 1, First: 1, Last: 2},
		{ID: "d", Size: 4, First: 2, Last: 3},
	}}, alloc.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Offsets, r.Arena, r.LowerBound, r.Optimal, r.Strategy)
	// Output: [0 4 6 0] 7 7 true greedy-by-size
}
