// Package plan is the sidecar: what onnxmem decided about a model, as one JSON
// file beside it. It reads and writes plans, checks that one agrees with itself,
// tells two apart, and holds one against limits. Package plan/verify checks a plan
// against its model.
//
// Sizes and offsets are bytes; steps are positions in the order of the main graph's
// nodes; lifetimes [First, Last] include both ends.
package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// Format and Version name the JSON format that this package reads and writes.
const (
	Format  = "onnxmem/plan"
	Version = 1
)

// Plan is a sidecar plan, field by field as it stands in the JSON.
type Plan struct {
	Format    string         `json:"format"`
	Version   int            `json:"version"`
	Tool      string         `json:"tool"`
	Model     File           `json:"model"`
	Source    File           `json:"source"`
	Mode      string         `json:"mode"` // "inference" or "training"
	Dims      map[string]Dim `json:"dims"`
	Alignment int64          `json:"alignment"`
	Sharing   Sharing        `json:"sharing"`
	// KeepsRandomOrder: nodes that draw random numbers, have an effect or are of
	// an unknown operator run in the order that the source file has them in. The
	// bound holds for all orders, not only for those.
	KeepsRandomOrder bool `json:"keeps_random_order,omitempty"`

	Summary      Summary       `json:"summary"`
	Pools        []Pool        `json:"pools"`
	Buffers      []Buffer      `json:"buffers"`
	Steps        []Step        `json:"steps"`
	ProgramOrder ProgramOrder  `json:"program_order"`
	Certificates []Certificate `json:"certificates"`
	Subgraphs    []Subgraph    `json:"subgraphs"`
	Dynamic      []Dynamic     `json:"dynamic"`

	// Frontier is what other limits cost, the largest first; none: not asked for.
	Frontier []FrontierPoint `json:"frontier,omitempty"`
}

// File names an ONNX file and what it holds.
type File struct {
	File        string `json:"file"` // base name
	Bytes       int64  `json:"bytes"`
	GraphSHA256 string `json:"graph_sha256"`
}

// Dim is a symbolic dimension and the length it was planned for.
type Dim struct {
	Value   int64 `json:"value"`
	Assumed bool  `json:"assumed"` // nobody said so: taken as 1
}

// Sharing says what the order and the bound were allowed to use.
type Sharing struct {
	Views   bool `json:"views"`
	Inplace bool `json:"inplace"`
}

// Summary is the plan in figures. Package plan/verify recomputes them, or lists them
// as claimed.
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
	*Limited               // nil: no limit was asked for
}

// Limited is what a plan below a limit costs. Extra cost is the time of what runs
// again and of waiting for transfers, in per cent of a step in which nothing does
// either, by the costs of the steps. Of PlainPeakBytes, ExtraCostBound and HostLink
// package plan/verify refuses what is impossible, and lists the rest as claimed.
type Limited struct {
	LimitBytes       int64    `json:"limit_bytes"`
	LimitArena       bool     `json:"limit_arena,omitempty"` // the arena is within the limit, not only the peak
	PlainPeakBytes   int64    `json:"plain_peak_bytes"`      // of the best order, nothing run again
	ExtraCostPercent float64  `json:"extra_cost_percent"`
	ExtraCostBound   *float64 `json:"extra_cost_lower_bound_percent"` // of any plan below the limit, in any order; nil: not known
	RecomputedNodes  int      `json:"recomputed_nodes"`
	SwappedBuffers   int      `json:"swapped_buffers"`
	SwappedBytes     int64    `json:"swapped_bytes,omitempty"`
	HostLink         int64    `json:"host_link_bytes_per_second,omitempty"` // each way; 0: none
	WaitingPercent   float64  `json:"waiting_percent,omitempty"`            // for transfers over it: a part of extra cost
}

// FrontierPoint is what a limit costs.
type FrontierPoint struct {
	LimitBytes       int64    `json:"limit_bytes"`
	ExtraCostPercent *float64 `json:"extra_cost_percent"`             // nil: no plan was found
	ExtraCostBound   *float64 `json:"extra_cost_lower_bound_percent"` // nil: not known, or no plan is possible
	Impossible       bool     `json:"impossible,omitempty"`           // proven
}

// The pools' names.
const (
	Arena     = "arena"
	Resident  = "resident"
	Host      = "host"
	Workspace = "workspace" // of a subgraph's nodes, in their annotations
)

// Pool is one block of memory.
type Pool struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
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
	KindConstant   = "constant"
)

// Buffer is the storage of one tensor, or of several that share it.
type Buffer struct {
	Pool    string   `json:"pool"`
	Offset  int64    `json:"offset"`
	Bytes   int64    `json:"bytes"` // rounded up to the alignment
	First   int      `json:"first"`
	Last    int      `json:"last"`
	Bounded bool     `json:"bounded"` // the true size is known only at run time, and not larger
	Kind    string   `json:"kind"`
	Tensors []string `json:"tensors"`        // none for a workspace
	Node    *int     `json:"node,omitempty"` // of a workspace: the step of its node
}

// Step is one node in the planned order.
type Step struct {
	Name      string `json:"name"`
	Op        string `json:"op"`
	LoadBytes int64  `json:"load_bytes"`
	Again     *int   `json:"again,omitempty"`   // the step of the same node's first run, where this is another
	CostNS    int64  `json:"cost_ns,omitempty"` // nanoseconds, modelled or measured; in plans below a limit
}

// ProgramOrder is the order of the input file, as indices into Plan.Steps: of first
// runs alone.
type ProgramOrder struct {
	Steps     []int   `json:"steps"`
	LoadBytes []int64 `json:"load_bytes"`
}

// The kinds of certificates.
const (
	CertificateCut    = "cut"          // the least load of one node
	CertificateFirst  = "first-of-set" // of a set of nodes one runs first: the least load of that
	CertificateLast   = "last-of-set"
	CertificateSearch = "search" // an exhausted search
)

// Certificate proves a lower bound: no order, whatever it writes in place, has a
// smaller peak. Package plan/verify re-proves it from the kind and the nodes alone, but for
// a search, which it believes and says so. A search has neither nodes nor steps.
type Certificate struct {
	Kind       string   `json:"kind"`
	Nodes      []string `json:"nodes"`           // names, for readers
	Steps      []int    `json:"steps,omitempty"` // the same nodes as steps of the planned order
	ValueBytes int64    `json:"value_bytes"`
}

// Subgraph is the plan of a body: of one graph attribute of a control-flow node
// of the main graph or of another body. Buffers of pool workspace have offsets
// within the node's workspace; the body's constants lie in resident.
type Subgraph struct {
	Parent    *int      `json:"parent,omitempty"` // index in subgraphs of the body around it; none: the main graph
	Node      string    `json:"node"`             // name of the node that the body belongs to
	Step      int       `json:"step"`             // its step in the graph around it
	Attribute string    `json:"attribute"`
	Index     int       `json:"index,omitempty"` // in an attribute that holds several graphs
	Bytes     int64     `json:"bytes"`           // the workspace that the body takes
	Buffers   []Buffer  `json:"buffers"`
	Steps     []Step    `json:"steps"`
	Dynamic   []Dynamic `json:"dynamic,omitempty"`
}

// Dynamic is a tensor that is left to the runtime.
type Dynamic struct {
	Tensor string `json:"tensor"`
	Node   string `json:"node"` // what makes it, "" for a graph input
	Reason string `json:"reason"`
}

// Marshal gives the plan as indented JSON. Equal plans give equal bytes.
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

// maxJSON bounds the JSON of a plan that is read: 4 GiB hold some ten million
// buffers.
const maxJSON = 4 << 30

// Read reads a plan. No key may stand twice in an object, or in another case than
// docs/formats.md has it; every field that is not optional must be there; other
// fields are skipped. Errors say at which byte, what was expected and what was found;
// the caller names the file.
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
		// A file of another format, or of a version to come, is told by its head.
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
	case head.Version != Version:
		return nil, fmt.Errorf("plan version is %d, expected %d", head.Version, Version)
	case err != nil:
		return nil, notAPlan(err)
	}
	return p, nil
}

// notAPlan is the error about a text that cannot be read as a plan; one of the
// reader stands as it is.
func notAPlan(err error) error {
	if e := (*strictjson.Error)(nil); errors.As(err, &e) {
		return fmt.Errorf("not a plan: %w", err)
	}
	return err
}
