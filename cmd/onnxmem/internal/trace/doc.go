// Package trace reads recorded streams of allocations and frees, finds the iteration
// in them, and turns it into buffers with lifetimes for package alloc.
//
// [Read] recognises by content what it reads: onnxmem's own JSON lines (lines.go),
// the memory snapshots of PyTorch (pickle.go, snapshot.go), Chrome traces with the
// memory events of PyTorch's profiler (chrome.go), and CSV, of events or of lifetimes
// (csv.go). [Trace.Iteration] finds the period of the stream (repeat.go) and the
// lifetimes in it (iteration.go). [Packed] is the iteration with an offset for each
// block; it writes the replay table (replay.go).
package trace
