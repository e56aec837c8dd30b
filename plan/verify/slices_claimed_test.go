package verify_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestClaimedOperators: the report names the operators of slices of which the verifier does not
// know the rows. Their plans are valid, and their slices claimed.
func TestClaimedOperators(t *testing.T) {
	named := 0
	for i := range slicedTexts {
		x := planSliced(t, i)
		operators := map[string]string{} // with their domains
		for _, n := range parse(t, x.source).Graph.Nodes {
			operators[plan.OpName(n)] = n.Op
		}
		for op, name := range operators {
			t.Run(slicedTexts[i].name+"/"+op, func(t *testing.T) {
				verify.ForgetRows(t, name)
				r, err := verify.Plan(parse(t, x.file), x.p, verify.Options{Source: parse(t, x.source)})
				if err != nil || !r.Valid {
					t.Fatalf("error %v, %v", err, r)
				}
				claimed := slices.Contains(r.Claimed, "slices")
				if len(r.ClaimedOperators) > 0 != claimed || claimed && !slices.Equal(r.ClaimedOperators, []string{op}) {
					t.Errorf("claimed: %v, operators %v, expected %s", r.Claimed, r.ClaimedOperators, op)
				}
				if claimed {
					named++
				}
			})
		}
	}
	if named < 30 {
		t.Errorf("%d operators were named: too few are tested", named)
	}
}
