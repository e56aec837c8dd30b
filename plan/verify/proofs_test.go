package verify_test

import (
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/proof/prooftest"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestProofsOfUncheckedBounds: a bound that was not checked has no proof, and neither has one of
// a plan that is not valid.
func TestProofsOfUncheckedBounds(t *testing.T) {
	_, file, p := planReal(t, classifier, passes.Options{Dims: map[string]int64{"batch": 3}})
	dir := filepath.Join(t.TempDir(), "proofs")
	opt := verify.Options{SkipAnnotations: true, Proofs: dir, ProofName: "x"}
	files := func(want int) {
		t.Helper()
		if found, err := filepath.Glob(filepath.Join(dir, "x.order.*")); err != nil || len(found) != want {
			t.Errorf("expected %d files, found %v, %v", want, found, err)
		}
	}
	r, err := verify.Plan(parse(t, file), p, opt)
	if err != nil || !r.Valid || r.Proofs[0].Bytes != p.Summary.LowerBoundBytes {
		t.Fatalf("expected a proof of %d bytes, found %v, %v", p.Summary.LowerBoundBytes, r, err)
	}
	files(2)
	unchecked := opt
	unchecked.SkipBounds = true
	r, err = verify.Plan(parse(t, file), p, unchecked)
	if want := (verify.Proof{Claim: "order", Refused: "its bound was not checked"}); err != nil || r.Proofs[0] != want {
		t.Errorf("expected %+v, found %+v, %v", want, r.Proofs, err)
	}
	files(0)
	if _, err := verify.Plan(parse(t, file), p, opt); err != nil {
		t.Fatal(err)
	}
	files(2)
	p.Summary.PeakBytes++
	if r, err := verify.Plan(parse(t, file), p, opt); err != nil || r.Valid || len(r.Proofs) > 0 {
		t.Errorf("expected a plan that is not valid, found %v, %v", r, err)
	}
	files(0)
}

// TestProofsHaveTheLoads: at no step of the plan's order, the load of the model of which proofs
// speak is above that of the core. Of steps of training, too, where results are written over
// parameters and states; there and elsewhere it has the peak.
func TestProofsHaveTheLoads(t *testing.T) {
	written := 0
	for _, optimizer := range []string{"", "sgd", "momentum", "adam"} {
		for _, x := range []text{classifier, trainedJoin} {
			opt := passes.Options{}
			if optimizer != "" {
				opt.Train = &autodiff.Options{Loss: "mse", Optimizer: optimizer}
			}
			_, file, p := planReal(t, x, opt)
			m, order, loads := verify.Modelled(t, parse(t, file), p)
			ran := make([]bool, len(order))
			written += len(m.Written)
			peak, most := int64(0), int64(0)
			for step, v := range order {
				load := prooftest.Load(m, ran, v)
				if ran[v] = true; load > loads[step] {
					t.Errorf("%s: step %d: expected a load of at most %d, found %d", optimizer, step, loads[step], load)
				}
				peak, most = max(peak, loads[step]), max(most, load)
			}
			if most != peak {
				t.Errorf("%s: expected the peak %d, found %d", optimizer, peak, most)
			}
		}
	}
	if written == 0 {
		t.Error("nothing is written over a parameter")
	}
}
