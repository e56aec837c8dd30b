package vm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// A result of float16 is read as float64, row by row.
func ExampleValue_Reals() {
	b := graph.NewBuilder("halves", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 2, 3))
	to := &graph.Attr{Name: "to", Type: graph.AttrInt, Int: int64(graph.Float16)}
	b.Output(b.Add(&graph.Node{Op: "Cast", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{to}}, "y")[0])
	m, err := b.Model()
	if err != nil {
		log.Fatal(err)
	}
	planned, err := passes.Optimize(context.Background(), m, passes.Options{})
	if err != nil {
		log.Fatal(err)
	}
	program, err := vm.New(planned.Model, planned.Plan)
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	session, err := program.NewSession(vm.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	out, err := session.Run(context.Background(), map[string]vm.Value{"x": vm.Float32s([]float32{1, 2, 3, 0.1, 5, 6}, 2, 3)})
	if err != nil {
		log.Fatal(err)
	}
	y, ok := out["y"].Reals()
	if !ok {
		log.Fatalf("y is no tensor of numbers: %v", out["y"])
	}
	columns := out["y"].Shape[1]
	fmt.Println(out["y"].Type, y[:columns], y[1*columns+0])
	// Output:
	// float16 [1 2 3] 0.0999755859375
}
