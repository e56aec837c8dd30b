package passes

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// region is a graph that is planned as a whole: the main graph, a body, or the
// body of a local function as one call sees it.
type region struct {
	g    *graph.Graph
	kind regionKind
	// inFunction: the region is a local function or lies within one. One body
	// serves calls of many shapes, so its order is the file's, and what it holds
	// has no place in the plan: constants are ordinary tensors of the workspace.
	inFunction bool

	storages  []storage
	of        []int32 // storage of each tensor; noStorage for dynamic ones
	workspace []int64 // of each node, bytes, rounded up
	bodies    []body
	chained   []chain         // parameters and states of a training graph
	gradients map[string]bool // the names of the gradients of a training graph

	solved *schedule.Result // of the order pass, by the indices of the file
	step   []graph.NodeID   // of each node of the file, where it stands now
	loads  schedule.Evaluation

	buffers  []buffer
	arena    int64
	resident int64 // bytes of the region's own constants
	host     int64 // bytes of what has left for the host
	optimal  bool  // the arena is proven smallest
}

// regionKind says what a region's inputs and constants count for.
type regionKind int8

const (
	mainGraph    regionKind = iota
	controlBody             // captures lie outside
	functionBody            // captures and inputs lie outside
)

// noStorage marks a tensor that has none: it is dynamic.
const noStorage = -1

// storage is what one tensor, or several views of each other, take.
type storage struct {
	bytes    int64            // rounded up to the alignment
	maker    graph.NodeID     // the node that makes the first of the tensors; None
	tensors  []graph.TensorID // in the order in which they come to be
	resident bool             // a constant
	outside  bool             // of the graph around this one: counts nowhere here
	host     bool             // what SwapOut made: it lies on the host
	input    bool             // a graph input
	output   bool             // holds a graph output
	bounded  bool             // its true size may be smaller
}

// body is a graph within a node of a region.
type body struct {
	node  graph.NodeID // of the region around it
	attr  string
	index int
	r     *region
}

// buffer is one or more storages at one place.
type buffer struct {
	storages    []int32      // in the order in which they come to be; none for a workspace
	node        graph.NodeID // of a workspace, else None
	bytes       int64
	first, last int
	resident    bool
	host        bool
	kind        string // of a parameter or state, else "": it follows from the rest
	offset      int64
}

// newRegion makes a region of a graph whose tensors have been inferred.
func (s *State) newRegion(g *graph.Graph, kind regionKind) *region {
	r := &region{g: g, kind: kind, inFunction: kind == functionBody, of: make([]int32, len(g.Tensors)), workspace: make([]int64, len(g.Nodes))}
	for t := range r.of {
		r.of[t] = noStorage
	}
	return r
}

// round rounds a size up to the alignment. Sizes are far below 2^63: inference
// refuses models whose sum is not.
func (s *State) round(n int64) int64 { return (n + s.opt.Align - 1) &^ (s.opt.Align - 1) }

// live reports whether storage i counts in loads and needs a place in the arena.
func (r *region) live(i int32) bool {
	st := &r.storages[i]
	return !st.resident && !st.outside && !st.host
}

// readers gives the nodes that read any tensor of a storage, ascending.
func (r *region) readers(i int32) []graph.NodeID {
	st := &r.storages[i]
	if len(st.tensors) == 1 {
		return r.g.Tensors[st.tensors[0]].Readers
	}
	var all []graph.NodeID
	for _, t := range st.tensors {
		all = append(all, r.g.Tensors[t].Readers...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lifetime gives the first and last step at which storage i holds its bytes,
// once the nodes stand in the planned order.
func (r *region) lifetime(i int32) (first, last int) {
	st := &r.storages[i]
	end := max(len(r.g.Nodes)-1, 0)
	if st.resident {
		return 0, end
	}
	if st.host {
		return r.hosted(i)
	}
	if st.maker >= 0 {
		first = int(st.maker)
	}
	last = first
	if readers := r.readers(i); len(readers) > 0 {
		last = max(last, int(readers[len(readers)-1]))
	}
	// A view that nobody reads must be made while the storage is there.
	for _, t := range st.tensors {
		last = max(last, int(r.g.Tensors[t].Maker))
	}
	if st.output {
		last = end
	}
	return first, last
}

// bufferKind says what a buffer is for, in the plan's words.
func (r *region) bufferKind(b *buffer) string {
	if b.node >= 0 {
		return plan.KindWorkspace
	}
	if b.kind != "" {
		return b.kind
	}
	for _, i := range b.storages {
		switch st := &r.storages[i]; {
		case st.resident:
			return plan.KindConstant
		case r.isGradient(st):
			return plan.KindGradient
		case st.output:
			return plan.KindOutput
		}
	}
	if r.storages[b.storages[0]].input {
		return plan.KindInput
	}
	return plan.KindActivation
}

// isGradient reports whether a storage of a training graph holds a gradient of a
// parameter.
func (r *region) isGradient(st *storage) bool {
	return slices.ContainsFunc(st.tensors, func(t graph.TensorID) bool { return r.gradients[r.g.Tensors[t].Name] })
}
