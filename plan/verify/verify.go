package verify

import (
	"context"
	"io"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// Options are the options of [Plan].
type Options struct {
	// SkipAnnotations skips the metadata entries of the planned file, and the
	// file's identity if the plan has none. It is for a model that was planned
	// but not yet written.
	SkipAnnotations bool
	// Unwritten says that m was planned but not yet written: the file's identity is not
	// compared, its metadata entries are.
	Unwritten bool
	// Replay repeats the searches behind certificates of kind search, by another
	// method. That takes up to a minute.
	Replay bool
	// SkipBounds trusts the plan's lower bound and proves no certificate; of a plan for
	// ranges of dimensions, it checks the corner alone. It is for callers that execute the
	// plan, and that check the sharing at the point of each run.
	SkipBounds bool
	// Source is the file from which the plan was made: its digest is compared
	// with the plan's source, and its nodes with program_order. Nil: it is not
	// available, and both are reported as claimed.
	Source *graph.Model
	// Proofs is a folder to which the lower bound of a valid plan is written as a proof that
	// other checkers accept, and so is what its placement is proven by; see docs/proofs.md. The
	// names of the files begin with ProofName. Empty: none is written.
	Proofs    string
	ProofName string
	// Plain takes a valid plan in plain text; see docs/proofs.md. Nil: it is not written.
	Plain io.Writer
	// Context ends the work: [Plan] then fails with its cause. Nil: nothing does.
	Context context.Context
}

// Plan checks a plan against the planned file from which m was read, and nothing else.
// Shapes, sizes, views and in-place results come from package ops. Lifetimes, loads, bounds
// and the summary are recomputed, by code that the planner does not use. No figure of the
// plan is trusted. A figure that cannot be recomputed is a violation if it is impossible, and
// otherwise reported as claimed.
//
// Plan infers m, or, if the plan has a traversal, a copy of its graph: afterwards its types
// are those for the plan's dims. The error says that m cannot be inferred; every fault of the
// plan is in the report. It takes O(n log n) time in nodes, tensors and buffers together. A
// certificate that the figures of its nodes alone do not prove takes a maximum flow for each
// node and each way to write in place.
func Plan(m *graph.Model, p *plan.Plan, opt Options) (*Report, error) {
	return newVerifier(m, p, opt).run()
}

func newVerifier(m *graph.Model, p *plan.Plan, opt Options) *verifier {
	s := &subject.Subject{Model: m, Plan: p, Source: opt.Source, Context: opt.Context, Claimed: []string{}}
	return &verifier{Subject: s, opt: opt, r: &Report{}, peaks: map[*graph.Call]int64{}}
}

// run does the work of [Plan].
func (v *verifier) run() (_ *Report, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	defer subject.RecoverEnd(&err)
	for i := range provers {
		if provers[i].run == nil {
			continue
		}
		v.Poll()
		if goOn := provers[i].run(v); v.err != nil {
			return nil, v.err
		} else if !goOn {
			break // the rest has no meaning
		}
	}
	if v.sums.Overflow {
		v.Fault(CodeSize, "sizes: a sum of them overflows 63 bits")
	}
	v.Claim("tool")
	if len(v.Plan.Frontier) > 0 {
		v.Claim("frontier")
	}
	v.report()
	if v.r.Schedule == "" {
		v.r.Schedule, v.r.Placement = "not checked", "not checked"
	}
	if v.opt.Proofs != "" {
		if err := v.writeProofs(); err != nil {
			return nil, err
		}
	}
	if v.opt.Plain != nil && v.r.Valid {
		if err := v.writePlain(v.opt.Plain); err != nil {
			return nil, err
		}
	}
	err = v.Model.Source.Unchanged()
	if err == nil && v.Source != nil {
		err = v.Source.Source.Unchanged()
	}
	return v.r, err
}

// verifier is one run of [Plan].
type verifier struct {
	*subject.Subject

	opt Options
	r   *Report

	updates    map[string]string     // parameters, states and caches with their updated values
	updatesKey string                // of the metadata that list them
	sums       core.Sums             // of sizes
	peaks      map[*graph.Call]int64 // inner peaks of local functions
	trained    map[string]bool       // training: names of the parameters
	gradients  map[string]bool       // training: names of the gradients
	main       *scope                // the main graph
	sum        plan.Summary          // recomputed
	again      []graph.NodeID        // by node: the node that it repeats, or none; nil: none repeats another
	bounds     *core.Bounds          // of the main graph, once a certificate needs them
	err        error                 // why there is no verdict

	bounded *scope        // whose bound the certificates prove
	claims  []proof.Claim // of points
	traffic proof.Traffic // of pools

	pointsOf *pointChecker // of a plan for ranges whose points were checked; else nil

	added    []bool   // by node: the plan added it; nil: none
	plain    *scope   // the main graph without added nodes
	next     int      // index of the next entry of p.Subgraphs
	resident []extent // buffers of pool resident, of all graphs
	scopes   []*scope // the main graph and its bodies, whose annotations are checked
}

// add adds two sizes. An overflow is recorded, and the sum saturates.
func (v *verifier) add(a, b int64) int64 { return v.sums.Add(a, b) }

// report writes what was found into the report.
func (v *verifier) report() {
	v.r.Valid, v.r.More, v.r.Claimed = len(v.Violations) == 0, v.More, v.Claimed
	slices.SortFunc(v.r.Claimed, func(x, y string) int { return slices.Index(Claims, x) - slices.Index(Claims, y) })
	v.r.Violations = make([]Violation, len(v.Violations))
	for i, x := range v.Violations {
		v.r.Violations[i] = Violation(x)
	}
}
