package bare_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/bare"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/proof/prooftest"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// limited plans a problem below parts of its peak.
func limited(t *testing.T, p *schedule.Problem, percents ...int64) []*budget.Plan {
	t.Helper()
	r, err := schedule.Solve(context.Background(), p, schedule.Options{Effort: schedule.EffortFast})
	if err != nil {
		t.Fatal(err)
	}
	s, err := budget.New(p, r.Orders, budget.Options{Effort: schedule.EffortFast})
	if err != nil {
		t.Fatal(err)
	}
	var limits []int64
	for _, percent := range percents {
		limits = append(limits, r.Evaluation.Peak*percent/100)
	}
	return s.Frontier(context.Background(), limits)
}

// checkExtra writes the proof of a bound on extra time and checks it.
func checkExtra(t *testing.T, name string, p *schedule.Problem, x *budget.Plan) (opb, pbp string) {
	t.Helper()
	c := bare.Extra(p, x)
	var formula, text strings.Builder
	upper, err := c.Write(&formula, &text)
	if err != nil {
		t.Errorf("%s: no proof of the %d ns below %d bytes: %v", name, x.LowerBound, x.Limit, err)
		return "", ""
	}
	opb, pbp = formula.String(), text.String()
	checkers := map[string]func() (int64, int64, error){"ours": func() (int64, int64, error) { return prooftest.Check(opb, pbp) }}
	if prooftest.Installed() != "" {
		checkers["VeriPB"] = func() (int64, int64, error) { return prooftest.VeriPB(t.TempDir(), opb, pbp) }
	}
	for who, f := range checkers {
		if from, to, err := f(); err != nil || from != x.LowerBound || to != upper || to > x.ExtraCost {
			t.Errorf("%s: %s: expected a proof of %d to %d ns, at most %d, found %d to %d (%v)", name, who, x.LowerBound, upper, x.ExtraCost, from, to, err)
		}
	}
	return opb, pbp
}

// TestExtraData: the bounds on extra time of all training steps are proven at three limits; without
// VeriPB, those of the budget problems at one.
func TestExtraData(t *testing.T) {
	files, percents, want := datafolder.Glob(t, "budget", "*.json.gz"), []int64{60}, 9
	if prooftest.Installed() != "" {
		files, percents, want = append(files, datafolder.Glob(t, "training", "*-train-*.json*")...), []int64{80, 60, 45}, 77
	}
	proven, formulas, proofs := 0, 0, 0
	for _, file := range files {
		p := read(t, file)
		for i, x := range limited(t, p, percents...) {
			if x.Feasible != budget.Found || x.LowerBound == 0 {
				continue
			}
			opb, pbp := checkExtra(t, fmt.Sprintf("%s, %d %%", filepath.Base(file), percents[i]), p, x)
			proven, formulas, proofs = proven+1, formulas+len(opb), proofs+len(pbp)
		}
	}
	t.Logf("%d bounds on extra time: formulas of %d bytes, proofs of %d", proven, formulas, proofs)
	if proven != want {
		t.Errorf("expected %d bounds, found %d", want, proven)
	}
}

// costly draws a problem with costs and nodes that run once.
func costly(seed uint64) (*rand.Rand, *schedule.Problem) {
	r := rand.New(rand.NewPCG(seed, 12))
	p := draw(r)
	for v := range p.Nodes {
		p.Nodes[v].Cost = 1 + r.Int64N(9)
		p.Nodes[v].Once = r.IntN(8) == 0
	}
	return r, p
}

// TestExtraRandom: the proven bounds of random problems are at most the least extra time of all
// sequences of runs, and a plan's is at least that. Of damaged proofs, none that is taken proves more.
func TestExtraRandom(t *testing.T) {
	proven, tight, refused := 0, 0, 0
	for seed := uint64(0); seed < 8000; seed++ {
		rnd, p := costly(seed)
		m := bare.Problem(p)
		sized := 0
		for _, x := range m.Tensors {
			if x.Bytes > 0 {
				sized++
			}
		}
		if len(p.Nodes) > 7 || sized > 10 {
			continue
		}
		x := limited(t, p, 60+rnd.Int64N(40))[0]
		if x.Feasible != budget.Found || x.LowerBound == 0 {
			continue
		}
		c := bare.Extra(p, x)
		least := prooftest.LeastAgain(m, c.Again)
		if least < x.LowerBound || least > x.ExtraCost {
			t.Fatalf("seed %d: the least extra time below %d bytes is %d ns, expected at least %d, and at most that of the plan, %d", seed, x.Limit, least, x.LowerBound, x.ExtraCost)
		}
		opb, pbp := checkExtra(t, fmt.Sprint("seed ", seed), p, x)
		if proven++; least == x.LowerBound {
			tight++
		}
		bad := spoil(rnd, pbp, func(_, kind string) bool { return kind == "pol" })
		if lower, _, err := prooftest.Check(opb, bad); err != nil {
			refused++
		} else if lower > x.LowerBound {
			t.Errorf("seed %d: a damaged proof of %d ns is taken for one of %d", seed, x.LowerBound, lower)
		}
	}
	t.Logf("%d bounds are proven, %d are the least extra time; %d damaged proofs are refused", proven, tight, refused)
	if proven < 50 || refused < proven/2 {
		t.Errorf("%d bounds are proven, expected 50; of damaged proofs, %d are refused, expected half", proven, refused)
	}
}
