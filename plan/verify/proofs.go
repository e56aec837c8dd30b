package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// writeProofs writes the proofs of a valid plan to the folder. Of one that is not, it takes back
// those of an earlier run.
func (v *verifier) writeProofs() error {
	if !v.r.Valid {
		_, err := proof.Folder(v.opt.Proofs, v.opt.ProofName, []proof.Claim{{Name: "order", Refused: "the plan is not valid"}})
		return err
	}
	claims := append([]proof.Claim{v.orderProof(), v.placementProof()}, v.claims...)
	if t := v.r.Tiered; t != nil && t.SlowTrafficBoundBytes > 0 {
		claims = append(claims, proof.TrafficOf(&v.traffic, t.SlowTrafficBoundBytes))
	}
	if l := v.r.Limited; l != nil && l.ExtraCostBound != nil && *l.ExtraCostBound > 0 {
		claims = append(claims, proof.Claim{Name: "extra-time", Refused: "no proof is written of the bound of the extra time, which verify takes as claimed"})
	}
	for i := range claims {
		claims[i].Poll = v.Poll
	}
	list, err := proof.Folder(v.opt.Proofs, v.opt.ProofName, claims)
	for _, r := range list {
		v.r.Proofs = append(v.r.Proofs, Proof(r))
	}
	return err
}

// orderProof is the claim that no order has a peak below the plan's lower bound.
func (v *verifier) orderProof() proof.Claim {
	s := v.bounded
	if s == nil {
		return proof.Claim{Name: "order", Refused: "its bound was not checked"}
	}
	b := s.bounds(core.MaxWork)
	if b == nil {
		return proof.Claim{Name: "order", Refused: "a sum of sizes overflows"}
	}
	var list []proof.Certificate
	for i := range v.Plan.Certificates {
		c := &v.Plan.Certificates[i]
		x := proof.Certificate{Bytes: c.ValueBytes, Last: c.Kind == plan.CertificateLast, Searched: c.Kind == plan.CertificateSearch}
		for _, step := range c.Steps {
			x.Set = append(x.Set, int32(step))
		}
		if c.Kind == plan.CertificateFirst {
			x.Set = b.Widened(x.Set, c.ValueBytes)
		}
		list = append(list, x)
	}
	c := proof.OrderOf(s.model(b), list, v.r.LowerBoundBytes, s.Identity())
	return s.told(c)
}

// told adds what a reader wants to know of a claim: names, and what is claimed.
func (s *scope) told(c proof.Claim) proof.Claim {
	c.Node = func(i int32) string { return fmt.Sprintf("%q", graph.Short(s.g.Nodes[i].Name)) }
	c.Tensor = func(i int32) string { return s.name(s.origins[i].tensors[0]) }
	if c.Refused == "" {
		c.Says = fmt.Sprintf("No order of the %d nodes has a peak below %d bytes, with the sharing of the plan: %s.%s", len(s.g.Nodes), c.Bytes, s.sharing(), s.worked())
	}
	return c
}

// sharing says what the plan's sharing lets lie in the same bytes. Another sharing may have a
// smaller peak.
func (s *scope) sharing() string {
	p := s.v.Plan
	list := []string{"no views", "no results in place", "no aliases"}
	for i, is := range []bool{p.Sharing.Views, p.Sharing.Inplace, p.Sharing.Aliases} {
		if is {
			list[i] = strings.TrimPrefix(list[i], "no ")
		}
	}
	if p.Sharing.Runtime != "" {
		list = append(list, fmt.Sprintf("those of the runtime %q", graph.Short(p.Sharing.Runtime)))
	}
	return strings.Join(append(list, fmt.Sprintf("sizes are multiples of %d bytes", p.Alignment)), ", ")
}

// worked says of which nodes the bytes are not those of tensors alone.
func (s *scope) worked() string {
	nodes, most := 0, int64(0)
	for _, bytes := range s.Work {
		if bytes > 0 {
			nodes, most = nodes+1, max(most, bytes)
		}
	}
	if nodes == 0 {
		return ""
	}
	return fmt.Sprintf(" The workspaces of %d nodes, each at most %d bytes, are taken from the plan; those of bodies are the arenas of their orders there.", nodes, most)
}

// model is the scope's graph as the package that writes constraints takes it: the storages that
// count, and what must run before what.
func (s *scope) model(b *core.Bounds) *model.Problem {
	p := &model.Problem{Before: b.Before, Work: s.Work, Pairs: make([][]model.Pair, len(s.Nodes))}
	for i := range s.Storages {
		st := &s.Storages[i]
		x := model.Tensor{Bytes: st.Bytes, Maker: st.Maker, Readers: st.Readers, Output: st.Output}
		if !s.Counts(int32(i)) {
			x.Bytes = 0
		}
		p.Tensors = append(p.Tensors, x)
	}
	for _, w := range b.Written {
		p.Written = append(p.Written, model.Written{Bytes: w.Bytes, Maker: w.Maker, Others: w.Others, AtOnce: !w.Operand, Later: w.Waits})
	}
	for n := range s.Nodes {
		for _, x := range s.Pairs(int32(n)) {
			p.Pairs[n] = append(p.Pairs[n], model.Pair{Result: x.Result, Over: x.Over})
		}
	}
	return p
}

// placementProof is the claim that no placement of the buffers in this order takes less than the
// plan's arena. That is proven where the buffers of one step fill it.
func (v *verifier) placementProof() proof.Claim {
	s := v.main
	var live []proof.Live
	for k := range s.buffers {
		b := &s.buffers[k]
		if b.Known && !b.Resident && !b.Host && b.Bytes > 0 && b.First <= v.r.PeakStep && b.Last >= v.r.PeakStep {
			name := ""
			if t := v.Plan.Buffers[k].Tensors; len(t) > 0 {
				name = t[0]
			}
			live = append(live, proof.Live{Name: name, Bytes: b.Bytes})
		}
	}
	return proof.PlacementOf(live, v.r.PeakStep, v.r.ArenaBytes)
}

// pointProof is the claim of the rows of a plan for ranges at one point: that no order has a
// peak below their bound there. It takes the first certificate that proves as much.
func (s *scope) pointProof(list []plan.RangeCertificate, rows []*plan.RangePoint) []proof.Claim {
	row := slices.MaxFunc(rows, func(x, y *plan.RangePoint) int { return cmp.Compare(x.LowerBoundBytes, y.LowerBoundBytes) })
	bound, name, at := row.LowerBoundBytes, "order", ""
	for _, dim := range sortedKeys(row.Dims) {
		name += fmt.Sprintf(".%s-%d", plainName(dim), row.Dims[dim])
		at += fmt.Sprintf("%q=%d, ", graph.Short(dim), row.Dims[dim])
	}
	at = strings.TrimSuffix(at, ", ")
	b := s.bounds(maxPointWork)
	if b == nil {
		return []proof.Claim{{Name: name, Refused: "a sum of sizes overflows"}}
	}
	var given []proof.Certificate
	for _, x := range list {
		if proven(b, x, bound) < bound {
			continue
		}
		c := proof.Certificate{Bytes: bound, Last: x.Kind == plan.CertificateLast}
		for _, step := range x.Steps {
			c.Set = append(c.Set, int32(step))
		}
		if slices.Sort(c.Set); x.Kind == plan.CertificateFirst {
			c.Set = b.Widened(c.Set, bound)
		}
		given = append(given, c)
	}
	if len(given) == 0 && b.Spent() {
		return []proof.Claim{{Name: name, Refused: "the check of its certificates takes more work than is done at a point"}}
	}
	c := s.told(proof.OrderOf(s.model(b), given, bound, s.Identity()))
	c.Name, c.Says = name, at+": "+c.Says
	return []proof.Claim{c}
}

// plainName is a name as part of that of a file: at most 32 bytes.
func plainName(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, graph.Short(name))
	return plain[:min(len(plain), 32)]
}
