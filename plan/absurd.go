package plan

import (
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// rounding is how far sums of costs, as shares of each other, may lie apart.
const rounding = 1e-9

// absurd reports figures that cannot be so whatever the model is: they have no
// meaning, or contradict the rest of the plan. It looks at those that nothing can be
// computed for.
func (p *Plan) absurd(fault func(code, format string, args ...any)) {
	p.absurdCosts(fault)
	p.absurdFrontier(fault)
	for i := range p.Certificates {
		c := &p.Certificates[i]
		switch {
		case c.ValueBytes < 0:
			fault(CodeCertificate, "certificate %d: expected a value >= 0, found %d", i, c.ValueBytes)
		case c.Kind == CertificateSearch && c.ValueBytes > p.Summary.PeakBytes:
			fault(CodeCertificate, "certificate %d: no order is said to be below %d bytes: expected at most the peak of this one, %d", i, c.ValueBytes, p.Summary.PeakBytes)
		case c.Kind == CertificateSearch && len(c.Nodes)+len(c.Steps) > 0:
			fault(CodeCertificate, "certificate %d: expected no nodes of kind %q, found %d names and %d steps", i, c.Kind, len(c.Nodes), len(c.Steps))
		}
	}
}

// absurdFiles reports what identifies no file. One that is none, that of a model which
// was built in memory, has no length and no hash.
func (p *Plan) absurdFiles(fault func(code, format string, args ...any)) {
	for _, x := range []struct {
		key, code string
		f         File
	}{{"model", CodeFormat, p.Model}, {"source", CodeSource, p.Source}} {
		if x.f == (File{}) {
			continue
		}
		if name := x.f.File; name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			fault(x.code, "%s: file: expected a base name, found %q", x.key, graph.Short(name))
		}
		if x.f.Bytes < 0 {
			fault(x.code, "%s: bytes: expected a figure >= 0, found %d", x.key, x.f.Bytes)
		}
		if none := x.f.Bytes == 0 && x.f.GraphSHA256 == ""; !none && !isSHA256(x.f.GraphSHA256) {
			fault(x.code, "%s: graph_sha256: expected 64 digits of 0-9 and a-f, found %q", x.key, graph.Short(x.f.GraphSHA256))
		}
	}
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// absurdCosts looks at the costs of steps, which stand in plans below a limit alone,
// and at what is said to run again, which no body's node does.
func (p *Plan) absurdCosts(fault func(code, format string, args ...any)) {
	said := p.Summary.Limited != nil
	for i := range p.Steps {
		switch cost := p.Steps[i].CostNS; {
		case cost < 0:
			fault(CodeLimit, "steps: step %d: cost_ns: expected a figure >= 0, found %d", i, cost)
		case cost > 0 && !said:
			said = true // one message will do
			fault(CodeLimit, "steps: step %d: cost_ns: expected none in a plan without a limit, found %d", i, cost)
		}
	}
	for k := range p.Subgraphs {
		for i := range p.Subgraphs[k].Steps {
			if st := &p.Subgraphs[k].Steps[i]; st.Again != nil || st.CostNS != 0 {
				fault(CodeSubgraph, "subgraph %d: step %d: expected neither again nor cost_ns in a body", k, i)
			}
		}
	}
}

// absurdFrontier looks at the list of other limits: the largest stands first, and a
// smaller one never costs less.
func (p *Plan) absurdFrontier(fault func(code, format string, args ...any)) {
	impossible := false
	var cheapest *FrontierPoint // of those before that have a plan, the last
	for i := range p.Frontier {
		x := &p.Frontier[i]
		wrong := func(format string, args ...any) {
			fault(CodeFrontier, "frontier: point %d: "+format, append([]any{i}, args...)...)
		}
		switch {
		case x.LimitBytes < 0:
			wrong("limit_bytes: expected a figure >= 0, found %d", x.LimitBytes)
		case i > 0 && x.LimitBytes > p.Frontier[i-1].LimitBytes:
			wrong("limit_bytes: expected at most %d, that of the point before, found %d", p.Frontier[i-1].LimitBytes, x.LimitBytes)
		case x.Impossible && x.LimitBytes >= p.Summary.PeakBytes:
			wrong("a limit of %d bytes is said to be impossible: this plan has a peak of %d", x.LimitBytes, p.Summary.PeakBytes)
		case x.Impossible && (x.ExtraCostPercent != nil || x.ExtraCostBound != nil):
			wrong("expected no cost of what is impossible")
		case x.ExtraCostBound != nil && *x.ExtraCostBound < 0:
			wrong("extra_cost_lower_bound_percent: expected a figure >= 0, found %v", *x.ExtraCostBound)
		case x.ExtraCostPercent == nil:
		case impossible:
			wrong("expected no plan below a limit that is impossible")
		case *x.ExtraCostPercent < 0:
			wrong("extra_cost_percent: expected a figure >= 0, found %v", *x.ExtraCostPercent)
		case cheapest != nil && *x.ExtraCostPercent < *cheapest.ExtraCostPercent*(1-rounding):
			wrong("extra_cost_percent: expected at least %v, that of the larger limit %d, found %v", *cheapest.ExtraCostPercent, cheapest.LimitBytes, *x.ExtraCostPercent)
		case x.ExtraCostBound != nil && *x.ExtraCostBound > *x.ExtraCostPercent*(1+rounding):
			wrong("extra_cost_lower_bound_percent: expected at most %v, which a plan costs, found %v", *x.ExtraCostPercent, *x.ExtraCostBound)
		default:
			cheapest = x
		}
		impossible = impossible || x.Impossible
	}
}
