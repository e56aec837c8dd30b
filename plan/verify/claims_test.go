package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// twins has two branches of one size, so a program order that begins with the other
// branch has the same loads.
var twins = text{main: `
	in x float32[64]
	a = Relu(x)
	b = Sigmoid(x)
	c = Exp(a)
	d = Exp(b)
	y = Add(c, d)
	out y
`}

// unsorted is twins with readers before the nodes that make what they read.
var unsorted = text{main: `
	in x float32[64]
	y = Add(c, d)
	d = Exp(b)
	c = Exp(a)
	b = Sigmoid(x)
	a = Relu(x)
	out y
`}

// TestClaims: consistent false statements, in several fields at once. A field that
// cannot be computed is listed as claimed; if the source is available, it is refuted.
func TestClaims(t *testing.T) {
	exchange := func(p *plan.Plan) {
		o := p.ProgramOrder.Steps
		o[0], o[1] = o[1], o[0]
	}
	search := func(over int64) func(p *plan.Plan) {
		return func(p *plan.Plan) {
			bytes := p.Summary.PeakBytes + over
			p.Certificates = []plan.Certificate{{Kind: plan.CertificateSearch, Nodes: []string{}, ValueBytes: bytes}}
			p.Summary.ScheduleOptimal = true
		}
	}
	all := passes.Options{NoInplace: true, NoViews: true}
	worse := passes.Options{Schedule: "bfs"}
	for _, c := range []struct {
		name    string
		x       text
		opt     passes.Options
		change  func(p *plan.Plan)
		source  bool   // the source is available
		replay  bool   // verify.Options.Replay
		claimed string // besides tool
		code    string // of the violation; "": valid
	}{
		{name: "nothing, with the source", x: twins, opt: all, source: true},
		{name: "nothing, without", x: twins, opt: all, claimed: "source program_order"},
		{name: "the source had its nodes in another order", x: twins, opt: all, change: exchange, claimed: "source program_order"},
		{name: "the source, available, had its nodes in another order", x: twins, opt: all, change: exchange, source: true, code: verify.CodeProgram},
		{name: "the source is another file", x: twins, opt: all, change: func(p *plan.Plan) { p.Source.GraphSHA256 = strings.Repeat("0", 64) }, claimed: "source program_order"},
		{name: "the source, available, is another file", x: twins, opt: all, change: func(p *plan.Plan) { p.Source.GraphSHA256 = strings.Repeat("0", 64) }, source: true, code: verify.CodeSource},
		{name: "the source, available, is longer", x: twins, opt: all, change: func(p *plan.Plan) { p.Source.Bytes++ }, source: true, code: verify.CodeSource},
		{name: "the source had another name", x: twins, opt: all, change: func(p *plan.Plan) { p.Source.File = "before.onnx" }, source: true, claimed: "source.file"},
		{name: "the file had another name", x: twins, opt: all, change: func(p *plan.Plan) { p.Model.File = "before.onnx" }, source: true, claimed: "model.file"},
		{name: "a source in no topological order", x: unsorted, opt: all, source: true},
		{name: "a source in no topological order, planned in another", x: unsorted, opt: all, change: exchange, source: true, code: verify.CodeProgram},
		{name: "no source", x: twins, opt: all, change: func(p *plan.Plan) { p.Source = plan.File{} }, claimed: "program_order"},
		{name: "below a limit", x: tower, opt: passes.Options{Limit: &passes.Limit{Percent: 70}}, source: true, claimed: "plain_peak_bytes extra_cost_lower_bound_percent steps.cost_ns frontier"},
		{
			name: "below a limit, the source in another order", x: tower, opt: passes.Options{Limit: &passes.Limit{Percent: 70}}, source: true, code: verify.CodeProgram,
			change: func(p *plan.Plan) { exchange(p) }, // not a topological order of this model
		},
		{name: "a host", x: tower, opt: passes.Options{Limit: &passes.Limit{Percent: 70}, Host: &passes.Host{Link: 1e9}}, source: true, claimed: "plain_peak_bytes host_link_bytes_per_second steps.cost_ns frontier"},
		{name: "another device", x: tower, opt: passes.Options{Limit: &passes.Limit{Percent: 70}}, source: true, claimed: "plain_peak_bytes extra_cost_lower_bound_percent steps.cost_ns frontier", change: func(p *plan.Plan) {
			for i := range p.Steps {
				p.Steps[i].CostNS *= 1000
			}
		}},
		{name: "the best order without the limit was worse", x: tower, opt: passes.Options{Limit: &passes.Limit{Percent: 70}}, source: true, claimed: "plain_peak_bytes extra_cost_lower_bound_percent steps.cost_ns frontier", change: func(p *plan.Plan) { p.Summary.PlainPeakBytes *= 100 }},
		{name: "other limits cost nothing", x: twins, opt: all, source: true, claimed: "frontier", change: func(p *plan.Plan) {
			p.Frontier = []plan.FrontierPoint{{LimitBytes: 64, ExtraCostPercent: new(float64)}}
		}},
		{name: "an order that is not optimal, by a search", x: fans(4, 5), opt: worse, source: true, change: search(0), claimed: "lower_bound_bytes schedule_optimal certificates"},
		{name: "an order that is not optimal, by a search that is repeated", x: fans(4, 5), opt: worse, source: true, replay: true, change: search(0), code: verify.CodeCertificate},
		{name: "a search above the peak", x: fans(4, 5), opt: worse, source: true, change: search(64), code: verify.CodeCertificate},
		{name: "a search, repeated", x: fans(2, 2), source: true, replay: true},
		{name: "random nodes in their order", x: realCase(t, "random nodes in their order").x, opt: passes.Options{KeepRandomOrder: true}, claimed: "source keeps_random_order program_order"},
		{name: "random nodes in their order, with the source", x: realCase(t, "random nodes in their order").x, opt: passes.Options{KeepRandomOrder: true}, source: true},
		{name: "a training step", x: classifier, opt: realCase(t, "a step of training").opt, claimed: "source dims program_order folded folded.unfolded_peak_bytes folded.unfolded_total_bytes", change: func(p *plan.Plan) {}},
		{name: "functions that were inlined", x: models["functions"], opt: passes.Options{InlineFunctions: true}, source: true, claimed: "program_order folded folded.unfolded_peak_bytes folded.unfolded_total_bytes"},
		{name: "dynamic for another reason", x: models["dynamic"], source: true, claimed: "dynamic.reason", change: func(p *plan.Plan) { p.Dynamic[0].Reason = "it is large" }},
		{name: "an arena that could be smaller", x: twins, source: true, claimed: "placement_optimal placement_claimed_by", change: func(p *plan.Plan) {
			// The last buffer of the arena moves up by 64 bytes, and all figures follow.
			for _, b := range []*int64{&p.Summary.ArenaBytes, &p.Summary.TotalBytes, &p.Pools[0].Bytes} {
				*b += 64
			}
			k := slices.IndexFunc(p.Buffers, func(b plan.Buffer) bool { return b.Pool == plan.Arena && b.Offset+b.Bytes == p.Pools[0].Bytes-64 })
			p.Buffers[k].Offset += 64
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			source, file, p := planReal(t, c.x, c.opt)
			if c.change != nil {
				c.change(p)
			}
			opt := verify.Options{Replay: c.replay}
			if c.source {
				opt.Source = parse(t, source)
			}
			r, err := verify.Plan(parse(t, file), p, opt)
			if err != nil {
				t.Fatal(err)
			}
			r.Violations = slices.DeleteFunc(r.Violations, func(v verify.Violation) bool {
				return v.Code == verify.CodeAnnotation // a forger could also change the file
			})
			if c.code != "" {
				if !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == c.code }) {
					t.Errorf("expected code %q, found %v, claimed %v", c.code, r.Violations, r.Claimed)
				}
				return
			}
			if len(r.Violations) > 0 {
				t.Errorf("%v", r.Violations)
			}
			if got := strings.Join(r.Claimed, " "); got != strings.TrimSpace("tool "+c.claimed) {
				t.Errorf("claimed: %s, expected tool %s", got, c.claimed)
			}
		})
	}
}

// TestUnproven: with a bound that was not proven, the bound is listed as claimed.
func TestUnproven(t *testing.T) {
	_, file, p := planReal(t, twins, passes.Options{})
	r, err := verify.Plan(parse(t, file), p, verify.Options{SkipBounds: true})
	if err != nil || !r.Valid || !slices.Contains(r.Claimed, "lower_bound_bytes") || !slices.Contains(r.Claimed, "certificates") {
		t.Errorf("error %v, %v, claimed %v", err, r, r.Claimed)
	}
}

// TestManyCertificates: if a plan has more certificates than the work limit covers, the
// verifier leaves some unproven, and refuses those that claim more than the plan's own
// peak.
func TestManyCertificates(t *testing.T) {
	var x strings.Builder
	x.WriteString("in t0 float32[16]\n")
	const n = 2000
	for i := range n {
		fmt.Fprintf(&x, "t%d = Relu(t%d)\n", i+1, i)
	}
	fmt.Fprintf(&x, "out t%d\n", n)
	file, p := chainPlan(t, text{main: x.String()}, n)
	for i := range 40_000 {
		step := i % n
		p.Certificates = append(p.Certificates, plan.Certificate{Kind: plan.CertificateCut, Nodes: []string{p.Steps[step].Name}, Steps: []int{step}, ValueBytes: 128})
	}
	p.Summary.LowerBoundBytes, p.Summary.ScheduleOptimal, p.Summary.PlacementOptimal = 128, true, true
	verify := func() *verify.Report {
		r, err := verify.Plan(parse(t, file), p, verify.Options{SkipAnnotations: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := verify(); !r.Valid || r.Schedule != "proven" {
		t.Errorf("%v", r)
	}
	p.Certificates[len(p.Certificates)-1].ValueBytes = 192
	if r := verify(); r.Valid || r.Violations[0].Message != "certificate 39999: expected at most the peak, 128, found 192" {
		t.Errorf("%v: expected the last certificate to be refused unproven", r)
	}
}

// TestClaimsListed: the names of claims are fields of a plan.
func TestClaimsListed(t *testing.T) {
	known := map[string]bool{}
	for _, path := range planPaths() {
		known[path] = true
	}
	for _, name := range verify.Claims {
		if !known[name] {
			t.Errorf("%q is not a field of a plan", name)
		}
	}
}

// planPaths lists the fields of a plan as claims name them.
func planPaths() (list []string) {
	for _, f := range planFields() {
		list = append(list, strings.TrimPrefix(strings.NewReplacer("[]", "", ".*", "").Replace(f.path), "summary."))
	}
	return list
}
