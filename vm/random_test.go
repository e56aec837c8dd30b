package vm_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// Random operators draw what their attributes say: their means and variances are
// those of the distribution. Two runs differ, unless the node has a seed.
func TestRandom(t *testing.T) {
	const n = 100_000
	probabilities := vm.Float32s(slices.Repeat([]float32{0.3}, n), n)
	logs := vm.Float32s([]float32{float32(math.Log(1)), float32(math.Log(2)), float32(math.Log(5))}, 1, 3)
	like := vm.Float32s(make([]float32, n), n)
	shape := attr("shape", []int64{n})
	for _, c := range []struct {
		k              nodeCase
		mean, variance float64
	}{
		{nodeCase{op: "RandomUniform", attrs: attrs(shape, attr("low", float32(2)), attr("high", float32(5)))}, 3.5, 9.0 / 12},
		{nodeCase{op: "RandomUniformLike", in: []vm.Value{like}}, 0.5, 1.0 / 12},
		{nodeCase{op: "RandomNormal", attrs: attrs(shape, attr("mean", float32(1)), attr("scale", float32(2)), attr("dtype", int(graph.Float64)))}, 1, 4},
		{nodeCase{op: "RandomNormalLike", in: []vm.Value{like}}, 0, 1},
		{nodeCase{op: "RandomNormalLike", attrs: attrs(attr("dtype", int(graph.Float16))), in: []vm.Value{like}}, 0, 1},
		{nodeCase{op: "Bernoulli", attrs: attrs(attr("dtype", int(graph.Int32))), in: []vm.Value{probabilities}}, 0.3, 0.21},
		{nodeCase{op: "Multinomial", attrs: attrs(attr("sample_size", n)), in: []vm.Value{logs}}, 1.5, 0.5},
	} {
		for _, seeded := range []bool{false, true} {
			k := c.k
			if seeded {
				k.attrs = append(attrs(attr("seed", float32(7))), k.attrs...)
			}
			p, inputs, err := k.plan(t, false)
			if err != nil {
				t.Fatalf("%s: %v", k.op, err)
			}
			s, err := p.NewSession(vm.Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			var runs [2]vm.Value
			for i := range runs {
				out, err := s.Run(context.Background(), inputs)
				if err != nil {
					t.Fatalf("%s: %v", k.op, err)
				}
				runs[i] = out["y0"].Clone()
			}
			if same := slices.Equal(runs[0].Data, runs[1].Data); same != seeded {
				t.Errorf("%s, seeded %v: two runs are the same: %v", k.op, seeded, same)
			}
			list, ok := runs[0].Reals()
			if !ok || len(list) != n {
				t.Fatalf("%s: got %d elements, %v", k.op, len(list), ok)
			}
			mean, square := 0.0, 0.0
			for _, v := range list {
				mean += v / n
				square += v * v / n
			}
			// Five standard deviations of the mean; the variance is as exact to a few per cent.
			if d := math.Abs(mean - c.mean); d > 5*math.Sqrt(c.variance/n) {
				t.Errorf("%s: got mean %g, want %g", k.op, mean, c.mean)
			}
			if v := square - mean*mean; math.Abs(v-c.variance) > 0.04*c.variance {
				t.Errorf("%s: got variance %g, want %g", k.op, v, c.variance)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// ReverseSequence takes the lengths as data, and refuses those that are too long.
func TestReverseSequence(t *testing.T) {
	x := numbers([]int{4, 2}, 0, 1, 2, 3, 4, 5, 6, 7)
	for _, c := range []struct {
		k     nodeCase
		gives []float64
	}{
		{nodeCase{op: "ReverseSequence", in: []vm.Value{x, numbers([]int{2}, 3, 1)}}, []float64{4, 1, 2, 3, 0, 5, 6, 7}},
		{nodeCase{op: "ReverseSequence", attrs: attrs(attr("batch_axis", 0), attr("time_axis", 1)), in: []vm.Value{x, numbers([]int{4}, 2, 0, 1, 2)}}, []float64{1, 0, 2, 3, 4, 5, 7, 6}},
		{nodeCase{op: "ReverseSequence", in: []vm.Value{x, numbers([]int{2}, 3, 5)}, want: "sequence 1 has length 5, expected one in [0, 4]"}, nil},
	} {
		for late, mode := range shapeModes {
			got, err := c.k.run(t, late)
			if c.k.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.k.want) {
					t.Errorf("%s: got error %v, want one with %q", mode, err, c.k.want)
				}
				continue
			}
			if list, _ := got.Reals(); err != nil || !slices.Equal(list, c.gives) {
				t.Errorf("%s: got %v, %v, want %v", mode, list, err, c.gives)
			}
		}
	}
}
