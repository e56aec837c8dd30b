package schedule_test

import (
	"context"
	"fmt"
	"log"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/schedule"
)

// A compiler with a graph of its own: nodes and tensors in, an order and an
// offset for each tensor out. docs/recipes.md shows this.
func Example_compiler() {
	p := &schedule.Problem{
		Nodes: []schedule.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "sum"}},
		Tensors: []schedule.Tensor{
			{Name: "x", Bytes: 64, Producer: -1, Consumers: []int32{0, 1}},
			{Name: "a", Bytes: 4096, Producer: 0, Consumers: []int32{2}},
			{Name: "b", Bytes: 512, Producer: 1, Consumers: []int32{3}},
			{Name: "c", Bytes: 512, Producer: 2, Consumers: []int32{3}},
			{Name: "sum", Bytes: 512, Producer: 3, Output: true, Reuses: []int32{2, 3}},
		},
	}
	found, err := schedule.Solve(context.Background(), p, schedule.Options{})
	if err != nil {
		log.Fatal(err) // *schedule.Error: which node or tensor
	}
	fmt.Println("peak", found.Evaluation.Peak, "bound", found.Bound)

	buffers, err := p.Lifetimes(found.Order, found.Evaluation.Taken)
	if err != nil {
		log.Fatal(err)
	}
	var place alloc.Problem
	for _, b := range buffers {
		place.Buffers = append(place.Buffers, alloc.Buffer{Size: b.Bytes, First: b.First, Last: b.Last})
	}
	placed, err := alloc.Solve(context.Background(), place, alloc.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for i, b := range buffers {
		for _, t := range b.Tensors {
			fmt.Println(p.Tensors[t].Name, b.First, b.Last, placed.Offsets[i])
		}
	}
	fmt.Println("arena", placed.Arena)
	// Output:
	// peak 4672 bound 4672
	// x 0 2 4608
	// a 0 1 0
	// c 1 3 4096
	// b 2 3 0
	// sum 2 3 0
	// arena 4672
}
