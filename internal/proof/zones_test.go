package proof_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/internal/proof/prooftest"
	"github.com/onnxmem/onnxmem/internal/proof/zones"
	sweeps "github.com/onnxmem/onnxmem/internal/sweep"
)

// writeZones writes the proof of a bound by zones.
func writeZones(p *model.Problem, bound int64, order []int32) (w written, n int, err error) {
	list, err := zones.Find(p, order, bound, 1000, nil)
	if err != nil {
		return w, 0, err
	}
	var opb, pbp strings.Builder
	w.lower = bound
	w.upper, err = proof.Write(&opb, &pbp, p, model.EncodeZones(p, list), bound, order)
	w.opb, w.pbp = opb.String(), pbp.String()
	return w, len(list), err
}

// problem is a random problem with an order, and the least peak of all orders, found by going
// through all states.
func problem(seed uint64) (r *rand.Rand, p *model.Problem, o []int32, peak int64) {
	r = rand.New(rand.NewPCG(seed, 8))
	p = draw(r, 9)
	peak, _ = prooftest.Optimum(p, nil, false)
	return r, p, order(r, p), peak
}

// TestZones: the least peak of random problems is proven by zones, whatever it takes, inputs that
// nobody reads included: one byte more is not. The values that go with an order keep all constraints.
func TestZones(t *testing.T) {
	seeds, most, many := uint64(40), 0, 0
	if sweeps.On() {
		seeds = 400
	}
	for seed := range seeds {
		_, p, o, peak := problem(seed)
		w, n, err := writeZones(p, peak, o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if n > 1 {
			many++
		}
		most = max(most, n)
		if lower, upper, err := prooftest.Check(w.opb, w.pbp); err != nil || lower != peak || upper != w.upper {
			t.Fatalf("seed %d: expected a proof of %d, found %d to %d (%v)\n%s%s", seed, peak, lower, upper, err, w.opb, w.pbp)
		}
		if _, _, err := writeZones(p, peak+1, o); err == nil {
			t.Errorf("seed %d: a proof of one byte more than %d", seed, peak)
		}
	}
	if sweeps.On() && (many < 60 || most < 8) {
		t.Errorf("%d problems have several zones, at most %d: expected 60, and one with 8", many, most)
	}
	if many == 0 {
		t.Error("no problem has several zones")
	}
}

// TestZonesDamaged: proofs by zones that are changed in one place are refused, or prove no more
// than the right one.
func TestZonesDamaged(t *testing.T) {
	refused, byVeriPB, asked := 0, 0, 0
	for seed := range uint64(100) {
		r, p, o, peak := problem(seed)
		w, _, err := writeZones(p, peak, o)
		if err != nil {
			t.Fatal(err)
		}
		bad := damage(r, w.pbp)
		judge := func(who string, lower, upper int64, err error) int {
			if err != nil {
				return 1
			}
			if lower > peak {
				t.Errorf("seed %d: %s takes a damaged proof of %d to %d, expected at most %d", seed, who, lower, upper, peak)
			}
			return 0
		}
		lower, upper, err := prooftest.Check(w.opb, bad)
		refused += judge("our checker", lower, upper, err)
		if prooftest.Installed() == "" || asked >= 40 {
			continue
		}
		asked++
		if lower, upper, err = prooftest.VeriPB(t.TempDir(), w.opb, w.pbp); err != nil || lower != peak {
			t.Errorf("seed %d: VeriPB finds %d to %d, expected a proof of %d (%v)", seed, lower, upper, peak, err)
		}
		lower, upper, err = prooftest.VeriPB(t.TempDir(), w.opb, bad)
		byVeriPB += judge("VeriPB", lower, upper, err)
	}
	t.Logf("refused: %d of 100, %d of %d by VeriPB", refused, byVeriPB, asked)
	if refused < 70 || byVeriPB < asked*7/10 {
		t.Errorf("%d of 100 damaged proofs are refused, %d of %d by VeriPB: expected 70 %%", refused, byVeriPB, asked)
	}
}

// TestZonesMustLead: zones without the first state, or with the last, have no formula.
func TestZonesMustLead(t *testing.T) {
	p := &model.Problem{Before: [][]int32{nil, {0}}, Work: []int64{4, 8}, Pairs: make([][]model.Pair, 2)}
	for _, list := range [][]model.Zone{nil, {{In: []int32{0}, Out: []int32{1}}}, {{Out: []int32{1}}, {In: []int32{0}}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v: expected a panic", list)
				}
			}()
			model.EncodeZones(p, list)
		}()
	}
}
