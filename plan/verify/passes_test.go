package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestPasses: verify accepts the plans of package passes, with their bounds, and refuses
// them once a certificate claims one unit more.
func TestPasses(t *testing.T) {
	list := map[string]text{}
	for name, x := range models {
		if x.props == nil { // training graphs are not planned from a file here
			list[name] = x
		}
	}
	for name, b := range bases {
		if b.x.props == nil {
			list["base: "+name] = b.x
		}
	}
	list["branches side by side"] = fans(4, 5)
	for _, name := range sorted(list) {
		for _, opt := range []passes.Options{{}, {NoInplace: true}, {NoViews: true, NoInplace: true}} {
			t.Run(fmt.Sprintf("%s/in place=%t/views=%t", name, !opt.NoInplace, !opt.NoViews), func(t *testing.T) {
				found, err := passes.Optimize(t.Context(), list[name].build(t), opt)
				if err != nil {
					t.Fatal(err)
				}
				im, err := onnx.Encode(found.Model)
				if err != nil {
					t.Fatal(err)
				}
				found.Plan.Model = plan.ImageOf("out.onnx", im)
				file := encode(t, found.Model)
				check := func(p *plan.Plan) *verify.Report {
					t.Helper()
					r, err := verify.Plan(parse(t, file), p, verify.Options{})
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
				if r := check(found.Plan); !r.Valid {
					t.Fatal(r)
				}
				for i, c := range found.Plan.Certificates {
					if c.Kind == plan.CertificateSearch || c.ValueBytes < found.Plan.Summary.LowerBoundBytes {
						continue
					}
					p := clone(t, found.Plan)
					p.Certificates[i].ValueBytes += p.Alignment
					r := check(p)
					if !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeCertificate }) {
						t.Errorf("certificate %d, %s of %v: %d bytes are accepted, expected at most %d", i, c.Kind, c.Steps, c.ValueBytes+p.Alignment, c.ValueBytes)
					}
				}
			})
		}
	}
}

// fans returns a model of several branches, each of which grows and shrinks as many
// times as it is long.
func fans(branches, length int) text {
	var b strings.Builder
	b.WriteString("in x float32[64]\nt = Relu(x)\n")
	var ends []string
	for i := range branches {
		from := "t"
		for k := range length {
			grown, shrunk := fmt.Sprintf("g%d_%d", i, k), fmt.Sprintf("s%d_%d", i, k)
			fmt.Fprintf(&b, "%s = Concat(%s) axis=0\n", grown, strings.Join(slices.Repeat([]string{from}, 2+(i+k)%3), ", "))
			fmt.Fprintf(&b, "%s = ReduceMax(%s)\n", shrunk, grown)
			from = shrunk
		}
		ends = append(ends, from)
	}
	fmt.Fprintf(&b, "y = Sum(%s)\nout y\n", strings.Join(ends, ", "))
	return text{main: b.String()}
}

// TestReplayedCertificates: a bound of kind search is accepted and reported as claimed.
// Replay proves it, or refutes it if it is one unit too high.
func TestReplayedCertificates(t *testing.T) {
	judged := func(p *plan.Plan, x text, replay bool) *verify.Report {
		t.Helper()
		found, err := passes.Optimize(t.Context(), x.build(t), passes.Options{Schedule: "bfs", Aliases: passes.AliasesOff})
		if err != nil {
			t.Fatal(err)
		}
		im, err := onnx.Encode(found.Model)
		if err != nil {
			t.Fatal(err)
		}
		p.Model = plan.ImageOf("out.onnx", im)
		r, err := verify.Plan(parse(t, encode(t, found.Model)), p, verify.Options{Replay: replay})
		if err != nil {
			t.Fatal(err)
		}
		r.Violations = slices.DeleteFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeAnnotation })
		return r
	}
	for _, x := range []text{fans(2, 2), fans(4, 5), fans(6, 9)} {
		worse, err := passes.Optimize(t.Context(), x.build(t), passes.Options{Schedule: "bfs", Aliases: passes.AliasesOff})
		if err != nil {
			t.Fatal(err)
		}
		best, err := passes.Optimize(t.Context(), x.build(t), passes.Options{Aliases: passes.AliasesOff})
		if err != nil {
			t.Fatal(err)
		}
		optimum := best.Plan.Summary.PeakBytes
		if s := best.Plan.Summary; !s.ScheduleOptimal || worse.Plan.Summary.PeakBytes <= optimum+64 {
			t.Fatalf("a peak of %d bytes, breadth first %d: the test needs a gap", optimum, worse.Plan.Summary.PeakBytes)
		}
		claim := func(bytes int64) *plan.Plan {
			p := clone(t, worse.Plan)
			p.Certificates = []plan.Certificate{{Kind: plan.CertificateSearch, Nodes: []string{}, ValueBytes: bytes}}
			p.Summary.LowerBoundBytes, p.Summary.ScheduleOptimal = bytes, bytes == p.Summary.PeakBytes
			return p
		}
		peak := worse.Plan.Summary.PeakBytes
		if r := judged(claim(optimum), x, true); len(r.Violations) > 0 || !strings.HasPrefix(r.Replay, "no order is below") || r.Schedule != fmt.Sprintf("gap %d bytes", peak-optimum) {
			t.Errorf("the true bound, replayed: %s, %s\n%v", r.Replay, r.Schedule, r.Violations)
		}
		if r := judged(claim(peak), x, false); len(r.Violations) > 0 || r.Schedule != "claimed by search" || r.Replay != "" {
			t.Errorf("the forged bound, not replayed: %s, %s\n%v", r.Replay, r.Schedule, r.Violations)
		}
		for _, forged := range []int64{optimum + 64, peak} {
			r := judged(claim(forged), x, true)
			if len(r.Violations) == 0 || r.Violations[0].Code != verify.CodeCertificate || r.ScheduleOptimal {
				t.Errorf("a bound of %d bytes, the least peak is %d: %s, %s\n%v", forged, optimum, r.Replay, r.Schedule, r.Violations)
			}
		}
		if r := judged(worse.Plan, x, true); r.Replay != "nothing to replay" {
			t.Errorf("no certificate of kind search: %q", r.Replay)
		}
	}
}
