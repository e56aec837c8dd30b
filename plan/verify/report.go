package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// Report is what [Plan] found. As JSON it is one flat object: the verdict, the
// violations, and the recomputed summary.
type Report struct {
	Valid      bool        `json:"valid"`
	Violations []Violation `json:"violations"`     // the first 100, as found
	More       int         `json:"more,omitempty"` // violations that are not listed

	// Summary is computed from the model and from the plan's order and offsets
	// alone. PlacementOptimal is true where the arena is the peak, or where the
	// plan claims it: Placement tells which.
	plan.Summary

	Schedule  string `json:"schedule"`  // "proven", "claimed by search", "gap N bytes"
	Placement string `json:"placement"` // "proven", "claimed", "gap N bytes"

	// Replay is what became of the certificates of kind search where they were
	// to be replayed.
	Replay string `json:"replay,omitempty"`

	// Claimed are the fields of the plan that were not checked: fields of the summary
	// by their names, others by their paths. Every field that is not in this list was
	// recomputed, and refuted where it is wrong.
	Claimed []string `json:"claimed"`
}

// maxViolations is how many violations a report lists.
const maxViolations = 100

// Violation is one way in which a plan does not fit its model.
type Violation struct {
	Code    string `json:"code"`    // one of the codes below
	Message string `json:"message"` // where, what was expected, what was found
}

// The codes of violations. They stay as they are from version to version.
const (
	CodeFormat      = "format"           // of the plan itself
	CodeBytes       = "bytes"            // of the file
	CodeSHA256      = "sha256"           // of the file's graph
	CodeSource      = "source"           // the file that was planned is another
	CodeMode        = "mode"             // inference or training
	CodeDims        = "dims"             // symbolic dimensions
	CodeAlignment   = "alignment"        // of the plan, of an offset
	CodeOffset      = "offset"           // negative, or its end overflows
	CodeOrder       = "order"            // the file's nodes, or steps that are not these nodes
	CodeLoad        = "load"             // at a step
	CodeMissing     = "missing-tensor"   // stands nowhere
	CodeDuplicate   = "duplicate-tensor" // stands twice
	CodeUnknown     = "unknown-tensor"   // a name without a tensor to be placed
	CodeTensorOrder = "tensor-order"     // within a buffer
	CodeDynamic     = "dynamic"          // a dynamic tensor that is placed, or one that is not and should
	CodeSize        = "size"             // of a buffer
	CodeLifetime    = "lifetime"         // of a buffer
	CodeKind        = "kind"             // of a buffer
	CodeBounded     = "bounded"          // flag of a buffer
	CodePool        = "pool"             // of a buffer; the list of pools
	CodeView        = "view"             // tensors that are, or are not, views of each other
	CodeInplace     = "inplace"          // a result that may not be written there
	CodeUpdate      = "update"           // a parameter or state and what takes its place
	CodeWorkspace   = "workspace"        // of a node
	CodeOverlap     = "overlap"          // of two buffers
	CodeSubgraph    = "subgraph"         // the list of bodies
	CodeProgram     = "program-order"    // of the input file
	CodeRepetition  = "repetition"       // a step that says that it repeats another and does not
	CodeSwap        = "swap"             // a transfer that other runtimes could not run
	CodeLimit       = "limit"            // not kept, or not what the steps cost
	CodeFrontier    = "frontier"         // other limits whose costs cannot be so
	CodeCertificate = "certificate"      // that does not prove what it says
	CodeSummary     = "summary"          // a figure of it
	CodeAnnotation  = "annotation"       // in the file's metadata
)

// Codes lists all codes of violations.
var Codes = []string{
	CodeFormat, CodeBytes, CodeSHA256, CodeSource, CodeMode, CodeDims, CodeAlignment,
	CodeOffset, CodeOrder, CodeLoad, CodeMissing, CodeDuplicate, CodeUnknown,
	CodeTensorOrder, CodeDynamic, CodeSize, CodeLifetime, CodeKind, CodeBounded,
	CodePool, CodeView, CodeInplace, CodeUpdate, CodeWorkspace, CodeOverlap,
	CodeSubgraph, CodeProgram, CodeRepetition, CodeSwap, CodeLimit, CodeFrontier, CodeCertificate, CodeSummary, CodeAnnotation,
}

// String gives the report in a few lines: the verdict, what it rests on, and the
// violations.
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
		if r.Replay != "" {
			fmt.Fprintf(&b, "replay: %s\n", r.Replay)
		}
		if len(r.Claimed) > 0 {
			fmt.Fprintf(&b, "claimed, not checked: %s\n", strings.Join(r.Claimed, ", "))
		}
		return b.String()
	}
	fmt.Fprintf(&b, "not valid: %s\n", count(len(r.Violations)+r.More, "violation"))
	for _, x := range r.Violations {
		fmt.Fprintf(&b, "%s: %s\n", x.Code, printable.Line(x.Message))
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", r.More)
	}
	return b.String()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
