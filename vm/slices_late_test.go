package vm_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// A convolution whose slices read rows of their neighbours writes its output over its input all the
// same: each slice takes its rows before the slice before it writes. So an image takes little more
// than its own bytes, where the input and the output took twice as many; and the bits are the same.
func TestSlicesOverNeighbours(t *testing.T) {
	const channels, size, tensor = 8, 32, 8 * 32 * 32 * 4
	b := graph.NewBuilder("neighbours", 17)
	conv := func(name string, in graph.TensorID, from, kernel int64) graph.TensorID {
		values := make([]float32, channels*from*kernel*kernel)
		for i := range values {
			values[i] = float32(i*7%13-6) / 16
		}
		w := b.Floats(name+".weight", []int64{channels, from, kernel, kernel}, values)
		pad := kernel / 2
		return b.Add(&graph.Node{Name: name, Op: "Conv", Inputs: []graph.TensorID{in, w}, Attrs: []*graph.Attr{{Name: "pads", Type: graph.AttrInts, Ints: []int64{pad, pad, pad, pad}}}}, name)[0]
	}
	ones := b.Floats("ones", []int64{channels}, []float32{1, 1, 1, 1, 1, 1, 1, 1})
	norm := func(name string, in graph.TensorID) graph.TensorID { // in slices of channels, but not of rows
		return b.Node("InstanceNormalization", name, in, ones, ones)
	}
	y := norm("first", conv("one", b.Input("x", graph.TensorOf(graph.Float32, 1, 1, size, size)), 1, 1))
	y = norm("second", conv("three", y, channels, 3))
	y = norm("third", conv("five", y, channels, 5))
	b.Output(b.Node("GlobalAveragePool", "pool", y))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	whole, r := programOf(t, m, passes.Options{})
	if peak := r.Plan.Summary.PeakBytes; peak != 2*tensor {
		t.Fatalf("peak %d whole: expected %d", peak, 2*tensor)
	}
	inputs := inputsOf(whole)
	want, _ := runSteps(t, whole, vm.Options{}, nil, 1)
	for _, compact := range []bool{false, true} {
		sliced, r := programOf(t, m, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Bytes: tensor * 3 / 2}, Compact: compact})
		over := 0
		for _, region := range r.Plan.Slices.Regions {
			if axis := region.Outputs[0].Axis; region.Outputs[0].Over != "" && axis != nil && *axis >= 2 {
				over++
			}
		}
		if peak := r.Plan.Summary.PeakBytes; over == 0 || peak > tensor*3/2 {
			t.Errorf("compact %t: %d outputs whose rows are over those of inputs, peak %d: expected some, and at most %d", compact, over, peak, tensor*3/2)
		}
		got, _ := runSteps(t, sliced, vm.Options{}, nil, 1)
		sameBits(t, "over neighbours", got, want)
		check, err := sliced.CheckRun(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Poison: true})
		if err != nil || !check.Identical() {
			t.Errorf("compact %t: planned and apart: %+v, %v", compact, check, err)
		}
	}
}
