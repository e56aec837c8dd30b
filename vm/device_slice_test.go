package vm_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// TestDeviceSlices: the rows that Scan and Loop hand to and take from their bodies stay on
// the device: a run copies its inputs and outputs between the memories, and nothing for the
// rows.
func TestDeviceSlices(t *testing.T) {
	d, f := onDevice(t)
	const rows, width = 12, 8
	for _, c := range []struct {
		doc  string
		text graphText
		most int64 // bytes that a run copies
	}{
		{"scan along axis 0", graphText{
			"in s float32[8]\nin x float32[12,8]\nr = LpNormalization(x)\nt, y = Scan(s, r) num_scan_inputs=1\nz = LpNormalization(y)\nout t\nout z",
			map[string]string{"t.body": "in a float32[8]\nin b float32[8]\nc = Add(a, b)\ne = LpNormalization(c)\nout c\nout e"},
		}, 2 * 4 * (rows*width + width)},
		{"scan along other axes, backwards", graphText{
			"in s float32[12]\nin x float32[12,8]\nr = LpNormalization(x)\nt, y = Scan(s, r) num_scan_inputs=1 scan_input_axes=[1] scan_output_axes=[1] scan_input_directions=[1] scan_output_directions=[1]\nz = LpNormalization(y)\nout t\nout z",
			map[string]string{"t.body": "in a float32[12]\nin b float32[12]\nc = Add(a, b)\ne = LpNormalization(c)\nout c\nout e"},
		}, 2 * 4 * (rows*width + rows)},
		{"loop", graphText{
			"in s float32[8]\nm = Constant() value_int=12\nt, y = Loop(m, _, s)\nz = LpNormalization(y)\nout t\nout z",
			map[string]string{"t.body": "in i int64[]\nin k bool[]\nin a float32[8]\nkk = Identity(k)\ne = LpNormalization(a)\nf = Add(e, a)\nout kk\nout f\nout e"},
		}, 4 * (rows*width + 2*width)},
	} {
		t.Run(c.doc, func(t *testing.T) {
			p, err := planGraph(c.text.graph(c.text.main), []graph.Opset{{Version: 21}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			inputs := map[string]vm.Value{}
			for _, in := range p.Inputs() {
				inputs[in.Name] = ramp(in.Type.Shape)
			}
			s, host := newSession(t, p, vm.Options{Device: d}), newSession(t, p, vm.Options{})
			want, err := host.Run(t.Context(), inputs)
			if err != nil {
				t.Fatal(err)
			}
			for _, mode := range modes {
				if f != nil {
					f.Mode(mode)
				}
				got, err := s.Run(t.Context(), inputs)
				if err != nil {
					t.Fatal(err)
				}
				nearly(t, got, want, 2e-6)
			}
			if u := s.DeviceUse(); u.FallbackBytes > c.most {
				t.Errorf("a run copies %d bytes, expected at most %d: %+v", u.FallbackBytes, c.most, u)
			}
		})
	}
}
