package alloc_test

import (
	"context"
	"fmt"

	"github.com/onnxmem/onnxmem/alloc"
)

// The four buffers of the package comment: the arena is the largest load.
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

// The seven buffers of the package comment: the largest load is out of reach, and the
// exact search proves it.
func ExampleSolve_proof() {
	p := alloc.Problem{Buffers: []alloc.Buffer{
		{ID: "a", Size: 2, First: 0, Last: 0},
		{ID: "b", Size: 2, First: 0, Last: 1},
		{ID: "c", Size: 1, First: 1, Last: 3},
		{ID: "d", Size: 1, First: 1, Last: 2},
		{ID: "e", Size: 1, First: 2, Last: 3},
		{ID: "f", Size: 2, First: 3, Last: 4},
		{ID: "g", Size: 2, First: 4, Last: 4},
	}}
	r, err := alloc.Solve(context.Background(), p, alloc.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("largest load", p.MaxLoad())
	fmt.Println("arena", r.Arena, "lower bound", r.LowerBound, "optimal", r.Optimal)
	fmt.Println("offsets", r.Offsets)
	// Output:
	// largest load 4
	// arena 5 lower bound 5 optimal true
	// offsets [0 2 4 0 2 0 2]
}
