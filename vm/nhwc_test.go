package vm_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// pixelNet writes a network of quantized convolutions whose images can be held in NHWC,
// but for those that the caller, a grouped convolution or a pool sees.
func pixelNet(t *testing.T) string {
	n := newNet()
	same := integers("pads", 1, 1, 1, 1)
	n.input("x", 2, 3, 9, 11)
	n.quantize("x", 0.02, 100)
	n.convolve("a", "x", 0.02, 1, attrs(same), 34, 3, 3, 3)
	n.quantize("a", 0.05, 128)
	n.convolve("d", "a", 0.05, 1, attrs(attr("group", 34), same), 34, 1, 3, 3)
	n.quantize("d", 0.1, 120)
	n.convolve("e", "d", 0.1, 1, nil, 34, 34, 1, 1)
	n.quantize("e", 0.7, 127)
	n.node("Sub", "s", "e.r", "d.r") // d.r is reals, which e quantizes again
	n.quantize("s", 0.7, 127)
	n.convolve("p", "s", 0.7, 1, nil, 6, 34, 1, 1)
	n.quantize("p", 3, 128)
	n.convolve("g", "p", 3, 1, attrs(integers("strides", 2, 2), attr("group", 2)), 8, 3, 2, 3)
	n.quantize("g", 9, 128)
	n.node("GlobalMaxPool", "m", "p.r")
	n.output("g.r", 2, 8, 4, 5)
	n.output("m", 2, 6, 1, 1)
	path := filepath.Join(t.TempDir(), "pixels.onnx")
	n.write(t, path)
	return path
}

// Quantized images are held in NHWC between convolutions and what goes through their
// elements alike, with the same results: not where another operator or the caller sees
// them.
func TestImagesHeldInNHWC(t *testing.T) {
	path := pixelNet(t)
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{2, 3, 9, 11})}
	held := []string{"a", "a.q", "a.r", "d", "d.q", "d.r", "e", "e.q", "e.r", "s", "s.q", "s.r"}
	vm.HoldNHWC(t)
	inBothLayouts(t, path, inputs, "nhwc", func(s *vm.Session, hold bool, opt vm.Options) {
		want := held
		if !hold {
			want = nil
		}
		if got := s.HeldInNHWC(); !slices.Equal(got, want) {
			t.Errorf("%+v: held in NHWC: %v, want %v", opt, got, want)
		}
	})
}

// leftOut lists a rewriter to leave out, or none if it is to run.
func leftOut(name string, runs bool) []string {
	if runs {
		return nil
	}
	return []string{name}
}

// inBothLayouts runs a model with images held in another layout and without, each in sessions
// of several kinds, which check looks at, and compares the bits of all results.
func inBothLayouts(t *testing.T, path string, inputs map[string]vm.Value, layout string, check func(s *vm.Session, hold bool, opt vm.Options)) {
	t.Helper()
	var want map[string]vm.Value
	for _, other := range []bool{false, true} {
		for _, opt := range []vm.Options{{Workers: 1}, {Workers: 3, Poison: true}, {NoPack: true}, {Separate: true}, {Guard: vm.GuardEnd}} {
			opt.Without = leftOut(layout, other)
			p, s := session(t, path, passes.Options{}, opt)
			check(s, other, opt)
			got, err := s.Run(t.Context(), inputs)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = map[string]vm.Value{}
				for name, v := range got {
					v.Data = bytes.Clone(v.Data)
					want[name] = v
				}
			}
			for name, v := range want {
				if !bytes.Equal(v.Data, got[name].Data) {
					t.Errorf("held %v, %+v: output %s has other bits", other, opt, name)
				}
			}
			if !opt.Separate {
				checkBoth(t, p, inputs, opt)
			}
		}
	}
}
