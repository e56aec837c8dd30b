package proof_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/internal/proof/prooftest"
)

// TestTraffic: what random prices give is proven, and one byte more is not.
func TestTraffic(t *testing.T) {
	proven := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 13))
		x := &proof.Traffic{Capacity: r.Int64N(20)}
		for step := range 6 {
			if r.IntN(2) == 0 {
				x.Steps, x.Prices = append(x.Steps, step), append(x.Prices, 1+r.Int64N(2))
			}
		}
		bound := int64(0)
		for _, p := range x.Prices {
			bound -= p * x.Capacity
		}
		for range 1 + r.IntN(6) {
			s := model.Stay{From: r.IntN(5) - 1, Bytes: 1 + r.Int64N(30), Cost: 1 + r.Int64N(2)}
			s.To = s.From + 1 + r.IntN(3)
			worth := int64(0)
			for k, step := range x.Steps {
				if s.From < step && step <= s.To {
					worth += x.Prices[k]
				}
			}
			x.Stays, bound = append(x.Stays, s), bound+s.Bytes*min(worth, s.Cost)
		}
		if bound <= 0 {
			continue
		}
		proven++
		for more := range int64(2) {
			var opb, pbp strings.Builder
			c := proof.TrafficOf(x, bound+more)
			if _, err := c.Write(&opb, &pbp); err != nil {
				t.Fatal(err)
			}
			lower, _, err := prooftest.Check(opb.String(), pbp.String())
			if right := err == nil && lower == bound; right != (more == 0) {
				t.Errorf("seed %d: %d bytes of traffic are proven; of %d more, found %d (%v)", seed, bound, more, lower, err)
			}
			if prooftest.Installed() != "" && proven <= 20 && more == 0 {
				if lower, _, err := prooftest.VeriPB(t.TempDir(), opb.String(), pbp.String()); err != nil || lower != bound {
					t.Errorf("seed %d: VeriPB: expected a proof of %d, found %d (%v)", seed, bound, lower, err)
				}
			}
		}
	}
	if proven < 50 {
		t.Errorf("%d bounds are above 0: expected 50", proven)
	}
}
