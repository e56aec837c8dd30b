package planner

import (
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Region is a graph that is planned as a whole: the main graph, a body, or one
// instance of a local function.
type Region struct {
	*Rules
	G    *graph.Graph
	kind regionKind
	// inFunction is true for a local function and for bodies inside one. One
	// function body serves calls with many shapes, so it keeps the order of the
	// file, and the plan cannot list its buffers: its constants are ordinary
	// tensors of the workspace.
	inFunction bool

	// Calls are the regions of local functions, by instance, which all regions of a model have
	// in common.
	Calls map[*graph.Call]*Region

	// Boxes are the graphs of a model at the points of a box, with the orders and stackings that
	// were chosen for all of them; nil: there is but this point.
	Boxes map[*graph.Graph]*box.Graph

	Storages     []Storage
	StorageOf    []int32 // storage of each tensor; NoStorage if it is dynamic
	Workspace    []int64 // of each node: bytes, rounded up
	Scratch      []int64 // the part of it that was recorded on a device, not rounded; nil: none was
	Bodies       []Body
	UpdateChains []Chain         // parameters, states and caches
	States       []string        // INPUT=OUTPUT of the caches
	Gradients    map[string]bool // names of the gradients of a training graph

	inAliases

	Recast bool             // casts run again: the bound holds whichever of them do
	Solved *schedule.Result // result of the order pass, by indices in the file
	StepOf []graph.NodeID   // of each node by its index in the file: its present step
	Loads  schedule.Evaluation
	// With Options.RuntimeOrder: the nodes by their steps, as the file lists them.
	listing   []graph.NodeID
	Traversal *plan.Traversal

	placed
	BetweenBytes func(graph.TensorID) bool // whether a copy of a tensor would change bits; nil: not asked for yet
	quick        *quickPlacement           // of the nodes in their present order; nil: not known
	Host         int64                     // bytes of tensors that were swapped out

	inPools
}

// inAliases is what a region has whose nodes share bytes (see the pass alias); else it is zero.
type inAliases struct {
	reuse   [][]int32        // by storage: the storages that it may overwrite
	parents [][]int32        // storages that lie one behind the other
	Apart   *schedule.Result // of the same graph without aliases
}

// inPools is what the main graph has in several pools; its arena is then the sum of PoolBytes.
type inPools struct {
	TierNames     []string // the fastest first; nil: there is one arena
	room          []int64  // by pool: the bytes that its buffers may take; nil: its capacity
	PoolBytes     []int64
	Tiers         []plan.Tier
	Prices        []plan.TrafficPrice
	TrafficBound  int64
	Copies        []graph.NodeID // that move buffers between pools
	residentReads int64          // bytes of constants, parameters and states that nodes read
}

// placed is the buffers of a region with their offsets.
type placed struct {
	Buffers  []Buffer
	Arena    int64
	resident int64 // bytes of the region's own constants
	Optimal  bool  // the arena is proven smallest

	ClaimedBy string              // the solver that optimal rests on
	Packed    *alloc.SolverReport // what it did; nil: nothing
}

// quickPlacement is a placement with the least effort.
type quickPlacement struct {
	placed
	loads schedule.Evaluation
	taken []schedule.Pair // its in-place pairs
}

// NoStorage marks a dynamic tensor: it has no storage.
const NoStorage = -1

// Storage is the memory of one tensor, or of several that are views of each
// other.
type Storage struct {
	Bytes    int64            // rounded up to the alignment
	Maker    graph.NodeID     // the node that makes the first of the tensors; None if no node does
	Tensors  []graph.TensorID // in the order in which they are made
	Resident bool             // a constant
	outside  bool             // belongs to the outer graph: not counted here
	Host     bool             // made by SwapOut: it lies in host memory
	Input    bool             // a graph input
	Output   bool             // holds a graph output
	Bounded  bool             // the true size may be smaller

	covers []graph.TensorID // tensors of other storages that lie over this one and more
	pieces []int32          // the storages in which its tensors lie, one behind the other; nil: they lie here
}

// Body is a graph inside a node of a region.
type Body struct {
	Node  graph.NodeID // of the outer region
	Attr  string
	Index int
	R     *Region
}

// Buffer is a range of memory for one or more storages.
type Buffer struct {
	Storages    []int32      // in the order in which they are made; none for a workspace
	Node        graph.NodeID // the node of a workspace, else None
	Bytes       int64
	First, Last int
	Resident    bool
	Host        bool
	Pool        int    // with region.pools: the index of its pool
	kind        string // of a parameter or state; else "", and BufferKind derives it
	Offset      int64
}

// newRegion makes a region of a graph whose types have been inferred.
func newRegion(x *Rules, g *graph.Graph, kind regionKind, calls map[*graph.Call]*Region) *Region {
	r := &Region{Rules: x, G: g, kind: kind, Calls: calls, inFunction: kind == functionBody, StorageOf: make([]int32, len(g.Tensors)), Workspace: make([]int64, len(g.Nodes))}
	for t := range r.StorageOf {
		r.StorageOf[t] = NoStorage
	}
	return r
}

// Live reports whether storage i counts in loads and needs an offset in the
// arena.
func (r *Region) Live(i int32) bool {
	st := &r.Storages[i]
	return !st.Resident && !st.outside && !st.Host
}

// BufferKind returns the kind of a buffer, as a word of the plan format.
func (r *Region) BufferKind(b *Buffer) string {
	if b.Node >= 0 {
		return plan.KindWorkspace
	}
	if b.kind != "" {
		return b.kind
	}
	for _, i := range b.Storages {
		switch st := &r.Storages[i]; {
		case st.Resident:
			return plan.KindConstant
		case r.isGradient(st):
			return plan.KindGradient
		case st.Output:
			return plan.KindOutput
		}
	}
	if r.Storages[b.Storages[0]].Input {
		return plan.KindInput
	}
	return plan.KindActivation
}

// isGradient reports whether a storage of a training graph holds the gradient of
// a parameter, or a part of one.
func (r *Region) isGradient(st *Storage) bool {
	is := func(t graph.TensorID) bool { return r.Gradients[r.G.Tensors[t].Name] }
	return slices.ContainsFunc(st.Tensors, is) || slices.ContainsFunc(st.covers, is)
}

// Steps maps nodes, by their index in the file, to their steps in the planned
// order.
func (r *Region) Steps(nodes []int32) []int {
	out := make([]int, len(nodes))
	for i, n := range nodes {
		out[i] = int(r.StepOf[n])
	}
	return out
}

// Chain is one resident buffer for a parameter, state or cache, its updated value, and
// the values in between. The maker of storages[k+1] overwrites storages[k].
type Chain struct {
	Storages []int32
	kind     string // of the buffer
}

// AddScratch adds the scratch of each node of a region to its workspace: it lies behind
// what bodies and functions take.
func (r *Region) AddScratch(scratch []int64) {
	r.Scratch = scratch
	for n, bytes := range scratch {
		r.Workspace[n] += r.Round(bytes)
	}
}
