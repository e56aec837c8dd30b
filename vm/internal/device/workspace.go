package device

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
)

// Workspace is where the scratch of a node of the main graph lies on the device: that of
// its kernel, or of the nodes of its bodies and functions, which run one after another.
type Workspace struct {
	Node  graph.NodeID
	Space gpu.Workspace // empty: the session's scratch
}

// WorkspaceAt returns the place on the device of the scratch that the plan has for a node of the main
// graph, at an address of the host; that of the session if there are no bytes there.
func (g *Memory) WorkspaceAt(n graph.NodeID, at unsafe.Pointer, bytes int64) Workspace {
	w := Workspace{Node: n}
	if bytes > 0 {
		if p, found := g.address(at); found {
			w.Space = gpu.Workspace{At: p, Bytes: bytes}
		}
	}
	return w
}

// address returns the place on the device of an address in one of the pools.
func (g *Memory) address(at unsafe.Pointer) (driver.Ptr, bool) {
	for _, m := range g.mirrors {
		if off := uintptr(at) - uintptr(m.host.At(m.from)); off < uintptr(m.dev.Bytes) {
			return m.dev.At + driver.Ptr(off), true
		}
	}
	return 0, false
}
