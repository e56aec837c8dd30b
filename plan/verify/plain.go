package verify

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/plan"
)

// writePlain writes a valid plan in plain text, for proofs/Plan.v: of the file, what must run
// before what, the storages with their sizes, makers and readers, workspaces, and what may be
// written over what; of the plan, the arena, the peak and the buffers. docs/proofs.md has the form.
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
	for n, before := range b.Before {
		for _, m := range before {
			fmt.Fprintf(w, "edge %d %d\n", m, n)
		}
	}
	placed := make([]bool, len(s.Storages)) // elsewhere than in the arena
	elsewhere := make([]bool, len(s.Nodes))
	for k := range s.buffers {
		if p := &s.buffers[k]; p.Known && v.Plan.Buffers[k].Pool != plan.Arena {
			if n := v.Plan.Buffers[k].Node; n != nil && len(p.Storages) == 0 {
				elsewhere[*n] = true
			}
			for _, i := range p.Storages {
				placed[i] = true
			}
		}
	}
	for i := range s.Storages {
		st := &s.Storages[i]
		if !s.Counts(int32(i)) || st.Bytes == 0 || placed[i] {
			continue
		}
		out := 0
		if st.Output {
			out = 1
		}
		fmt.Fprintf(w, "tensor %d %d %d %d", i, st.Bytes, st.Maker, out)
		for _, r := range st.Readers {
			if r != st.Maker {
				fmt.Fprintf(w, " %d", r)
			}
		}
		w.WriteString("\n")
	}
	for n, need := range s.need {
		if need.bytes > 0 && !elsewhere[n] {
			fmt.Fprintf(w, "work %d %d\n", n, need.bytes)
		}
	}
	for n := range s.Nodes {
		for _, x := range s.Pairs(int32(n)) {
			fmt.Fprintf(w, "over %d %d\n", x.Result, x.Over)
		}
	}
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
	w.WriteString("end\n")
	return w.Flush()
}
