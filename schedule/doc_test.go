package schedule

import (
	"context"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// The example of the package comment, from the problem to the proof. Every figure there
// stands here.
func Example_proof() {
	p := &Problem{
		Nodes: []Node{{Name: "A"}, {Name: "B"}, {Name: "D"}, {Name: "W"}, {Name: "G"}, {Name: "U"}},
		Tensors: []Tensor{
			{Name: "p", Bytes: 9, Producer: -1, Consumers: []int32{0, 5}, Resident: true},
			{Name: "x", Bytes: 2, Producer: -1, Consumers: []int32{0}},
			{Name: "a", Bytes: 4, Producer: 0, Consumers: []int32{1, 3, 4}},
			{Name: "b", Bytes: 6, Producer: 1, Consumers: []int32{2}},
			{Name: "d", Bytes: 6, Producer: 2, Consumers: []int32{3, 4}},
			{Name: "w", Bytes: 5, Producer: 3, Consumers: []int32{5}},
			{Name: "g", Bytes: 2, Producer: 4, Output: true},
		},
	}
	names := func(nodes []int32) string {
		var s []string
		for _, v := range nodes {
			s = append(s, p.Nodes[v].Name)
		}
		return strings.Join(s, " ")
	}
	e, _ := p.Evaluate(Program(p))
	fmt.Println("program order:", names(Program(p)), e.Loads)

	g := indexed.NewProblem(index(p))
	fmt.Println("indexed problem: sizes", g.Size, "makers", g.Maker, "transient", g.Transient)

	c := reduce.Contract(g, reduce.Without{}, meter.New(context.Background()))
	fmt.Print("contracted:")
	for _, run := range c.Run {
		fmt.Printf(" [%s]", names(run))
	}
	fmt.Println()

	for v := range int32(6) {
		fmt.Printf("%s: %d alone, %d by a cut\n", names([]int32{v}), NodeBound(p, v), CutBound(p, v))
	}

	cut := bounds.NewCutter(meter.New(context.Background()))
	before := make([]bool, len(p.Nodes))
	x := cut.Node(g, 2)
	cut.ProvingState(g, x, before)
	fmt.Println("the state before D:", before)
	cut.ProvingState(g, cut.Node(g, 3), before)
	fmt.Println("before W:", before)
	fmt.Println("certificate:", x.Kind, names(x.Nodes), x.Value)

	r, _ := Solve(context.Background(), p, Options{})
	fmt.Println("order:", names(r.Order), r.Evaluation.Loads, "bound", r.Bound, "optimal", r.Optimal)
	fmt.Println("certificate:", r.Certificates[0].Kind, names(r.Certificates[0].Nodes), r.Certificates[0].Value)
	// Output:
	// program order: A B D W G U [6 10 16 15 17 7]
	// indexed problem: sizes [2 4 6 6 5 2] makers [-1 0 1 2 3 4] transient [4 6 6 5 2 0]
	// contracted: [A B D W U G]
	// A: 6 alone, 6 by a cut
	// B: 10 alone, 10 by a cut
	// D: 12 alone, 16 by a cut
	// W: 15 alone, 15 by a cut
	// G: 12 alone, 12 by a cut
	// U: 5 alone, 7 by a cut
	// the state before D: [true true false false false false]
	// before W: [true true true false false false]
	// certificate: cut D 16
	// order: A B D W U G [6 10 16 15 15 12] bound 16 optimal true
	// certificate: cut D 16
}
