package vm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

func TestTensorReadsBack(t *testing.T) {
	for _, v := range []vm.Value{
		vm.Float32s([]float32{1, -2.5, 3, 4, 5, 6}, 2, 3),
		vm.Float32s([]float32{7}),
		vm.Int64s([]int64{-1, 1 << 40}, 2),
		{Type: graph.Bool, Shape: []int{1, 2}, Data: []byte{0, 1}},
		{Type: graph.Float16, Shape: []int{2}, Data: []byte{0, 0x3c, 1, 2}},
	} {
		got, err := vm.ParseTensor("y.pb", v.Tensor("y"))
		if err != nil {
			t.Errorf("%v: %v", v, err)
			continue
		}
		if got.Shape == nil {
			got.Shape = []int{}
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Errorf("%v (-written +read):\n%s", v, diff)
		}
	}
}
