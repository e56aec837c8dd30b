package limits

import (
	"reflect"
	"testing"

	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// Regions are estimated once for all windows that are the same, such as those of repeated
// layers. They are those that are found if each window is estimated by itself, and far fewer
// windows are looked at.
func TestRepeatedWindows(t *testing.T) {
	layers := map[string]string{"layers": "8"}
	for _, c := range []struct {
		network string
		set     map[string]string
		dims    map[string]int64
		sums    bool
		share   float64 // of the windows, that are looked at
	}{
		{network: "bert", dims: map[string]int64{"batch": 1, "sequence": 64}, set: layers, share: 0.5},
		{network: "bert", dims: map[string]int64{"batch": 2, "sequence": 32}, set: map[string]string{"layers": "4"}, sums: true, share: 0.9},
		{network: "resnet18", dims: map[string]int64{"batch": 2}, share: 1},
	} {
		t.Run(c.network, func(t *testing.T) {
			m, err := models.Build(c.network, models.Options{Dims: c.dims, Set: c.set})
			if err != nil {
				t.Fatal(err)
			}
			x := slicerOf(t, m, c.sums)
			alone := slicing.NewSearch(x.program(), windowReach)
			alone.Distinct = true
			found := 0
			for _, apart := range []bool{false, true} {
				for _, part := range []int64{12, 5} {
					target := x.base.Main.Loads.Peak * part / 16
					want, _, _, _ := alone.Cover(t.Context(), target, target, apart)
					got, _, _, _ := x.search.Cover(t.Context(), target, target, apart)
					if !reflect.DeepEqual(want, got) {
						t.Errorf("apart %v, below %d bytes: regions differ from those of distinct windows: %d, expected %d", apart, target, len(got), len(want))
					}
					found += len(got)
				}
			}
			if found == 0 {
				t.Error("no regions were found")
			}
			all, _ := alone.Windows()
			looked, _ := x.search.Windows()
			t.Logf("%d of %d windows", looked, all)
			if float64(looked) > c.share*float64(all) {
				t.Errorf("%d of %d windows were looked at, expected at most %g of them", looked, all, c.share)
			}
		})
	}
}
