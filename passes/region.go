package passes

import (
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// region is a graph that is planned as a whole: the main graph, a body, or one
// instance of a local function.
type region struct {
	*rules
	g    *graph.Graph
	kind regionKind
	// inFunction is true for a local function and for bodies inside one. One
	// function body serves calls with many shapes, so it keeps the order of the
	// file, and the plan cannot list its buffers: its constants are ordinary
	// tensors of the workspace.
	inFunction bool

	// calls are the regions of local functions, by instance, which all regions of a model have
	// in common.
	calls map[*graph.Call]*region

	// boxes are the graphs of a model at the points of a box, with the orders and stackings that
	// were chosen for all of them; nil: there is but this point.
	boxes map[*graph.Graph]*box.Graph

	storages     []storage
	storageOf    []int32 // storage of each tensor; noStorage if it is dynamic
	workspace    []int64 // of each node: bytes, rounded up
	scratch      []int64 // the part of it that was recorded on a device, not rounded; nil: none was
	bodies       []body
	updateChains []chain         // parameters, states and caches
	states       []string        // INPUT=OUTPUT of the caches
	gradients    map[string]bool // names of the gradients of a training graph

	inAliases

	solved *schedule.Result // result of the order pass, by indices in the file
	stepOf []graph.NodeID   // of each node by its index in the file: its present step
	loads  schedule.Evaluation
	// With Options.RuntimeOrder: the nodes by their steps, as the file lists them.
	listing   []graph.NodeID
	traversal *plan.Traversal

	placed
	betweenBytes func(graph.TensorID) bool // whether a copy of a tensor would change bits; nil: not asked for yet
	quick        *quickPlacement           // of the nodes in their present order; nil: not known
	host         int64                     // bytes of tensors that were swapped out

	inPools
}

// inAliases is what a region has whose nodes share bytes (see the pass alias); else it is zero.
type inAliases struct {
	reuse   [][]int32        // by storage: the storages that it may overwrite
	parents [][]int32        // storages that lie one behind the other
	apart   *schedule.Result // of the same graph without aliases
}

// inPools is what the main graph has in several pools; its arena is then the sum of poolBytes.
type inPools struct {
	tierNames     []string // the fastest first; nil: there is one arena
	room          []int64  // by pool: the bytes that its buffers may take; nil: its capacity
	poolBytes     []int64
	tiers         []plan.Tier
	prices        []plan.TrafficPrice
	trafficBound  int64
	copies        []graph.NodeID // that move buffers between pools
	residentReads int64          // bytes of constants, parameters and states that nodes read
}

// placed is the buffers of a region with their offsets.
type placed struct {
	buffers  []buffer
	arena    int64
	resident int64 // bytes of the region's own constants
	optimal  bool  // the arena is proven smallest

	claimedBy string              // the solver that optimal rests on
	packed    *alloc.SolverReport // what it did; nil: nothing
}

// quickPlacement is a placement with the least effort.
type quickPlacement struct {
	placed
	loads schedule.Evaluation
	taken []schedule.Pair // its in-place pairs
}

// noStorage marks a dynamic tensor: it has no storage.
const noStorage = -1

// storage is the memory of one tensor, or of several that are views of each
// other.
type storage struct {
	bytes    int64            // rounded up to the alignment
	maker    graph.NodeID     // the node that makes the first of the tensors; None if no node does
	tensors  []graph.TensorID // in the order in which they are made
	resident bool             // a constant
	outside  bool             // belongs to the outer graph: not counted here
	host     bool             // made by SwapOut: it lies in host memory
	input    bool             // a graph input
	output   bool             // holds a graph output
	bounded  bool             // the true size may be smaller

	covers []graph.TensorID // tensors of other storages that lie over this one and more
	pieces []int32          // the storages in which its tensors lie, one behind the other; nil: they lie here
}

// body is a graph inside a node of a region.
type body struct {
	node  graph.NodeID // of the outer region
	attr  string
	index int
	r     *region
}

// buffer is a range of memory for one or more storages.
type buffer struct {
	storages    []int32      // in the order in which they are made; none for a workspace
	node        graph.NodeID // the node of a workspace, else None
	bytes       int64
	first, last int
	resident    bool
	host        bool
	pool        int    // with region.pools: the index of its pool
	kind        string // of a parameter or state; else "", and bufferKind derives it
	offset      int64
}

// newRegion makes a region of a graph whose types have been inferred.
func newRegion(x *rules, g *graph.Graph, kind regionKind, calls map[*graph.Call]*region) *region {
	r := &region{rules: x, g: g, kind: kind, calls: calls, inFunction: kind == functionBody, storageOf: make([]int32, len(g.Tensors)), workspace: make([]int64, len(g.Nodes))}
	for t := range r.storageOf {
		r.storageOf[t] = noStorage
	}
	return r
}

// live reports whether storage i counts in loads and needs an offset in the
// arena.
func (r *region) live(i int32) bool {
	st := &r.storages[i]
	return !st.resident && !st.outside && !st.host
}

// bufferKind returns the kind of a buffer, as a word of the plan format.
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

// isGradient reports whether a storage of a training graph holds the gradient of
// a parameter, or a part of one.
func (r *region) isGradient(st *storage) bool {
	is := func(t graph.TensorID) bool { return r.gradients[r.g.Tensors[t].Name] }
	return slices.ContainsFunc(st.tensors, is) || slices.ContainsFunc(st.covers, is)
}

// steps maps nodes, by their index in the file, to their steps in the planned
// order.
func (r *region) steps(nodes []int32) []int {
	out := make([]int, len(nodes))
	for i, n := range nodes {
		out[i] = int(r.stepOf[n])
	}
	return out
}

// chain is one resident buffer for a parameter, state or cache, its updated value, and
// the values in between. The maker of storages[k+1] overwrites storages[k].
type chain struct {
	storages []int32
	kind     string // of the buffer
}
