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
	const channels, h, regions, rows, columns = 3, 6, 40, 2, 3
	for _, ratio := range []int64{0, 1, 3} {
		for _, mode := range []string{"avg", "max"} {
			for i, version := range []int64{10, 16, 10, 16} {
				w := []int{9, 70}[i/2]
				image, rois := floats(1, channels, h, w), floats(regions, 4)
				for i := range data[float32](image) {
					data[float32](image)[i] = draw.Float32()*2 - 1
				}
				for i := range data[float32](rois) {
					data[float32](rois)[i] = (draw.Float32()*2 - 1) * []float32{5, 20, 300}[i/4%3]
					if i/4%4 == 3 { // inside
						data[float32](rois)[i] = []float32{0.1, 0.2, 0.9, 0.8}[i%4] * draw.Float32() * float32([]int{w, h}[i%2])
					}
				}
				out := floats(regions, channels, rows, columns)
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
					for i := range channels * rows * columns {
						plane := data[float32](image)[i/(rows*columns)*h*w:][:h*w]
						got, want := data[float32](out)[r*channels*rows*columns+i], everySample(v, r, i%(rows*columns), plane, h, w)
						if got != want {
							t.Fatalf("ratio %d, mode %s, opset %d, width %d, region %v, bin %d: got %v, want %v",
								ratio, mode, version, w, data[float32](rois)[4*r:4*r+4], i, got, want)
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
