package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// everySample computes a bin of a region from all its samples: those outside of the image
// count as 0.
func everySample(v *roiAlign, r, bin int, plane []float32, h, w int) float32 {
	high, wide := v.axes(r)
	n := int(high.samples) * int(wide.samples)
	if n == 0 {
		return 0
	}
	sum, best := float32(0), float32(0)
	for k := range n {
		s := sampleAt(h, w, high.at(bin/v.columns, k/int(wide.samples)), wide.at(bin%v.columns, k%int(wide.samples)))
		sum += plane[s.at[0]]*s.weight[0] + plane[s.at[1]]*s.weight[1] + plane[s.at[2]]*s.weight[2] + plane[s.at[3]]*s.weight[3]
		for i, at := range s.at {
			if x := plane[at] * s.weight[i]; k == 0 && i == 0 || x > best {
				best = x
			}
		}
	}
	if v.largest {
		return best
	}
	return sum / float32(n)
}

// RoiAlign reads only the samples that lie in the image, and gives the result of all
// samples: for regions inside the image, far larger than it, beside it, and upside down.
func TestRoiAlignLeavesOutWhatIsOutside(t *testing.T) {
	draw := rand.New(rand.NewPCG(7, 7))
	const h, w, regions, rows, columns = 6, 9, 40, 2, 3
	for _, ratio := range []int64{0, 1, 3} {
		for _, mode := range []string{"avg", "max"} {
			for _, version := range []int64{10, 16} {
				image, rois := floats(1, 1, h, w), floats(regions, 4)
				for i := range data[float32](image) {
					data[float32](image)[i] = draw.Float32()*2 - 1
				}
				for i := range data[float32](rois) {
					data[float32](rois)[i] = (draw.Float32()*2 - 1) * []float32{5, 20, 300}[i/4%3]
				}
				out := floats(regions, 1, rows, columns)
				s := &stoppable{call: &Invocation{Call: form.Call{
					Node: &graph.Node{Op: "RoiAlign", Attrs: attrs(whole1("sampling_ratio", ratio), text("mode", mode), whole1("output_height", rows), whole1("output_width", columns))},
					In:   tensors(image, rois, whole64(regions)), Out: tensors(out), Version: version,
				}}}
				if err := s.prepare(); err != nil {
					t.Fatal(err)
				}
				if _, err := s.begin(0); err != nil {
					t.Fatal(err)
				}
				v := &roiAlign{c: s.call, largest: mode == "max", rows: rows, columns: columns, ratio: int(ratio), scale: 1, shift: 0.5, minimum: -1e30}
				if version == 10 {
					v.shift, v.minimum = 0, 1
				}
				for r := range regions {
					for bin := range rows * columns {
						got, want := data[float32](out)[r*rows*columns+bin], everySample(v, r, bin, data[float32](image), h, w)
						if got != want {
							t.Fatalf("ratio %d, mode %s, opset %d, region %v, bin %d: got %v, want %v",
								ratio, mode, version, data[float32](rois)[4*r:4*r+4], bin, got, want)
						}
					}
				}
				s.pool.Close()
			}
		}
	}
}

// region returns one region of MaxRoiPool.
func region(v ...float32) *Tensor {
	t := floats(1, 5)
	copy(data[float32](t), v)
	return t
}
