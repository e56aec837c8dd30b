// Package plan holds the sidecar: the plan of a model as one JSON file beside the
// model.
//
// [Read] and [Plan.Write] read and write a [Plan]; [Plan.Check] checks that it is
// consistent, [Plan.Diff] compares two plans and [Plan.Gates] compares one with
// limits. Package plan/verify checks a plan against its model.
//
// Sizes and offsets are in bytes; steps are positions in the order of the main
// graph's nodes; lifetimes [First, Last] include both ends.
package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// Format and Version identify the JSON format that this package reads and writes; a plan
// for ranges of dimensions has [RangesVersion].
const (
	Format  = "onnxmem/plan"
	Version = 1
)

// Plan is a sidecar plan; its fields are those of the JSON.
type Plan struct {
	Format  string         `json:"format"`
	Version int            `json:"version"`
	Tool    string         `json:"tool"`
	Model   File           `json:"model"`
	Source  File           `json:"source"`
	Mode    string         `json:"mode"` // "inference" or "training"
	Dims    map[string]Dim `json:"dims"`
	// Values are those of inputs for which the plan holds: no others may be given.
	Values    map[string]graph.Literal `json:"values,omitempty"`
	Alignment int64                    `json:"alignment"`
	Sharing   Sharing                  `json:"sharing"`
	// KeepsRandomOrder: nodes that draw random numbers, have an effect or have an
	// unknown operator run in the order of the source file. The bound holds for
	// all orders, not only for such ones.
	KeepsRandomOrder bool `json:"keeps_random_order,omitempty"`

	Summary      Summary       `json:"summary"`
	Pools        []Pool        `json:"pools"`
	Buffers      []Buffer      `json:"buffers"`
	Spans        []Span        `json:"spans,omitempty"` // none without Sharing.Aliases
	Steps        []Step        `json:"steps"`
	ProgramOrder ProgramOrder  `json:"program_order"`
	Certificates []Certificate `json:"certificates"`
	Subgraphs    []Subgraph    `json:"subgraphs"`
	Dynamic      []Dynamic     `json:"dynamic"`

	// Ranges says what holds for all lengths of the dimensions; nil: the plan is for one
	// length of each.
	Ranges *Ranges `json:"ranges,omitempty"`
	// Traversal says that the nodes do not run in the order of the file; nil: they do.
	Traversal *Traversal `json:"traversal,omitempty"`
	// KV describes a decoder whose caches were given a fixed capacity; nil: none were.
	KV *KV `json:"kv,omitempty"`

	// Folded describes the nodes of the source that were computed from constants;
	// nil: none were.
	Folded *Folded `json:"folded,omitempty"`
	// Attention lists the results of attention that the source spells out as products and a Softmax
	// and that one node computes here, sorted by name; nil: there is none.
	Attention []string `json:"attention,omitempty"`
	// Precision describes the graph in 16 bits that the plan is of; nil: it was not put into these.
	Precision *Precision `json:"precision,omitempty"`
	// Slices describes the regions that run in slices; nil if there are none.
	Slices *Slices `json:"slices,omitempty"`

	// Workspaces are those that were recorded on a device; nil: none were given.
	Workspaces *Workspaces `json:"workspaces,omitempty"`

	// TrafficPrices prove the bound on the slow traffic, ascending by step; nil without
	// tiers, or if the bound is 0.
	TrafficPrices []TrafficPrice `json:"traffic_prices,omitempty"`

	// Frontier lists the costs of other limits, the largest limit first; nil if
	// it was not asked for.
	Frontier []FrontierPoint `json:"frontier,omitempty"`
}

// File identifies an ONNX file and its content.
type File struct {
	File        string `json:"file"` // base name
	Bytes       int64  `json:"bytes"`
	GraphSHA256 string `json:"graph_sha256"`
}

// Dim is a symbolic dimension and the length for which the model was planned.
type Dim struct {
	Value   int64 `json:"value"`
	Assumed bool  `json:"assumed"` // not given by the user: taken as 1
	Lengths       // of a range, of which Value is the largest; empty: there is only Value
}

// Sharing says which kinds of sharing the order and the bound may use.
type Sharing struct {
	Views   bool `json:"views"`
	Inplace bool `json:"inplace"`
	// Aliases: results of Concat, Split, Slice and Gather may lie in the bytes of their
	// operands, or the operands in those of the result. See Plan.Spans.
	Aliases bool `json:"aliases,omitempty"`
	// Runtime names the runtime whose views and in-place results these are; "": those that
	// package ops knows, all of which onnxmem's own runtime makes.
	Runtime string `json:"runtime,omitempty"`
}

// TraversalONNXRuntime is the traversal of ONNX Runtime's default execution order:
// [graph.Graph.ReverseDepthFirst], of the main graph and of bodies.
const TraversalONNXRuntime = "onnxruntime"

// Traversal is the order in which a runtime runs the nodes if it is not that of the file:
// step i of the plan is the i-th node that the traversal visits, and the same holds in
// bodies.
type Traversal struct {
	Runtime string `json:"runtime"` // TraversalONNXRuntime
	// BestPeakBytes is the peak of the best order that was found without regard to the
	// traversal: what the plan's peak is above it is the price of the default order.
	BestPeakBytes int64 `json:"best_peak_bytes"`
}

// InRunOrder returns a model whose nodes, as those of m, are in the order in which they run:
// m, or a copy of its graph with other lists of nodes.
func (p *Plan) InRunOrder(m *graph.Model) *graph.Model {
	if p.Traversal == nil {
		return m
	}
	c := *m
	c.Graph = m.Graph.Clone()
	c.Graph.ReorderReverseDepthFirst()
	return &c
}

// Summary holds the figures of the plan. Package plan/verify recomputes them, or
// reports them as claimed.
type Summary struct {
	Nodes            int   `json:"nodes"`
	Tensors          int   `json:"tensors"` // graph inputs and node outputs of the main graph
	Dynamic          int   `json:"dynamic"`
	ResidentBytes    int64 `json:"resident_bytes"`
	NaiveBytes       int64 `json:"naive_bytes"`
	ProgramPeakBytes int64 `json:"program_order_peak_bytes"`
	PeakBytes        int64 `json:"peak_bytes"`
	LowerBoundBytes  int64 `json:"lower_bound_bytes"`
	ArenaBytes       int64 `json:"arena_bytes"`
	TotalBytes       int64 `json:"total_bytes"` // arena + resident
	PeakStep         int   `json:"peak_step"`   // the first step of the largest load
	ScheduleOptimal  bool  `json:"schedule_optimal"`
	PlacementOptimal bool  `json:"placement_optimal"`

	PlacementClaimedBy string `json:"placement_claimed_by,omitempty"` // the solver that PlacementOptimal rests on: name and version

	*Limited  // nil: without a limit
	*Unsliced // nil: nothing runs in slices
	*Tiered   // nil: all buffers outside of resident lie in one arena
}

// Unsliced holds the figures of the graph before regions of it were sliced, and what
// bounds the peak of its slices. Costs are in per cent of the modelled time of that graph.
type Unsliced struct {
	UnslicedPeakBytes  int64 `json:"unsliced_peak_bytes"`        // of its best order, or with casts that run again
	UnslicedBoundBytes int64 `json:"unsliced_lower_bound_bytes"` // for any order of it
	// AnyCountBoundBytes is a lower bound for these regions in any number of slices, in
	// any order, if no node runs again and no tensor is swapped.
	AnyCountBoundBytes int64 `json:"any_count_lower_bound_bytes"`
	// AnySlicesBoundBytes is a lower bound for any regions in any number of slices,
	// whatever runs again or is swapped.
	AnySlicesBoundBytes int64   `json:"any_slices_lower_bound_bytes"`
	SliceCostPercent    float64 `json:"slice_cost_percent"` // extra time of the slices
	TotalCostPercent    float64 `json:"total_cost_percent"` // of slices, recomputation and waiting together
}

// Together returns the extra time of slices and, in the graph with slices, of
// recomputation and waiting, in per cent of the time without any of them. Both arguments
// are in per cent.
func Together(slices, extra float64) float64 { return 100 * ((1+slices/100)*(1+extra/100) - 1) }

// Extra returns the extra time of the plan in per cent, of everything.
func (s *Summary) Extra() float64 {
	switch {
	case s.Unsliced != nil:
		return s.TotalCostPercent
	case s.Limited != nil:
		return s.ExtraCostPercent
	}
	return 0
}

// SlicesOfLoss is the mode of slices that were not asked for, of the loss of a training step: the
// plan without a limit has them, too. They are exact.
const SlicesOfLoss = "loss"

// Unlimited returns the peak of the plan without a limit, of which limits in per cent are.
func (p *Plan) Unlimited() int64 {
	s := &p.Summary
	switch {
	case s.Unsliced != nil && (p.Slices == nil || p.Slices.Mode != SlicesOfLoss):
		return s.UnslicedPeakBytes
	case s.Limited != nil:
		return s.Limited.Unlimited()
	}
	return s.PeakBytes
}

// Slices describes the regions of the source that run in slices. The nodes of slices
// say in their metadata (key onnxmem.slice) what they are; see docs/formats/slices.md.
type Slices struct {
	// Mode is "exact", or "any" if a region may sum over the axis that is sliced, or SlicesOfLoss.
	Mode string `json:"mode"`
	// Constants are integer tensors of the source whose elements follow from the
	// bound dimensions: they are initializers now.
	Constants []string `json:"constants,omitempty"`
	// Copies are tensors that are computed once for each reader: chains of nodes of the
	// source whose copies differ in the names alone.
	Copies []SlicedCopy `json:"copies,omitempty"`
	// Parts are tensors that stand for rows of tensors of the source, makers before readers.
	// Nodes make them as the nodes of the source make the whole. Where they are the outputs
	// of a Split, they are read in the place of those.
	Parts []SlicedPart `json:"parts,omitempty"`
	// Weights are initializers with rows of initializers of the source that slices read.
	Weights   []SlicedWeight `json:"weights,omitempty"`
	Regions   []SlicedRegion `json:"regions"` // in the order in which they run; behind them, those inside of slices
	AnyCount  SliceBound     `json:"any_count"`
	AnySlices SliceBound     `json:"any_slices"`
}

// SlicedCopy is a tensor that a copy of a node makes.
type SlicedCopy struct {
	Tensor string `json:"tensor"`
	Of     string `json:"of"` // the tensor of the source that the node makes
}

// SlicedPart is a tensor that stands for rows of a tensor of the source.
type SlicedPart struct {
	Tensor string `json:"tensor"`
	Of     string `json:"of"`   // a tensor of the source: an initializer, or what one node makes
	Axis   int    `json:"axis"` // of the rows
	From   int64  `json:"from"` // the first row
	Rows   int64  `json:"rows"` // how many
}

// SlicedWeight is an initializer of the planned model that holds rows of an initializer
// of the source, or of integers that a node of the source makes of the dims alone.
type SlicedWeight struct {
	Tensor string `json:"tensor"`
	Of     string `json:"of"`   // the tensor of the source
	Axis   int    `json:"axis"` // of the rows
	From   int64  `json:"from"` // the first row
}

// SliceBound says why the peak of a graph whose regions run in slices cannot be smaller.
type SliceBound struct {
	Bytes   int64    `json:"bytes"`
	Why     string   `json:"why"`     // "inputs", "outputs", "node" or "order"
	Nodes   []string `json:"nodes"`   // the node or, for "order", those of a certificate
	Tensors []string `json:"tensors"` // the largest of what must be live, the largest first
}

// The reasons of a SliceBound.
const (
	BoundInputs  = "inputs"  // all graph inputs live at the first step
	BoundOutputs = "outputs" // all graph outputs live at the last step
	BoundNode    = "node"    // a node that no slices divide reads and makes that much
	BoundOrder   = "order"   // a bound for all orders of what lies outside of the slices
)

// SlicedRegion is a set of nodes of the source of which each runs once in each slice,
// for about one Count-th of the rows of an axis.
type SlicedRegion struct {
	Count   int            `json:"count"`
	Exact   bool           `json:"exact"` // no output is a sum over slices
	Nodes   []string       `json:"nodes"` // the first output of each, in the order of the slices
	Inputs  []SlicedInput  `json:"inputs"`
	Outputs []SlicedOutput `json:"outputs"`
	// Running are the outputs of Softmax nodes whose axis slices cut: each slice divides by no
	// sum, and scales what was summed before when the largest score so far rises.
	Running []string `json:"running,omitempty"`
	// Names are tensors of the source to which the nodes of local functions refer by index.
	Names []string `json:"names,omitempty"`
	// Within says in which slice the region runs; nil: in none. Its nodes and tensors are
	// those of that slice, as it would be if it ran whole.
	Within *SlicedWithin `json:"within,omitempty"`
}

// SlicedWithin says of which slice a region runs a part in slices again.
type SlicedWithin struct {
	Region int `json:"region"` // an earlier one
	Slice  int `json:"slice"`
	// Tensors are those that the region's nodes make and read of what the slice makes and
	// takes, in the order in which they do.
	Tensors []SlicedPart `json:"tensors"`
}

// SlicedInput is a tensor that a sliced region reads.
type SlicedInput struct {
	Tensor string `json:"tensor"`
	Axis   *int   `json:"axis"` // of which slices read rows; null: it is read whole
}

// SlicedOutput is a tensor that a sliced region makes for others.
type SlicedOutput struct {
	Tensor string `json:"tensor"`
	Axis   *int   `json:"axis"`           // of which slices make rows; null: it is summed
	Over   string `json:"over,omitempty"` // the input over which the rows are written
}

// Folded describes nodes of the source that read only constants and were replaced by
// initializers with their results. Package plan/verify computes the results again from
// the source. It reports UnfoldedPeakBytes and UnfoldedTotalBytes as claimed: they are
// the figures of the plan that a fast search finds without folding.
type Folded struct {
	Mode    string         `json:"mode"`  // "exact": no bit of any result changes; "any": the last bits of products may
	Nodes   int            `json:"nodes"` // of the source that are gone, in all graphs
	Tensors []FoldedTensor `json:"tensors"`
	// Products lists the products that read a constant as it lies; only with mode any.
	Products           []FoldedProduct `json:"products,omitempty"`
	UnfoldedPeakBytes  int64           `json:"unfolded_peak_bytes"`
	UnfoldedTotalBytes int64           `json:"unfolded_total_bytes"`
}

// Workspaces are the recorded workspaces of nodes of the main graph. A node's buffer of
// kind workspace has that many bytes, rounded up, behind those of its bodies or function.
// The figures rest on a recording: package plan/verify reports them as claimed, and checks
// that the buffers agree with them.
type Workspaces struct {
	Device       string          `json:"device"`                 // on which they were recorded
	Products     string          `json:"products,omitempty"`     // the library that computed products there; "": none
	Convolutions string          `json:"convolutions,omitempty"` // that of convolutions
	Nodes        []StepWorkspace `json:"nodes"`                  // in the order of the steps
}

// StepWorkspace is the recorded workspace of a node.
type StepWorkspace struct {
	Step  int   `json:"step"`
	Bytes int64 `json:"bytes"`
}

// FoldedProduct is a product of the source by a transposed constant, which a Gemm with
// transB, between Reshapes, replaces.
type FoldedProduct struct {
	Tensor     string `json:"tensor"`             // the result
	Transposed string `json:"transposed"`         // the tensor of the source that is gone
	Subgraph   *int   `json:"subgraph,omitempty"` // index in subgraphs of their body; nil: the main graph
}

// FoldedTensor is an initializer that holds a tensor which a node of the source makes.
type FoldedTensor struct {
	Tensor   string `json:"tensor"`
	Of       string `json:"of,omitempty"` // the tensor of the source, if a node makes it from the initializer by Identity; "": it has the initializer's name
	Bytes    int64  `json:"bytes"`
	Subgraph *int   `json:"subgraph,omitempty"` // index in subgraphs of its body; nil: the main graph
}

// Limited holds the cost of a plan below a limit. The extra cost is the time of
// recomputation and of waiting for transfers, in per cent of a step without
// either, by the costs of the steps. For PlainPeakBytes, ExtraCostBound and
// HostLink, package plan/verify refuses impossible values and reports others as
// claimed.
type Limited struct {
	LimitBytes       int64    `json:"limit_bytes"`
	Recast           bool     `json:"recast,omitempty"`            // no limit was asked for: casts run again where that makes the peak smaller
	LimitArena       bool     `json:"limit_arena,omitempty"`       // the limit holds for the arena, too, and not only for the peak
	PlainPeakBytes   int64    `json:"plain_peak_bytes"`            // of the best order without recomputation
	RecastPeakBytes  int64    `json:"recast_peak_bytes,omitempty"` // of the plan without a limit, in which casts run again; 0: it is PlainPeakBytes or, with Recast, LimitBytes
	ExtraCostPercent float64  `json:"extra_cost_percent"`
	ExtraCostBound   *float64 `json:"extra_cost_lower_bound_percent"` // for any plan below the limit, in any order; nil: not known
	RecomputedNodes  int      `json:"recomputed_nodes"`
	SwappedBuffers   int      `json:"swapped_buffers"`
	SwappedBytes     int64    `json:"swapped_bytes,omitempty"`
	HostLink         int64    `json:"host_link_bytes_per_second,omitempty"` // in each direction; 0: no host
	WaitingPercent   float64  `json:"waiting_percent,omitempty"`            // for transfers: a part of the extra cost
}

// Unlimited returns the peak of the plan without a limit.
func (l *Limited) Unlimited() int64 {
	switch {
	case l.Recast:
		return l.LimitBytes
	case l.RecastPeakBytes > 0:
		return l.RecastPeakBytes
	}
	return l.PlainPeakBytes
}

// FrontierPoint is the cost of a limit.
type FrontierPoint struct {
	LimitBytes       int64    `json:"limit_bytes"`
	ExtraCostPercent *float64 `json:"extra_cost_percent"`             // nil: no plan was found
	ExtraCostBound   *float64 `json:"extra_cost_lower_bound_percent"` // nil: not known, or no plan is possible
	Impossible       bool     `json:"impossible,omitempty"`           // proven
	// Alone has the extra cost of each means alone; nil: without slices.
	Alone *FrontierAlone `json:"alone,omitempty"`
}

// FrontierAlone has the extra cost of a limit that one means alone meets, in per cent;
// nil: no plan was found, or the means was not asked for.
type FrontierAlone struct {
	Slices    *float64 `json:"slices_percent"`
	Recompute *float64 `json:"recompute_percent"`
	Swap      *float64 `json:"swap_percent"`
}

// The pools' names.
const (
	Arena     = "arena"
	Resident  = "resident"
	Host      = "host"
	Workspace = "workspace" // of the nodes of a subgraph, in their annotations
)

// Pool is one block of memory.
type Pool struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	*Tier        // nil: not one of several for the same buffers
}

// The kinds of buffers.
const (
	KindInput      = "input"
	KindOutput     = "output"
	KindActivation = "activation"
	KindGradient   = "gradient"
	KindWorkspace  = "workspace"
	KindParameter  = "parameter"
	KindState      = "state"
	KindCache      = "cache" // a state of an inference graph
	KindConstant   = "constant"
)

// Stays reports whether buffers of a kind keep their bytes from one run to the next, and
// a run writes over them.
func Stays(kind string) bool {
	return kind == KindParameter || kind == KindState || kind == KindCache
}

// Buffer is the storage of one tensor, or of several that share it.
type Buffer struct {
	Pool    string   `json:"pool"`
	Offset  int64    `json:"offset"`
	Bytes   int64    `json:"bytes"` // rounded up to the alignment
	First   int      `json:"first"`
	Last    int      `json:"last"`
	Bounded bool     `json:"bounded"` // the true size is known only at run time and is not larger
	Kind    string   `json:"kind"`
	Tensors []string `json:"tensors"`        // none for a workspace
	Node    *int     `json:"node,omitempty"` // step of the node of a workspace
}

// Span is the place of tensors that lie in several buffers of pool arena, each right behind
// the one before it. Such a tensor is the result of a Concat whose operands are made at their
// places in it, or one whose parts, the results of a Split, are freed one by one. These
// tensors stand in no buffer's list.
type Span struct {
	Tensors []string `json:"tensors"` // the second and later are views of the first
	Buffers []int    `json:"buffers"` // indices in Plan.Buffers, by offset; two or more
}

// Step is one node in the planned order.
type Step struct {
	Name      string `json:"name"`
	Op        string `json:"op"`
	LoadBytes int64  `json:"load_bytes"`
	Again     *int   `json:"again,omitempty"`   // for a repetition: the step of the node's first run
	CostNS    int64  `json:"cost_ns,omitempty"` // nanoseconds, estimated or measured; only in plans below a limit
}

// ProgramOrder is the order of the input file, as indices into Plan.Steps,
// without repetitions.
type ProgramOrder struct {
	Steps     []int   `json:"steps"`
	LoadBytes []int64 `json:"load_bytes"`
}

// The kinds of certificates.
const (
	CertificateCut    = "cut"          // the least load of one node
	CertificateFirst  = "first-of-set" // of a set of nodes one runs first: its least load
	CertificateLast   = "last-of-set"
	CertificateSearch = "search" // an exhausted search
)

// Certificate proves a lower bound: no order has a smaller peak, whatever results
// it makes in place. Package plan/verify proves it again from the kind and the
// nodes alone; it reports a certificate of kind search, which has neither nodes
// nor steps, as claimed unless it repeats the search.
type Certificate struct {
	Kind       string   `json:"kind"`
	Nodes      []string `json:"nodes"`           // names, for readers
	Steps      []int    `json:"steps,omitempty"` // the same nodes as steps of the planned order
	ValueBytes int64    `json:"value_bytes"`
	ClaimedBy  string   `json:"claimed_by,omitempty"` // of kind search: name and version of the solver that it rests on
}

// ClaimedBy is the solver that the lower bound rests on, by name and version; empty if a
// certificate without one reaches the bound, too.
func (p *Plan) ClaimedBy() (who string) {
	for i := range p.Certificates {
		if c := &p.Certificates[i]; c.ValueBytes >= p.Summary.LowerBoundBytes {
			if c.ClaimedBy == "" {
				return ""
			}
			who = c.ClaimedBy
		}
	}
	return who
}

// Subgraph is the plan of a body: a graph attribute of a control-flow node in the
// main graph or in another body. Buffers of pool workspace have offsets within
// the node's workspace; constants of the body are in pool resident.
type Subgraph struct {
	Parent    *int      `json:"parent,omitempty"` // index in subgraphs of the outer body; nil: the main graph
	Node      string    `json:"node"`             // name of the node of the body
	Step      int       `json:"step"`             // step of that node in the outer graph
	Attribute string    `json:"attribute"`
	Index     int       `json:"index,omitempty"` // if the attribute holds several graphs
	Bytes     int64     `json:"bytes"`           // the workspace of the body
	Buffers   []Buffer  `json:"buffers"`
	Steps     []Step    `json:"steps"`
	Dynamic   []Dynamic `json:"dynamic,omitempty"`
	// Ranges has the stacking of the body in a plan for ranges of dimensions, else nil.
	Ranges *SubgraphRanges `json:"ranges,omitempty"`
}

// Dynamic is a tensor that is left to the runtime.
type Dynamic struct {
	Tensor string `json:"tensor"`
	Node   string `json:"node"` // the node that makes it; "" for a graph input
	Reason string `json:"reason"`
}

// Marshal returns the plan as indented JSON. Equal plans give equal bytes.
func (p *Plan) Marshal() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", " ")
	return append(b, '\n'), err
}

// Write writes the plan as indented JSON. Equal plans give equal bytes.
func (p *Plan) Write(w io.Writer) error {
	b, err := p.Marshal()
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// maxJSON is the largest JSON text of a plan that is read: 4 GiB hold some ten
// million buffers.
const maxJSON = 4 << 30

// Read reads a plan. An object must not have a key twice, or with other letter
// case than in docs/formats/plan.md; every field that is not optional must be present;
// unknown fields are skipped. Errors give the byte, what was expected and what
// was found; the caller adds the name of the file.
func Read(r io.Reader) (*Plan, error) {
	text, err := strictjson.ReadObject(r, maxJSON)
	if err != nil {
		return nil, notAPlan(err)
	}
	p := &Plan{}
	// Complete keeps the plan's memory in proportion to its text: the shortest buffer
	// is as long in JSON as in memory.
	err = strictjson.Rules{Complete: true}.Unmarshal(text, p)
	head := p
	if err != nil {
		// A file of another format, or of a later version, is recognised by its
		// first fields.
		head = &Plan{}
		var only struct {
			Format  *string `json:"format"`
			Version *int    `json:"version"`
		}
		if json.Unmarshal(text, &only) != nil || only.Format == nil || only.Version == nil {
			return nil, notAPlan(err)
		}
		head.Format, head.Version = *only.Format, *only.Version
	}
	switch {
	case head.Format != Format:
		return nil, fmt.Errorf("format is %q, expected %q", graph.Short(head.Format), Format)
	case head.Version != Version && head.Version != RangesVersion:
		return nil, fmt.Errorf("plan version is %d, expected %d or %d", head.Version, Version, RangesVersion)
	case err != nil:
		return nil, notAPlan(err)
	}
	return p, nil
}

// notAPlan wraps the error of a text that cannot be parsed as a plan; errors of
// the reader are returned unchanged.
func notAPlan(err error) error {
	if e := (*strictjson.Error)(nil); errors.As(err, &e) {
		return fmt.Errorf("not a plan: %w", err)
	}
	return err
}
