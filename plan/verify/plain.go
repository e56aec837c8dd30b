package verify

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/plan"
)

// writePlain writes a valid plan in plain text, for the checkers in proofs: of the file, what must
// run before what, the storages with their sizes, makers and readers, workspaces, and what may be
// written over what; of the plan, the arena, the peak and the buffers; the formula of the lower
// bound and its proof. docs/formats/plain.md has the form.
func (v *verifier) writePlain(to io.Writer) error {
	s := v.main
	b := s.bounds(0)
	if b == nil {
		return errors.New("plain text: a sum of sizes overflows")
	}
	if len(v.Plan.Tiers()) > 0 {
		return errors.New("plain text: expected a plan with one pool")
	}
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "onnxmem plan 1\nsteps %d\narena %d\npeak %d\n", len(s.Nodes), v.r.ArenaBytes, v.r.PeakBytes)
	facts := s.placed(s.model(b)).Facts()
	w.Write(facts)
	for k := range s.buffers {
		p := &s.buffers[k]
		if !p.Known || v.Plan.Buffers[k].Pool != plan.Arena || p.Bytes == 0 {
			continue
		}
		fmt.Fprintf(w, "buffer %d %d %d %d", v.Plan.Buffers[k].Offset, p.Bytes, p.First, p.Last)
		for _, i := range p.Storages {
			fmt.Fprintf(w, " %d", i)
		}
		w.WriteString("\n")
	}
	c := v.orderProof()
	c.Poll = v.Poll
	c.WritePlain(w, facts)
	w.WriteString("end\n")
	return w.Flush()
}

// placed leaves in a problem what must lie in the arena: without tensors and workspaces that the
// plan puts elsewhere, and with workspaces of the size that the file asks for.
func (s *scope) placed(p *model.Problem) *model.Problem {
	p.Work = make([]int64, len(s.Nodes))
	for n, need := range s.need {
		p.Work[n] = need.bytes
	}
	for k := range s.buffers {
		if x := &s.buffers[k]; x.Known && s.v.Plan.Buffers[k].Pool != plan.Arena {
			if n := s.v.Plan.Buffers[k].Node; n != nil && len(x.Storages) == 0 {
				p.Work[*n] = 0
			}
			for _, i := range x.Storages {
				p.Tensors[i].Bytes = 0
			}
		}
	}
	return p
}
