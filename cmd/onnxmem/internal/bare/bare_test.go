package bare_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/bare"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/proof/prooftest"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/schedule"
)

// check writes the proof of a problem's bound and checks it. It returns what the certificate
// is; refused, if there is no proof.
func check(t *testing.T, name string, p *schedule.Problem) (r *schedule.Result, kind, refused string) {
	t.Helper()
	r, err := schedule.Solve(context.Background(), p, schedule.Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	c := bare.Claim(p, r)
	if c.Refused != "" {
		return r, "", c.Refused
	}
	var opb, pbp strings.Builder
	upper, err := c.Write(&opb, &pbp)
	if err != nil {
		return r, "", err.Error()
	}
	switch kind = "set"; {
	case c.Formula.Zones != nil:
		kind = "search"
	case len(c.Formula.Set) == 1:
		kind = "cut"
	}
	checkers := map[string]func() (int64, int64, error){
		"ours": func() (int64, int64, error) { return prooftest.Check(opb.String(), pbp.String()) },
	}
	if prooftest.Installed() != "" {
		checkers["VeriPB"] = func() (int64, int64, error) { return prooftest.VeriPB(t.TempDir(), opb.String(), pbp.String()) }
	}
	for who, f := range checkers {
		if from, to, err := f(); err != nil || from != r.Bound || to != upper {
			t.Errorf("%s: %s: expected a proof of %d to %d, found %d to %d (%v)", name, who, r.Bound, upper, from, to, err)
		}
	}
	if r.Optimal && upper > r.Bound {
		t.Logf("%s: the order has %d bytes at the step, above the bound %d", name, upper, r.Bound)
	}
	return r, kind, ""
}

// read returns the problem of a file.
func read(t *testing.T, file string) *schedule.Problem {
	t.Helper()
	f, err := readable.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := schedule.ReadProblem(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTraining: the bounds of all training problems are proven; that of one rests on a search. The
// checker of plans accepts all of them.
func TestTraining(t *testing.T) {
	count := map[string]int{}
	for _, file := range append(datafolder.Glob(t, "training", "*.json*"), datafolder.Glob(t, "budget", "*.json.gz")...) {
		p := read(t, file)
		r, kind, refused := check(t, filepath.Base(file), p)
		checkPlain(t, filepath.Base(file), p, r, refused)
		if refused != "" {
			t.Errorf("%s: no proof: %s", file, refused)
		}
		count[kind]++
	}
	if got := fmt.Sprint(count); got != "map[cut:55 search:1 set:5]" {
		t.Errorf("expected 55 cuts, 5 sets and a search, found %s", got)
	}
}

// TestOpenOrders: bounds of networks whose search was long are proven by zones.
func TestOpenOrders(t *testing.T) {
	if prooftest.Installed() == "" {
		t.Skip("for VeriPB alone: ours takes long")
	}
	count := map[string]int{}
	for _, file := range datafolder.Glob(t, "open-orders", "ultralytics*.json.gz") {
		p := read(t, file)
		r, kind, refused := check(t, filepath.Base(file), p)
		checkPlain(t, filepath.Base(file), p, r, refused)
		if refused != "" {
			t.Errorf("%s: no proof: %s", file, refused)
		}
		count[kind]++
	}
	if count["search"] != 2 {
		t.Errorf("expected 2 by zones, found %v", count)
	}
}

// draw draws a problem of 1 to 9 nodes, with pairs, workspaces, unread tensors and outputs.
func draw(r *rand.Rand) *schedule.Problem {
	n := 1 + r.IntN(9)
	p := &schedule.Problem{Nodes: make([]schedule.Node, n)}
	for v := -2; v < n; v++ {
		for range 1 + r.IntN(2) {
			x := schedule.Tensor{Bytes: 5 * r.Int64N(4), Producer: int32(max(v, -1)), Output: r.IntN(10) == 0, Resident: r.IntN(15) == 0}
			for range r.IntN(4) {
				if from := max(v+1, 0); from < n {
					x.Consumers = append(x.Consumers, int32(from+r.IntN(n-from)))
				}
			}
			for o := range p.Tensors {
				if v >= 0 && slices.Contains(p.Tensors[o].Consumers, int32(v)) && r.IntN(2) == 0 {
					x.Reuses = append(x.Reuses, int32(o))
				}
			}
			p.Tensors = append(p.Tensors, x)
		}
		if v >= 0 && r.IntN(4) == 0 {
			p.Nodes[v].Workspace = r.Int64N(12)
		}
	}
	return p
}

// TestRandom: of 500 random problems, each proof's bound is the optimum or below it, the
// optimum being that of all states. The conversion has the loads of the planner.
func TestRandom(t *testing.T) {
	proven := 0
	for seed := range uint64(500) {
		p := draw(rand.New(rand.NewPCG(seed, 11)))
		name := fmt.Sprint("seed ", seed)
		r, _, refused := check(t, name, p)
		checkPlain(t, name, p, r, refused)
		if refused != "" {
			t.Logf("%s: %s", name, refused)
			continue
		}
		m := bare.Problem(p)
		peak, _ := prooftest.Optimum(m, nil, false)
		if r.Bound > peak || r.Optimal && r.Bound != peak {
			t.Errorf("%s: a proof of %d, expected at most the optimum %d", name, r.Bound, peak)
		}
		proven++
		ran := make([]bool, len(p.Nodes))
		most := int64(0)
		for _, v := range r.Order {
			most = max(most, prooftest.Load(m, ran, v))
			ran[v] = true
		}
		if most != r.Evaluation.Peak {
			t.Errorf("%s: the order has a peak of %d, expected %d", name, most, r.Evaluation.Peak)
		}
	}
	if proven < 500 {
		t.Errorf("%d of 500 proven, expected all", proven)
	}
}
