package memory

import "github.com/onnxmem/onnxmem/internal/units"

// What a process of `onnxmem run` takes at most beyond the memory that a plan accounts for.
const (
	// runBytes was found on Linux with 2 cores. Up to 25 MiB are pages of the program's own
	// file (12 where the file was not in the system's cache). Go's runtime holds 10 to 15 MiB
	// for a model of up to 500 nodes; scratch and tables of kernels take up to 6 MiB. The
	// rest is pages of small constants around the model's weights, and the piece of a weight
	// that is being packed. bench/process.py holds models to the same figure. Scratch grows
	// by half a MiB (float16: 1 MiB) for each worker beyond 8.
	runBytes = 48 << 20
	// nodeBytes is Go's heap for one node of the graph, the plan and the session, and the garbage
	// beside it: at most 2.7 KiB in models of 2,000 nodes, 1.4 in one of 24,070. freeNodes nodes are
	// within runBytes.
	nodeBytes = 4 << 10
	freeNodes = 500
)

// RunBytes estimates from above the peak of a process of `onnxmem run` that runs a model
// with this many nodes on the CPU. planned is the memory that the plan accounts for: arena,
// resident pool and host pool, with the values of inputs that the process holds besides.
// Tensors whose sizes depend on data come on top.
func RunBytes(planned int64, nodes int) int64 {
	return units.Add(planned, runBytes+nodeBytes*int64(max(nodes-freeNodes, 0)))
}
