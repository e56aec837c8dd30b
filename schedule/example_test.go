package schedule_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/schedule"
)

// Each gradient is freed by its update, which the listing puts last.
func Example() {
	p, err := schedule.ReadProblem(strings.NewReader(`{
		"nodes": [{"name": "grad1"}, {"name": "grad2"}, {"name": "update1"}, {"name": "update2"}],
		"tensors": [
			{"name": "x",  "bytes": 64,  "producer": -1, "consumers": [0, 1]},
			{"name": "g1", "bytes": 512, "producer": 0,  "consumers": [2]},
			{"name": "g2", "bytes": 512, "producer": 1,  "consumers": [3]}
		]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := schedule.Solve(context.Background(), p, schedule.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, v := range r.Order {
		fmt.Println(p.Nodes[v].Name, r.Evaluation.Loads[i])
	}
	fmt.Println("peak", r.Evaluation.Peak, "program order", r.ProgramPeak, "bound", r.Bound, r.Optimal)
	// Output:
	// grad1 576
	// update1 576
	// grad2 576
	// update2 512
	// peak 576 program order 1088 bound 576 true
}

// A problem goes to a solver of integer programs, with our order as start solution, and what
// comes back is checked in integers.
func ExampleProblem_ILP() {
	p, err := schedule.ReadProblem(strings.NewReader(`{
		"nodes": [{"name": "grad1"}, {"name": "grad2"}, {"name": "update1"}, {"name": "update2"}],
		"tensors": [
			{"name": "g1", "bytes": 512, "producer": 0,  "consumers": [2]},
			{"name": "g2", "bytes": 512, "producer": 1,  "consumers": [3]}
		]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := p.ILP(schedule.ILPOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	start, err := g.Encode(schedule.Solution{Order: []int32{0, 1, 2, 3}})
	if err != nil {
		fmt.Println(err)
		return
	}
	value, err := g.Value(start)
	fmt.Println(len(g.Columns), "columns,", len(g.Rows), "rows; this order has", value*g.Unit, "bytes", err)
	// g.WriteMPS(file) hands it over; this is what a solver might return.
	best, _ := g.Encode(schedule.Solution{Order: []int32{0, 2, 1, 3}})
	s, err := g.Decode(best)
	fmt.Println(s.Order, s.Bytes, err)
	// Output:
	// 19 columns, 28 rows; this order has 1024 bytes <nil>
	// [0 2 1 3] 512 <nil>
}
