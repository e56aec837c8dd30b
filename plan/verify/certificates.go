package verify

import (
	"cmp"
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/replay"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// certificates proves the lower bound, unless the caller trusts it. With aliases, it is the
// bound of what no plan with aliases can go below.
func (v *verifier) certificates() bool {
	if v.opt.SkipBounds {
		v.Claim("lower_bound_bytes")
		v.Claim("schedule_optimal")
		v.Claim("certificates")
		v.sum.LowerBoundBytes = v.Plan.Summary.LowerBoundBytes
		v.sum.ScheduleOptimal = v.Plan.Summary.ScheduleOptimal
		return true
	}
	bounded := v.main
	switch l := v.Plan.Summary.Limited; {
	case l != nil && l.Recast:
		bounded = v.recasts()
	case bounded.plain != nil:
		bounded = bounded.relaxed()
	}
	if bounded == nil {
		v.Fault(CodeCertificate, tooManyParts)
		return false
	}
	v.bounded = bounded
	v.certify(bounded, &v.sum)
	return true
}

// certify proves the plan's certificates again, and the lower bound from them. It
// sets the verdict on the order.
func (v *verifier) certify(s *scope, sum *plan.Summary) {
	proven, claimed := int64(0), int64(0)
	if len(s.g.Nodes) == 0 {
		proven = sum.PeakBytes // there is only one order
	}
	search, who := v.greatestSearch(), ""
	if v.opt.Replay && search < 0 {
		v.r.Replay = "nothing to replay"
	}
	for i := range v.Plan.Certificates {
		c := &v.Plan.Certificates[i]
		if c.ClaimedBy != "" {
			v.Claim("certificates")
			if c.Kind != plan.CertificateSearch {
				v.Fault(CodeCertificate, "certificate %d: claimed_by: expected it with kind search alone, found it with %q", i, graph.Short(c.Kind))
			}
		}
		switch c.Kind {
		case plan.CertificateSearch:
			outcome := isUnknown
			if v.opt.Replay && i == search {
				outcome = v.replay(s, i)
			}
			switch {
			case outcome == isProven:
				proven = max(proven, c.ValueBytes)
			case outcome == isUnknown && c.ValueBytes >= claimed:
				claimed, who = c.ValueBytes, c.ClaimedBy
			}
		case plan.CertificateCut, plan.CertificateFirst, plan.CertificateLast:
			switch v.prove(s, i) {
			case isProven:
				proven = max(proven, c.ValueBytes)
			case isUnknown:
				if claimed = max(claimed, c.ValueBytes); c.ValueBytes > sum.PeakBytes {
					v.Fault(CodeCertificate, "certificate %d: expected at most the peak, %d, found %d", i, sum.PeakBytes, c.ValueBytes)
				}
			}
		default:
			v.Fault(CodeCertificate, "certificate %d: no proof is known for kind %q", i, graph.Short(c.Kind))
		}
	}
	if claimed > proven {
		v.Claim("certificates")
	}
	bound := v.Plan.Summary.LowerBoundBytes
	switch {
	case bound < 0:
		v.Fault(CodeCertificate, "summary: lower_bound_bytes: expected a figure >= 0, found %d", bound)
		bound = 0
	case bound > max(proven, claimed):
		v.Fault(CodeCertificate, "summary: lower_bound_bytes: expected at most %d, which the certificates prove, found %d", max(proven, claimed), bound)
		bound = proven
	case bound > sum.PeakBytes:
		v.Fault(CodeCertificate, "summary: lower_bound_bytes: expected at most the peak, %d, found %d", sum.PeakBytes, bound)
		bound = sum.PeakBytes
	}
	sum.LowerBoundBytes = bound
	if bound > proven {
		v.Claim("lower_bound_bytes")
	}
	switch peak := sum.PeakBytes; {
	case bound == peak && peak <= proven:
		v.r.Schedule, sum.ScheduleOptimal = "proven", true
	case claimed == peak:
		v.r.Schedule, sum.ScheduleOptimal = "claimed by "+cmp.Or(graph.Short(who), "search"), true
		v.Claim("schedule_optimal")
	default:
		v.r.Schedule = fmt.Sprintf("gap %d bytes", peak-min(bound, proven))
	}
}

// outcome is the verdict on a certificate.
type outcome int8

const (
	isForged  outcome = iota // and reported as a violation
	isProven                 // for every order
	isUnknown                // not asked for, or too much work
)

// prove re-proves a certificate of one node or of a set of nodes.
func (v *verifier) prove(s *scope, i int) outcome {
	v.Poll()
	c := &v.Plan.Certificates[i]
	set, ok := v.certified(s, i)
	if !ok {
		return isForged
	}
	if v.bounds == nil && !v.sums.Overflow {
		v.bounds = s.bounds(core.MaxWork)
	}
	if v.bounds == nil || v.sums.Overflow || v.bounds.Spent() {
		return isUnknown
	}
	var a core.Answer
	var which string
	switch c.Kind {
	case plan.CertificateCut:
		a = v.bounds.AtNode(set[0], c.ValueBytes)
		which = fmt.Sprintf("%s proves", s.g.Label(graph.NodeID(a.Node)))
	case plan.CertificateFirst:
		a = v.bounds.First(set, c.ValueBytes)
		which = fmt.Sprintf("%s, the first of %s, proves", s.g.Label(graph.NodeID(a.Node)), subject.Count(len(set), "node"))
	default:
		a = v.bounds.LastOf(set, c.ValueBytes)
		which = fmt.Sprintf("%s, the last of %s, proves", s.g.Label(graph.NodeID(a.Node)), subject.Count(len(set), "node"))
	}
	switch {
	case a.Unknown:
		return isUnknown
	case c.ValueBytes > a.Bytes:
		v.Fault(CodeCertificate, "certificate %d: %s a lower bound of %d bytes, found %d", i, which, a.Bytes, c.ValueBytes)
		return isForged
	}
	return isProven
}

// greatestSearch is the certificate of kind search with the greatest value, or
// none. It implies the others.
func (v *verifier) greatestSearch() int {
	at := int(none)
	for i := range v.Plan.Certificates {
		if c := &v.Plan.Certificates[i]; c.Kind == plan.CertificateSearch && (at < 0 || c.ValueBytes > v.Plan.Certificates[at].ValueBytes) {
			at = i
		}
	}
	return at
}

// replay searches for an order that a certificate of kind search excludes.
func (v *verifier) replay(s *scope, i int) outcome {
	c := &v.Plan.Certificates[i]
	if v.bounds == nil && !v.sums.Overflow {
		v.bounds = s.bounds(core.MaxWork)
	}
	if c.ValueBytes <= 0 {
		return isProven
	}
	found := replay.Result{Verdict: replay.TooLarge}
	if v.bounds != nil && !v.sums.Overflow {
		found = replay.Below(&s.Problem, v.bounds, c.ValueBytes)
	}
	switch found.Verdict {
	case replay.NoOrder:
		v.r.Replay = fmt.Sprintf("no order is below %d bytes (%s)", c.ValueBytes, subject.Count(found.States, "state"))
		return isProven
	case replay.AnOrder:
		_, peak := s.simulate(found.Order)
		v.r.Replay = fmt.Sprintf("an order has %d bytes (%s)", peak, subject.Count(found.States, "state"))
		v.Fault(CodeCertificate, "certificate %d: a search for an order below %d bytes finds one of %d", i, c.ValueBytes, peak)
		return isForged
	case replay.TooLarge:
		v.r.Replay = fmt.Sprintf("not replayed: more than %d bytes", int64(replay.MaxBytes))
		return isUnknown
	}
	v.r.Replay = "not replayed: " + found.Why
	return isUnknown
}

// certified returns the nodes of a certificate: its steps identify them, and its
// names must match.
func (v *verifier) certified(s *scope, i int) (set []int32, ok bool) {
	c := &v.Plan.Certificates[i]
	one := c.Kind == plan.CertificateCut
	switch {
	case one && (len(c.Steps) != 1 || c.Steps[0] < 0 || c.Steps[0] >= len(s.g.Nodes)):
		v.Fault(CodeCertificate, "certificate %d: expected the step of one node below %d, found %v", i, len(s.g.Nodes), c.Steps[:min(len(c.Steps), 8)])
		return nil, false
	case len(c.Steps) == 0:
		v.Fault(CodeCertificate, "certificate %d: expected the steps of a set of nodes, found none", i)
		return nil, false
	}
	seen := map[int]bool{}
	for _, step := range c.Steps {
		switch {
		case step < 0 || step >= len(s.g.Nodes):
			v.Fault(CodeCertificate, "certificate %d: expected steps of nodes below %d, found %d", i, len(s.g.Nodes), step)
			return nil, false
		case seen[step]:
			v.Fault(CodeCertificate, "certificate %d: expected each step of the set once, found %d twice", i, step)
			return nil, false
		}
		seen[step] = true
		set = append(set, int32(step))
	}
	if len(c.Nodes) != len(set) {
		v.Fault(CodeCertificate, "certificate %d: expected the names of %s, found %d", i, subject.Count(len(set), "node"), len(c.Nodes))
	}
	for k := range min(len(set), len(c.Nodes)) {
		if n := s.g.Nodes[set[k]]; c.Nodes[k] != n.Name {
			v.Fault(CodeCertificate, "certificate %d: expected node %q of step %d, found %q", i, graph.Short(n.Name), set[k], graph.Short(c.Nodes[k]))
		}
	}
	return set, true
}
