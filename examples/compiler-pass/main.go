// Compiler-pass adds a pass to onnxmem: dead code elimination. It builds a small
// graph by hand, plans it with the pass in front of the others, and prints the
// order of the nodes and the place of every tensor.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// network returns y = Relu(x·w) + x·v, with two more nodes that no output needs.
func network() (*graph.Model, error) {
	b := graph.NewBuilder("network", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 1, 64))
	w := b.Floats("w", []int64{64, 256}, make([]float32, 64*256))
	v := b.Floats("v", []int64{64, 256}, make([]float32, 64*256))
	left := b.Node("Relu", "left", b.Node("MatMul", "product", x, w))
	b.Node("Exp", "unused", b.Node("Tanh", "unread", left))
	b.Output(b.Node("Add", "y", left, b.Node("MatMul", "right", x, v)))
	return b.Model()
}

// deadCode removes the nodes that no output needs, in one sweep from the last
// node to the first: a node of this graph comes after the makers of its inputs.
func deadCode(_ context.Context, s *passes.State) error {
	g := s.Model().Graph
	needed := make([]bool, len(g.Tensors))
	for _, t := range g.Outputs {
		needed[t] = true
	}
	kept := g.Nodes[:0:0]
	for _, n := range slices.Backward(g.Nodes) {
		if slices.ContainsFunc(n.Outputs, func(t graph.TensorID) bool { return t != graph.None && needed[t] }) {
			kept = append(kept, n)
			n.Reads(func(t graph.TensorID) { needed[t] = true })
		}
	}
	slices.Reverse(kept)
	g.Nodes = kept
	g.Link()
	g.DropTensors(func(t graph.TensorID) bool {
		return g.Tensors[t].Maker == graph.None && !needed[t] && !g.Tensors[t].Input
	})
	s.Invalidate()
	return nil
}

func run(ctx context.Context, out io.Writer) error {
	m, err := network()
	if err != nil {
		return err
	}
	pass := passes.Pass{Name: "dead-code", Doc: "drop the nodes that no output needs", Run: deadCode, Optional: true}
	r, err := passes.Optimize(ctx, m, passes.Options{Passes: append([]passes.Pass{pass}, passes.Default()...)})
	if err != nil {
		return err
	}
	for i, step := range r.Plan.Steps {
		fmt.Fprintf(out, "step %d: %-8s load %4d bytes\n", i, step.Name, step.LoadBytes)
	}
	for _, b := range r.Plan.Buffers {
		fmt.Fprintf(out, "%-8s %6d +%5d  steps %d-%d  %v\n", b.Pool, b.Offset, b.Bytes, b.First, b.Last, b.Tensors)
	}
	return nil
}
