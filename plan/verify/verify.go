package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
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
	return &verifier{
		m: m, p: p, opt: opt,
		r:     &Report{Violations: []Violation{}, Claimed: []string{}},
		peaks: map[*graph.Call]int64{},
	}
}

// run does the work of [Plan].
func (v *verifier) run() (_ *Report, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	defer v.recoverEnd(&err)
	v.inRunOrder()
	infers, err := v.infer()
	if err != nil {
		return nil, err
	}
	v.poll()
	if infers && v.alignment() {
		v.mode()
		v.points()
		v.identity()
		v.source()
		for _, f := range v.p.Impossible() {
			v.fault(codeOf[f.Field], "%s", f.Message)
		}
		v.plan()
	}
	if v.sums.Overflow {
		v.fault(CodeSize, "sizes: a sum of them overflows 63 bits")
	}
	v.claim("tool")
	if len(v.p.Frontier) > 0 {
		v.claim("frontier")
	}
	v.r.Valid = len(v.r.Violations) == 0
	slices.SortFunc(v.r.Claimed, func(x, y string) int { return slices.Index(Claims, x) - slices.Index(Claims, y) })
	if v.r.Schedule == "" {
		v.r.Schedule, v.r.Placement = "not checked", "not checked"
	}
	err = v.m.Source.Unchanged()
	if err == nil && v.opt.Source != nil {
		err = v.opt.Source.Source.Unchanged()
	}
	return v.r, err
}

// codeOf maps fields of the plan to the codes of impossible figures.
var codeOf = map[string]string{
	"model": CodeFormat, "source": CodeSource, "steps": CodeLimit, "subgraphs": CodeSubgraph,
	"frontier": CodeFrontier, "traversal": CodeOrder, "certificates": CodeCertificate, "workspaces": CodeWorkspace,
	"slices": CodeSlices,
}

// verifier is one run of [Plan].
type verifier struct {
	m   *graph.Model
	p   *plan.Plan
	opt Options
	r   *Report

	updates        map[string]string        // parameters, states and caches with their updated values
	updatesKey     string                   // of the metadata that list them
	sums           core.Sums                // of sizes
	peaks          map[*graph.Call]int64    // inner peaks of local functions
	trained        map[string]bool          // training: names of the parameters
	gradients      map[string]bool          // training: names of the gradients
	bounds         *core.Bounds             // of the main graph, once a certificate needs them
	added          []bool                   // by node: the plan added it; nil: none
	plain          *scope                   // the main graph without added nodes
	next           int                      // index of the next entry of p.Subgraphs
	resident       []extent                 // buffers of pool resident, of all graphs
	scopes         []*scope                 // the main graph and its bodies, whose annotations are checked
	sliceFunctions map[*graph.Function]bool // that slices call
	names          names                    // of the tensors of the plan's graphs and the source's
}

// plan checks everything that depends on the order of the nodes.
func (v *verifier) plan() {
	v.checkNoAliases()
	s := v.newScope(v.m.Graph, mainGraph, "")
	if !s.sorted() {
		return // lifetimes have no meaning
	}
	s.share()
	s.need = v.bodies(s, nil)
	v.recorded(s)
	if len(v.p.Subgraphs) > v.next {
		v.fault(CodeSubgraph, "subgraphs: expected %d, found %d", v.next, len(v.p.Subgraphs))
	}
	s.place(v.p.Buffers, v.p.Dynamic)
	s.checkOverlap(plan.Arena)
	for _, t := range v.p.Tiers() {
		s.checkOverlap(t.Name)
	}
	s.checkOverlap(plan.Host)
	v.resident = append(v.resident, s.extents(s.list, plan.Resident)...)
	v.overlapResident()

	v.poll()
	loads := s.Loads(s.buffers)
	s.checkSteps("steps", v.p.Steps, loads)
	sum := v.summarize(s, loads)
	v.checkSwaps(s)
	again := s.repetitions()
	if v.onlyCorner() {
		// The sharing that the input file's order may use is that of all points.
		v.claim("program_order")
		sum.ProgramPeakBytes = v.p.Summary.ProgramPeakBytes
	} else {
		sum.ProgramPeakBytes = v.programOrder(s, again)
	}
	if v.opt.SkipBounds {
		v.claim("lower_bound_bytes")
		v.claim("schedule_optimal")
		v.claim("certificates")
		sum.LowerBoundBytes = v.p.Summary.LowerBoundBytes
		sum.ScheduleOptimal = v.p.Summary.ScheduleOptimal
	} else {
		bounded := s
		if s.plain != nil {
			bounded = s.relaxed()
		}
		if bounded == nil {
			v.fault(CodeCertificate, tooManyParts)
			return
		}
		v.certify(bounded, &sum)
	}
	v.pools(s, sum)
	v.checkTraffic(s, &sum)
	v.limit(s, again, &sum)
	v.folded()
	v.slicedRegions()
	v.capacity()
	sum.Unsliced = v.p.Summary.Unsliced // claimed
	v.checkSummary(sum)
	v.r.Summary = sum
	if !v.opt.SkipAnnotations {
		v.annotations()
	}
}

// infer sets the types of m for the plan's dims and compares the dims with the
// model's. If the dims cause an error, that is a violation, and ok is false.
func (v *verifier) infer() (ok bool, err error) {
	dims := map[string]int64{}
	for name, d := range v.p.Dims {
		if !d.Assumed {
			dims[name] = d.Value
		}
	}
	mode, _ := v.m.Prop(keyMode)
	// Of a training graph's dimensions, those without a range were bound when it was made.
	inf, err := ops.Infer(v.m, ops.Options{Dims: dims, Values: v.p.Values, SpareDims: mode == modeTraining})
	if err != nil {
		without := func(opt ops.Options) bool {
			_, err := ops.Infer(v.m, opt)
			return err == nil
		}
		switch {
		case len(v.p.Values) > 0 && without(ops.Options{Dims: dims}):
			v.fault(CodeValues, "values: the model cannot be inferred with them: %v", err)
		case len(dims)+len(v.p.Values) > 0 && without(ops.Options{}), without(ops.Options{Dims: v.annotatedDims(), Values: v.p.Values}):
			v.fault(CodeDims, "dims: the model cannot be inferred with them: %v", err)
		default:
			return false, err
		}
		return false, nil
	}
	v.keepRuntime()
	v.values(inf.Given)
	have := map[string]bool{}
	for _, d := range inf.Dims {
		have[d.Name] = true
		found, stated := v.p.Dims[d.Name]
		switch {
		case !stated:
			v.fault(CodeDims, "dims: %q is missing: expected %d", graph.Short(d.Name), d.Value)
		case found.Value != d.Value || found.Assumed != d.Assumed:
			v.fault(CodeDims, "dims: %q: expected %d (assumed: %t), found %d (assumed: %t)",
				graph.Short(d.Name), d.Value, d.Assumed, found.Value, found.Assumed)
		}
	}
	for _, name := range sortedKeys(v.p.Dims) {
		switch d := v.p.Dims[name]; {
		case have[name]:
		case mode != modeTraining:
			v.fault(CodeDims, "dims: %q is no dimension of the model's inputs", graph.Short(name))
		case d.Value < 0:
			v.fault(CodeDims, "dims: %q: expected a length >= 0, found %d", graph.Short(name), d.Value)
		default: // it was bound before the training graph was made
			v.claim("dims")
		}
	}
	return true, nil
}

// annotatedDims returns the lengths with which the file was planned, as it says itself.
func (v *verifier) annotatedDims() map[string]int64 {
	text, _ := v.m.Prop(keyDims)
	var list map[string]plan.Dim
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	dims := map[string]int64{}
	for name, d := range list {
		if !d.Assumed {
			dims[name] = d.Value
		}
	}
	return dims
}

// values compares the plan's values of inputs with the form that the element types
// of the inputs give them. A parameter or state changes from step to step: it has no
// value of its own.
func (v *verifier) values(want map[string]graph.Literal) {
	for _, name := range sortedKeys(v.p.Values) {
		if found := v.p.Values[name]; !found.Equal(want[name]) {
			v.fault(CodeValues, "values: %q: expected %v, found shape %v and %d numbers", graph.Short(name), want[name], found.Shape, len(found.Data))
		}
		for i := range v.p.Buffers {
			if b := &v.p.Buffers[i]; plan.Stays(b.Kind) && slices.Contains(b.Tensors, name) {
				v.fault(CodeValues, "values: %q is a %s, which changes: expected an input", graph.Short(name), b.Kind)
			}
		}
	}
}

// maxAlignment prevents overflow when sizes are rounded up.
const maxAlignment = 1 << 30

// alignment reports whether the plan's alignment is valid.
func (v *verifier) alignment() bool {
	if a := v.p.Alignment; a < 1 || a > maxAlignment || a&(a-1) != 0 {
		v.fault(CodeAlignment, "alignment: expected a power of two from 1 to %d, found %d", maxAlignment, a)
		return false
	}
	return true
}

// version is the version that a plan with these fields has.
func (v *verifier) version() int {
	if v.p.Ranges != nil {
		return plan.RangesVersion
	}
	return plan.Version
}

// identity compares the plan's description of its file with the file.
func (v *verifier) identity() {
	version := v.version()
	if v.p.Format != plan.Format || v.p.Version != version {
		v.fault(CodeFormat, "format: expected %q version %d, found %q version %d", plan.Format, version, graph.Short(v.p.Format), v.p.Version)
	}
	if (v.opt.SkipAnnotations || v.opt.Unwritten) && v.p.Model == (plan.File{}) {
		return
	}
	want := plan.SourceOf(v.m)
	if want.File != v.p.Model.File {
		v.claim("model.file") // the file may have been renamed
	}
	if want.Bytes != v.p.Model.Bytes {
		v.fault(CodeBytes, "model: expected %d bytes, found %d", want.Bytes, v.p.Model.Bytes)
	}
	if want.GraphSHA256 != v.p.Model.GraphSHA256 {
		v.fault(CodeSHA256, "model: graph_sha256: expected %s, found %s: the plan belongs to another graph", want.GraphSHA256, graph.Short(v.p.Model.GraphSHA256))
	}
}

// mode determines whether the file is a training graph, and checks that the plan
// agrees.
func (v *verifier) mode() {
	for _, key := range []string{keyMode, keyUpdates, keyTrainable, keyGradients, keyStates, plan.KeyKV} {
		if n := entries(v.m.Props, key); n > 1 { // readers disagree on which one counts
			v.fault(CodeAnnotation, "metadata of the model: %s is listed %d times, expected once", key, n)
		}
	}
	mode, _ := v.m.Prop(keyMode)
	want := modeInference
	if mode == modeTraining {
		want = modeTraining
		v.readUpdates()
	} else {
		v.readStates()
	}
	if v.p.Mode != want {
		v.fault(CodeMode, "mode: expected %q, found %q", want, graph.Short(v.p.Mode))
	}
}

// add adds two sizes. An overflow is recorded, and the sum saturates.
func (v *verifier) add(a, b int64) int64 { return v.sums.Add(a, b) }

// round rounds a size up to the plan's alignment.
func (v *verifier) round(n int64) int64 {
	a := v.p.Alignment
	if n > math.MaxInt64-(a-1) {
		v.sums.Overflow = true
		return math.MaxInt64 &^ (a - 1)
	}
	return (n + a - 1) &^ (a - 1)
}

// fault records a violation.
func (v *verifier) fault(code, format string, args ...any) {
	if len(v.r.Violations) >= maxViolations {
		v.r.More++
		return
	}
	v.r.Violations = append(v.r.Violations, Violation{code, fmt.Sprintf(format, args...)})
}
