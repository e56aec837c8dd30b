package autodiff

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// TestDynamicProducts: the gradient through products whose operand is quantized at every run is that
// through products by the same weights, dequantized. The two share their quantizer.
func TestDynamicProducts(t *testing.T) {
	numbers := func(n, from, step int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprint(from + i*step%97)
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	given := "opset 21\ninit p0 float32[2,3,4] = " + numbers(24, -40, 29) + "\n"
	product := func(dynamic bool, name, scales, values, zeros string) string {
		text := fmt.Sprintf("init %[1]s.w int8[4,5] = %[2]s\ninit %[1]s.scale float32[%[3]s] = [%[4]s]\ninit %[1]s.zero int8[%[3]s] = [%[5]s]\ninit %[1]s.d float32[2,3,5] = %[6]s\n",
			name, numbers(20, -50, 37), scales, values, zeros, numbers(30, -9, 5))
		lines := "%[1]s.r = DequantizeLinear(%[1]s.w, %[1]s.scale, %[1]s.zero)\n%[1]s.y = MatMul(p0, %[1]s.r)\n"
		if dynamic {
			lines = "%[1]s.m = MatMulInteger(q, %[1]s.w, z, %[1]s.zero)\n%[1]s.c = Cast(%[1]s.m) to=1\n%[1]s.s = Mul(a, %[1]s.scale)\n%[1]s.y = Mul(%[1]s.c, %[1]s.s)\n"
		}
		return text + fmt.Sprintf(lines+"%[1]s.e = Mul(%[1]s.y, %[1]s.d)\n", name)
	}
	end := "sum = Add(one.e, two.e)\nobjective = ReduceSum(sum) keepdims=0\nout objective\n"
	var found [2][]float64
	for i, dynamic := range []bool{true, false} {
		text := given
		if dynamic {
			text += "q, a, z = DynamicQuantizeLinear(p0)\n"
		}
		text += product(dynamic, "one", "", "0.5", "3") + product(dynamic, "two", "5", "0.25, 1, 2, 0.5, 0.125", "0, 1, -2, 3, 4") + end
		m, err := graph.Parse("products", text)
		if err != nil {
			t.Fatal(err)
		}
		step, err := Train(m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^p0$"), KeepGradients: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := reference.Eval(step.Model, feedsOf(t, step, nil), gradientsOf(step)...)
		if err != nil {
			t.Fatal(err)
		}
		found[i] = got["p0.grad"].F
	}
	if !slices.Equal(found[0], found[1]) || slices.Max(found[0]) == 0 {
		t.Errorf("the gradient is %v, expected %v", found[0], found[1])
	}
}
