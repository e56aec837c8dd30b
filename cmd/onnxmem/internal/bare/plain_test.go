package bare_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/bare"
	"github.com/onnxmem/onnxmem/schedule"
)

// plain places the buffers of an order and returns all as plain text, in the form of
// docs/proofs.md.
func plain(t *testing.T, p *schedule.Problem, r *schedule.Result) string {
	t.Helper()
	lifetimes, err := p.Lifetimes(r.Order, r.Evaluation.Taken)
	if err != nil {
		t.Fatal(err)
	}
	var q alloc.Problem
	for _, l := range lifetimes {
		q.Buffers = append(q.Buffers, alloc.Buffer{Size: l.Bytes, First: l.First, Last: l.Last})
	}
	placed, err := alloc.Solve(context.Background(), q, alloc.Options{Effort: alloc.EffortFast})
	if err != nil {
		t.Fatal(err)
	}
	m := bare.Problem(p)
	at := make([]int, len(r.Order))
	for i, v := range r.Order {
		at[v] = i
	}
	var b strings.Builder
	fmt.Fprintf(&b, "onnxmem plan 1\nsteps %d\narena %d\npeak %d\n", len(at), placed.Arena, r.Evaluation.Peak)
	for v, before := range m.Before {
		for _, w := range before {
			fmt.Fprintf(&b, "edge %d %d\n", at[w], at[v])
		}
	}
	for i, x := range m.Tensors {
		if x.Bytes == 0 {
			continue
		}
		start, out := -1, 0
		if x.Maker >= 0 {
			start = at[x.Maker]
		}
		if x.Output {
			out = 1
		}
		fmt.Fprintf(&b, "tensor %d %d %d %d", i, x.Bytes, start, out)
		for _, v := range x.Readers {
			fmt.Fprintf(&b, " %d", at[v])
		}
		b.WriteString("\n")
	}
	for step, v := range r.Order {
		if m.Work[v] > 0 {
			fmt.Fprintf(&b, "work %d %d\n", step, m.Work[v])
		}
	}
	for _, pairs := range m.Pairs {
		for _, x := range pairs {
			fmt.Fprintf(&b, "over %d %d\n", x.Result, x.Over)
		}
	}
	for i, l := range lifetimes {
		fmt.Fprintf(&b, "buffer %d %d %d %d", placed.Offsets[i], l.Bytes, l.First, l.Last)
		for _, t := range l.Tensors {
			fmt.Fprintf(&b, " %d", t)
		}
		b.WriteString("\n")
	}
	b.WriteString("end\n")
	return b.String()
}

// checkPlain runs the checker of proofs/Plan.v, whose path is in ONNXMEM_PLAIN_CHECKER, over a
// planned problem, if it is there.
func checkPlain(t *testing.T, name string, p *schedule.Problem, r *schedule.Result) {
	t.Helper()
	checker := os.Getenv("ONNXMEM_PLAIN_CHECKER")
	if checker == "" {
		return
	}
	path := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(path, []byte(plain(t, p, r)), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(checker, path).CombinedOutput(); err != nil {
		t.Errorf("%s: %s(%v)", name, out, err)
	}
}
