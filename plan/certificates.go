package plan

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
)

// certify proves the plan's certificates anew, and the lower bound from them. It
// fills in what they say of the order.
func (v *verifier) certify(s *scope, sum *Summary) {
	proven, claimed := int64(0), int64(0)
	if len(s.g.Nodes) == 0 {
		proven = sum.PeakBytes // there is one order
	}
	for i := range v.p.Certificates {
		c := &v.p.Certificates[i]
		switch c.Kind {
		case CertificateSearch:
			claimed = max(claimed, c.ValueBytes)
		case CertificateCut:
			proven = max(proven, v.cut(s, i))
		default:
			v.fault(CodeCertificate, "certificate %d: no proof is known for kind %q", i, graph.Short(c.Kind))
		}
	}
	bound := v.p.Summary.LowerBoundBytes
	switch {
	case bound < 0:
		v.fault(CodeCertificate, "summary: lower_bound_bytes: expected a figure >= 0, found %d", bound)
		bound = 0
	case bound > max(proven, claimed):
		v.fault(CodeCertificate, "summary: lower_bound_bytes: expected at most %d, which the certificates prove, found %d", max(proven, claimed), bound)
		bound = proven
	case bound > sum.PeakBytes:
		v.fault(CodeCertificate, "summary: lower_bound_bytes: expected at most the peak, %d, found %d", sum.PeakBytes, bound)
		bound = sum.PeakBytes
	}
	sum.LowerBoundBytes = bound
	switch peak := sum.PeakBytes; {
	case bound == peak && peak <= proven:
		v.r.Schedule, sum.ScheduleOptimal = "proven", true
	case claimed == peak:
		v.r.Schedule, sum.ScheduleOptimal = "claimed by search", true
	default:
		v.r.Schedule = fmt.Sprintf("gap %d bytes", peak-min(bound, proven))
	}
}

// cut proves a certificate of one node: what the node reads, makes and takes as
// workspace is there while it runs, whatever the order; in-place results save at
// most a largest matching of them. It gives the bytes that are proven, 0 where
// the certificate says more.
func (v *verifier) cut(s *scope, i int) int64 {
	c := &v.p.Certificates[i]
	if len(c.Steps) != 1 || c.Steps[0] < 0 || c.Steps[0] >= len(s.g.Nodes) {
		v.fault(CodeCertificate, "certificate %d: expected the step of one node below %d, found %v", i, len(s.g.Nodes), c.Steps[:min(len(c.Steps), 8)])
		return 0
	}
	id := graph.NodeID(c.Steps[0])
	if n := s.g.Nodes[id]; len(c.Nodes) != 1 || c.Nodes[0] != n.Name {
		v.fault(CodeCertificate, "certificate %d: expected node %q of step %d, found %s", i, graph.Short(n.Name), id, quotedList(c.Nodes))
	}
	bound, known := v.bounds[id]
	if !known {
		bound = s.atNode(id)
		v.bounds[id] = bound
	}
	if c.ValueBytes > bound {
		v.fault(CodeCertificate, "certificate %d: %s proves a lower bound of %d bytes, found %d", i, s.g.Label(id), bound, c.ValueBytes)
		return 0
	}
	return c.ValueBytes
}

// atNode is a load below which a node cannot run in any order.
func (s *scope) atNode(id graph.NodeID) int64 {
	sum := s.work[id]
	seen := map[int32]bool{}
	take := func(t graph.TensorID) {
		if t < 0 {
			return
		}
		if i := s.of[t]; i != none && !seen[i] && s.counts(i) {
			seen[i] = true
			sum = s.v.add(sum, s.storages[i].bytes)
		}
	}
	n := s.g.Nodes[id]
	n.Reads(take)
	for _, t := range n.Outputs {
		take(t)
	}
	if s.v.overflow {
		return 0
	}
	return sum - s.saved(s.pairs(id))
}
