package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/caches"
	"github.com/onnxmem/onnxmem/plan/verify/internal/folding"
	"github.com/onnxmem/onnxmem/plan/verify/internal/regions"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
	"github.com/onnxmem/onnxmem/plan/verify/internal/training"
	"github.com/onnxmem/onnxmem/plan/verify/internal/unchanged"
)

// Report is the result of [Plan]. As JSON it is one flat object: the verdict, the
// violations, and the recomputed summary.
type Report struct {
	Valid      bool        `json:"valid"`
	Violations []Violation `json:"violations"`     // the first 100, as found
	More       int         `json:"more,omitempty"` // violations that are not listed

	// Summary is computed from the model and from the plan's order and offsets
	// alone. PlacementOptimal is true if the arena equals the peak, or if the
	// plan claims it: Placement distinguishes these.
	plan.Summary

	Schedule  string `json:"schedule"`  // "proven", "claimed by search", "claimed by " and a solver, "gap N bytes"
	Placement string `json:"placement"` // "proven", "claimed", "claimed by " and a solver, "gap N bytes"

	// Ranges says, of a plan for ranges of dimensions, how many points were proven.
	Ranges string `json:"ranges,omitempty"`

	// Training says, of a training step whose source is available, what was compared with it.
	Training string `json:"training,omitempty"`
	// Precision says, of a model in 16 bits whose source is available, what was compared with it.
	Precision string `json:"precision,omitempty"`
	// Attention says the same of a model in which one node computes what the source spells out.
	Attention string `json:"attention,omitempty"`

	// Replay is the result of repeating the searches of certificates of kind
	// search, if it was asked for.
	Replay string `json:"replay,omitempty"`

	// Proofs are the proofs that were written, and why one was not, if they were asked for.
	Proofs []Proof `json:"proofs,omitempty"`

	// Claimed lists the fields of the plan that were not checked: fields of the
	// summary by their names, others by their paths. Every other field was
	// recomputed, and is a violation if it is wrong.
	Claimed []string `json:"claimed"`

	// ClaimedOperators lists operators of slices of which only the planner knows which rows
	// they read: their copies were not compared, and Claimed has "slices".
	ClaimedOperators []string `json:"claimed_operators,omitempty"`
}

// Violation is one way in which a plan does not fit its model.
type Violation struct {
	Code    string `json:"code"`    // one of the codes below
	Message string `json:"message"` // where, what was expected, what was found
}

// Proof is a proof that was written, or why it was not. Files have paths below the folder.
type Proof struct {
	Claim        string  `json:"claim"`
	Bytes        int64   `json:"bytes,omitempty"`       // proven: no order, or placement, takes less
	Upper        int64   `json:"upper_bytes,omitempty"` // the proof says at most that
	Time         int64   `json:"ns,omitempty"`          // of extra time, in place of the two
	UpperTime    int64   `json:"upper_ns,omitempty"`
	Formula      string  `json:"formula,omitempty"`
	FormulaBytes int64   `json:"formula_bytes,omitempty"`
	Proof        string  `json:"proof,omitempty"`
	ProofBytes   int64   `json:"proof_bytes,omitempty"`
	Milliseconds float64 `json:"ms,omitempty"`
	Refused      string  `json:"refused,omitempty"` // why there is none; all but Claim is then missing
}

// String says where the proof is, or why there is none.
func (p Proof) String() string { return proof.Result(p).String() }

// Codes of violations. They do not change between versions.
const (
	CodeFormat      = "format"           // of the plan itself
	CodeBytes       = "bytes"            // of the file
	CodeSHA256      = "sha256"           // of the file's graph
	CodeSource      = "source"           // the plan was made from another file
	CodeLossless    = unchanged.Code     // the file differs from its source in more than a plan changes
	CodeTraining    = training.Code      // a training step that is not made of its source
	CodeMode        = "mode"             // inference or training
	CodeDims        = "dims"             // symbolic dimensions
	CodeValues      = "values"           // values of inputs
	CodeRange       = "range"            // what holds at all points of the ranges of dimensions
	CodeStacking    = "stacking"         // of the buffers, for all points
	CodeTable       = "table"            // figures of points
	CodeAlignment   = "alignment"        // of the plan, of an offset
	CodeOffset      = "offset"           // negative, or its end overflows
	CodeOrder       = "order"            // the order of the file's nodes, or steps that do not match the nodes
	CodeLoad        = "load"             // at a step
	CodeMissing     = "missing-tensor"   // in no buffer
	CodeDuplicate   = "duplicate-tensor" // in two places
	CodeUnknown     = "unknown-tensor"   // a name that matches no tensor with a buffer
	CodeTensorOrder = "tensor-order"     // within a buffer
	CodeDynamic     = "dynamic"          // a dynamic tensor in a buffer, or another that is listed as dynamic
	CodeSize        = "size"             // of a buffer
	CodeLifetime    = "lifetime"         // of a buffer
	CodeKind        = "kind"             // of a buffer
	CodeBounded     = "bounded"          // flag of a buffer
	CodePool        = "pool"             // of a buffer; the list of pools
	CodeView        = "view"             // tensors that are views of each other but do not share, or the reverse
	CodeInplace     = "inplace"          // a result that may not overwrite that buffer
	CodeAlias       = "alias"            // a tensor in several buffers that are not one behind the other
	CodeUpdate      = "update"           // a parameter or state and its updated value
	CodeWorkspace   = "workspace"        // of a node
	CodeOverlap     = "overlap"          // of two buffers
	CodeSubgraph    = "subgraph"         // the list of bodies
	CodeProgram     = "program-order"    // of the input file
	CodeRepetition  = "repetition"       // a step that is marked as a repetition but is none
	CodeAttention   = "attention"        // attention that no one node computes, though the plan says so
	CodePrecision   = "precision"        // a graph in 16 bits that is not what the plan says
	CodeFolded      = folding.Code       // initializers in the place of nodes of the source
	CodeKV          = caches.Code        // caches of a fixed capacity
	CodeSlices      = regions.Code       // regions that run in slices
	CodeSwap        = "swap"             // a transfer that other runtimes could not run
	CodeLimit       = "limit"            // not kept, or not the cost of the steps
	CodeFrontier    = "frontier"         // impossible costs of other limits
	CodeCertificate = "certificate"      // it does not prove its value
	CodeTraffic     = "traffic"          // of the pools, and the prices that bound it
	CodeSummary     = "summary"          // a figure of the summary
	CodeAnnotation  = "annotation"       // in the file's metadata
)

// Codes lists all codes of violations.
var Codes = []string{
	CodeFormat, CodeBytes, CodeSHA256, CodeSource, CodeLossless, CodeTraining, CodeMode, CodeDims, CodeValues,
	CodeRange, CodeStacking, CodeTable, CodeAlignment, CodeOffset, CodeOrder, CodeLoad, CodeMissing,
	CodeDuplicate, CodeUnknown, CodeTensorOrder, CodeDynamic, CodeSize, CodeLifetime, CodeKind,
	CodeBounded, CodePool, CodeView, CodeInplace, CodeAlias, CodeUpdate, CodeWorkspace, CodeOverlap,
	CodeSubgraph, CodeProgram, CodeRepetition, CodeAttention, CodePrecision, CodeFolded, CodeKV, CodeSlices, CodeSwap, CodeLimit,
	CodeFrontier, CodeCertificate, CodeTraffic, CodeSummary, CodeAnnotation,
}

// String returns the report in a few lines: the verdict, what it rests on, and
// the violations.
func (r *Report) String() string {
	var b strings.Builder
	if r.Valid {
		s := &r.Summary
		fmt.Fprintf(&b, "valid: %d nodes, %d tensors", s.Nodes, s.Tensors)
		if s.Dynamic > 0 {
			fmt.Fprintf(&b, ", %d of them dynamic", s.Dynamic)
		}
		fmt.Fprintf(&b, "\narena     %s\nresident  %s\npeak      %s\n", units.Bytes(s.ArenaBytes), units.Bytes(s.ResidentBytes), units.Bytes(s.PeakBytes))
		fmt.Fprintf(&b, "schedule: %s\nplacement: %s\n", r.Schedule, r.Placement)
		if r.Ranges != "" {
			fmt.Fprintf(&b, "ranges: %s\n", r.Ranges)
		}
		if r.Precision != "" {
			fmt.Fprintf(&b, "precision: %s\n", r.Precision)
		}
		if r.Attention != "" {
			fmt.Fprintf(&b, "attention: %s\n", r.Attention)
		}
		if r.Training != "" {
			fmt.Fprintf(&b, "training: %s\n", r.Training)
		}
		if r.Replay != "" {
			fmt.Fprintf(&b, "replay: %s\n", r.Replay)
		}
		for _, x := range r.Proofs {
			fmt.Fprintf(&b, "proof of %s: %s\n", x.Claim, x)
		}
		if len(r.Claimed) > 0 {
			fmt.Fprintf(&b, "claimed, not checked: %s\n", strings.Join(r.Claimed, ", "))
		}
		if len(r.ClaimedOperators) > 0 {
			fmt.Fprintf(&b, "claimed, rows of operators: %s\n", strings.Join(r.ClaimedOperators, ", "))
		}
		return b.String()
	}
	fmt.Fprintf(&b, "not valid: %s\n", subject.Count(len(r.Violations)+r.More, "violation"))
	for _, x := range r.Violations {
		fmt.Fprintf(&b, "%s: %s\n", x.Code, printable.Line(x.Message))
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", r.More)
	}
	return b.String()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
