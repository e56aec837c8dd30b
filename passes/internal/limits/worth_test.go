package limits

import (
	"fmt"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// encoder returns a slicer of BERT with small tensors and that many layers.
func encoder(t *testing.T, layers int) *slicer {
	t.Helper()
	m, err := models.Build("bert", models.Options{
		Dims: map[string]int64{"batch": 1, "sequence": 64},
		Set:  map[string]string{"layers": fmt.Sprint(layers), "hidden": "64", "heads": "2", "ff": "256", "vocab": "16", "positions": "64"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return slicerOf(t, m, false)
}

// extra is the estimated time of regions, and whether there are some.
func extra(t *testing.T, s *slicing.Search, target int64) (ns float64, found bool) {
	t.Helper()
	list, _, _, ok := s.Cover(t.Context(), target, target, false)
	for _, q := range list {
		ns += q.Extra
	}
	return ns, ok
}

// Windows that are not worth a look have no better regions than the others.
func TestWindowsWorthALook(t *testing.T) {
	for _, network := range []string{"googlenet", "vit_b_16"} {
		t.Run(network, func(t *testing.T) {
			m, err := models.Build(network, models.Options{Dims: map[string]int64{"batch": 1}})
			if err != nil {
				t.Fatal(err)
			}
			x := slicerOf(t, m, false)
			every := slicing.NewSearch(x.program(), windowReach).All()
			found := 0
			for part := int64(14); part > 4; part -= 3 {
				target := x.base.Main.Loads.Peak * part / 16
				want, some := extra(t, every, target)
				got, ok := extra(t, x.search, target)
				if ok != some || got != want {
					t.Errorf("below %d bytes: %v ns (found: %t), expected %v (%t)", target, got, ok, want, some)
				}
				if ok {
					found++
				}
			}
			_, looked := x.search.Windows()
			if _, all := every.Windows(); looked >= all {
				t.Errorf("%d regions were estimated of %d, expected fewer", looked, all)
			}
			if found == 0 {
				t.Error("no regions were found")
			}
		})
	}
}

// Twice as many layers do not need twice as many estimates, and in a large graph windows that begin
// or end where others need as much are left out, for little more time.
func TestEstimatesOfManyLayers(t *testing.T) {
	looked := map[int]int{}
	for _, layers := range []int{12, 24, 64} {
		x := encoder(t, layers)
		target := x.base.Main.Loads.Peak * 10 / 16
		got, ok := extra(t, x.search, target)
		_, looked[layers] = x.search.Windows()
		t.Logf("%d layers, %d nodes: %d regions", layers, len(x.base.Main.G.Nodes), looked[layers])
		if !ok {
			t.Fatalf("%d layers: no regions below %d bytes", layers, target)
		}
		if len(x.base.Main.G.Nodes) < slicing.LargeNodes {
			continue
		}
		want, _ := extra(t, slicing.NewSearch(x.program(), windowReach).All(), target)
		if got > 1.02*want {
			t.Errorf("%d layers: %v ns, expected at most 2 %% more than %v, of all windows", layers, got, want)
		}
	}
	if looked[24] > looked[12]*5/4 {
		t.Errorf("%d regions of 24 layers, %d of 12: expected at most a quarter more", looked[24], looked[12])
	}
	if looked[64] > looked[24]/2 {
		t.Errorf("%d regions of 64 layers, %d of 24: expected at most half in the larger graph", looked[64], looked[24])
	}
}

// Below the bytes of the outputs nothing is estimated.
func TestNoRegionsBelowOutputs(t *testing.T) {
	x := slicerOf(t, images(t, 8, 5, 16), false)
	const output = 8 * 16 * 16 * 4
	_, _, _, ok := x.search.Cover(t.Context(), output-1, output-1, true)
	if windows, _ := x.search.Windows(); ok || windows > 0 {
		t.Errorf("below %d bytes of output: found: %t, %d windows were looked at: expected none", output, ok, windows)
	}
}

// A region that runs apart is another one than that which runs slice by slice.
func TestModelsOfRegionsApart(t *testing.T) {
	x := slicerOf(t, images(t, 8, 5, 16), false)
	pick := slicing.Pick{Start: 0, End: 2, Seed: 2, Slices: 8, Nodes: 3}
	apart := pick
	apart.Apart = true
	one, err := x.model(t.Context(), &cover{choices: []*slicing.Pick{&pick}})
	if err != nil {
		t.Fatal(err)
	}
	two, err := x.model(t.Context(), &cover{choices: []*slicing.Pick{&apart}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := x.model(t.Context(), &cover{choices: []*slicing.Pick{&pick}})
	if err != nil {
		t.Fatal(err)
	}
	if one == two || one != again {
		t.Errorf("the same model apart: %t, asked for twice: %t: expected only the second", one == two, one == again)
	}
}

// A large graph has windows within a run of equal boundaries that is longer than a window, too: a
// chain of convolutions needs a tensor and a half.
func TestWindowsOfLongChains(t *testing.T) {
	const channels, size = 4, 256
	for _, pairs := range []int{slicing.LargeNodes/2 - 3, slicing.LargeNodes / 2} {
		b := graph.NewBuilder("chain", 17)
		conv := func(name string, in graph.TensorID, from, kernel int64) graph.TensorID {
			w := b.Floats(name+".weight", []int64{channels, from, kernel, kernel}, make([]float32, channels*from*kernel*kernel))
			pad := kernel / 2
			return b.Add(&graph.Node{Name: name, Op: "Conv", Inputs: []graph.TensorID{in, w}, Attrs: []*graph.Attr{{Name: "pads", Type: graph.AttrInts, Ints: []int64{pad, pad, pad, pad}}}}, name)[0]
		}
		y := conv("first", b.Input("x", graph.TensorOf(graph.Float32, 1, 1, size, size)), 1, 1)
		for i := range pairs {
			y = b.Node("Relu", fmt.Sprint("relu", i), conv(fmt.Sprint("conv", i), y, channels, 3))
		}
		b.Output(b.Node("GlobalAveragePool", "pool", y))
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		x := slicerOf(t, m, false)
		got, ok := extra(t, x.search, channels*size*size*4*3/2)
		windows, _ := x.search.Windows()
		t.Logf("%d convolutions: %.3g of %.3g ns more, %d windows", pairs, got, x.time, windows)
		if !ok {
			t.Errorf("%d convolutions: no regions in a tensor and a half", pairs)
		}
	}
}
