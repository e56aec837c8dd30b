package fit

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// What a process of onnxmem run usually takes beside the plan: docs/results/process.md, Linux on
// x86-64, 2026-11-29; memory.RunBytes is the same at most.
const (
	processBytes = 22 * mib
	pageBytes    = 4 * kib
)

// usual returns the peak that a process of onnxmem run usually has with a plan: that of the plan, without the
// rows of weights that nobody reads, which stay in their file.
func usual(p *plan.Plan, m *graph.Model) int64 {
	return units.Add(p.Summary.TotalBytes-unread(m.Graph), processBytes)
}

// unread returns the bytes of weights of which nodes read no more than they write, such as the rows of an
// embedding, beyond those that they read.
func unread(g *graph.Graph) (sum int64) {
	for i, t := range g.Tensors {
		if !t.Initializer() || len(t.Readers) == 0 || t.Output {
			continue
		}
		read := int64(0)
		for _, r := range t.Readers {
			read += readBytes(g, g.Nodes[r], graph.TensorID(i), t.Bytes)
		}
		sum += max(t.Bytes-read, 0)
	}
	return sum
}

// readBytes returns how much of a weight a node reads at most, in whole pages.
func readBytes(g *graph.Graph, n *graph.Node, weight graph.TensorID, whole int64) int64 {
	if !ops.ReadsOutput(n) || len(n.Inputs) == 0 || len(n.Outputs) == 0 || n.Inputs[0] != weight || slices.Contains(n.Inputs[1:], weight) {
		return whole
	}
	return g.Tensors[n.Outputs[0]].Bytes + 2*pageBytes
}
