package costs_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/passes/internal/costs"
)

func modelOf(d passes.Device) costs.Device {
	return costs.Device{FLOPS: d.FLOPS, Bandwidth: d.Bandwidth, Kind: costs.Kind(d.Kind)}
}

// A product in slices takes longer than whole: on a core because each slice reads the
// weights from memory, on a GPU because there are fewer tiles than processors.
func TestCostsOfSlices(t *testing.T) {
	rows := func(m float64) cost.Work {
		return cost.Work{FLOPs: 2 * 768 * 3072 * m, Bytes: 4 * (768 + 3072) * m, Weights: 4 * 768 * 3072, Batch: 1, Rows: m, Columns: 3072}
	}
	for _, c := range []struct {
		device      string
		least, most float64 // extra time of 7 slices of 28 rows
	}{
		{"cpu", 0.2, 0.4}, // measured: 7 * 0.754 / 4.23 ms, see docs/formats/costs.md
		{"gpu", 0.1, 0.9},
		{"roofline", 0.5, 0.7}, // 28 rows take as long as the weights
	} {
		d := modelOf(passes.Devices[c.device])
		if extra := 7*float64(d.Of(rows(28)))/float64(d.Of(rows(196))) - 1; extra < c.least || extra > c.most {
			t.Errorf("%s: %.3f more time in slices, expected from %v to %v", c.device, extra, c.least, c.most)
		}
	}
}

// Less work never takes longer.
func TestCostsGrow(t *testing.T) {
	small := cost.Work{FLOPs: 1e6, Bytes: 1e4, Weights: 1e4, Batch: 1, Rows: 16, Columns: 16}
	for name, device := range passes.Devices {
		d := modelOf(device)
		for _, larger := range []func(*cost.Work){
			func(w *cost.Work) { w.FLOPs *= 2 },
			func(w *cost.Work) { w.Bytes *= 100 },
			func(w *cost.Work) { w.Weights *= 100 },
			func(w *cost.Work) { w.Planes = 100 },
			func(w *cost.Work) { w.FLOPs, w.Rows = 64*w.FLOPs, 64*w.Rows },
			func(w *cost.Work) { w.FLOPs, w.Columns = 64*w.FLOPs, 64*w.Columns },
		} {
			w := small
			larger(&w)
			if name == "gpu" && w.Planes > 0 { // no product in tiles, then
				continue
			}
			if d.Of(w) < d.Of(small) {
				t.Errorf("%s: %+v takes %d ns, less than %+v with %d", name, w, d.Of(w), small, d.Of(small))
			}
		}
	}
	if got := modelOf(passes.OneCore).Of(cost.Work{}); got != 800 {
		t.Errorf("nothing takes %d ns", got)
	}
}
