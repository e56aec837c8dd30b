package kernel

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

func castOne(in, out *Tensor) error {
	c := &Invocation{Call: form.Call{Node: &graph.Node{Op: "Cast"}, Version: 13, In: []*Tensor{in}, Out: []*Tensor{out}, Runtime: alone{}}}
	run, err := Lookup("", "Cast").Prepare(c)
	if err != nil {
		return err
	}
	pool := work.New(1)
	defer pool.Close()
	return run(pool)
}

func wordsOf(list ...string) *Tensor {
	at := make([]uint64, len(list))
	for i, s := range list {
		at[i], _ = alone{}.Element(s)
	}
	return &Tensor{Type: graph.String, Shape: []int{len(list)}, At: unsafe.Pointer(&at[0])}
}

// The expected strings are those of ONNX Runtime 1.31.
func TestCastToStrings(t *testing.T) {
	for _, k := range []struct {
		d    graph.DType
		in   []float64
		want []string
	}{
		{graph.Float32, []float64{0, 1.5, 1e10, 1e-5, 1. / 3, 123456789, 1e20, 0.1, 16777216, 0x1p-149, 3.4e38, 12345678, 100000, 1e7, 1e8}, []string{"0", "1.5", "1e+10", "9.9999997e-06", "0.33333334", "1.2345679e+08", "1e+20", "0.1", "16777216", "1.4012985e-45", "3.4e+38", "12345678", "100000", "10000000", "1e+08"}},
		{graph.Float64, []float64{1e-5, 1. / 3, 123456789.123456789, 1e300, 0.1}, []string{"1e-05", "0.33333333", "1.2345679e+08", "1e+300", "0.1"}},
		{graph.Float16, []float64{1.5, 65504, .1}, []string{"1.5", "65504", "0.099975586"}},
		{graph.Int64, []float64{1, -5, 1 << 60}, []string{"1", "-5", "1152921504606846976"}},
		{graph.Bool, []float64{1, 0}, []string{"1", "0"}},
	} {
		in, out := blank(k.d, []int{len(k.in)}), blank(graph.String, []int{len(k.in)})
		set, _ := form.Writer(k.d)
		for i, v := range k.in {
			set(in.At, i, v)
		}
		if err := castOne(in, out); err != nil {
			t.Errorf("%v: %v", k.d, err)
			continue
		}
		var got []string
		for _, e := range data[uint64](out) {
			s, _ := alone{}.Text(e)
			got = append(got, s)
		}
		if !slices.Equal(got, k.want) {
			t.Errorf("%v: got %q, want %q", k.d, got, k.want)
		}
	}
	special := blank(graph.String, []int{3})
	nan := store(reference.Reals([]int{3}, math.Copysign(0, -1), math.Inf(1), math.Inf(-1)), graph.Float32)
	if err := castOne(nan, special); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"-0", "INF", "-INF"} {
		if got, _ := (alone{}).Text(data[uint64](special)[i]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCastFromStrings(t *testing.T) {
	for _, k := range []struct {
		d    graph.DType
		in   []string
		want []float64
	}{
		{graph.Float32, []string{"1.5", "-7", "3.9e2", "INF", "-inf", "+1", " 2 ", "1e50", ".5", "5.", "Infinity", "1e-50"}, []float64{1.5, -7, 390, math.Inf(1), math.Inf(-1), 1, 2, math.Inf(1), .5, 5, math.Inf(1), 0}},
		{graph.Float64, []string{"1e50", "99999999999999999999"}, []float64{1e50, 1e20}},
		{graph.Float16, []string{"1.5", "1e50"}, []float64{1.5, math.Inf(1)}},
		{graph.Int64, []string{"+1", "-7", "300"}, []float64{1, -7, 300}},
		{graph.Uint8, []string{"+1", "255"}, []float64{1, 255}},
		{graph.Bool, []string{"0", "-7", "1"}, []float64{0, 1, 1}},
	} {
		out := blank(k.d, []int{len(k.in)})
		if err := castOne(wordsOf(k.in...), out); err != nil {
			t.Errorf("%v: %v", k.d, err)
			continue
		}
		if got, _ := out.Reals(); !slices.Equal(got, k.want) {
			t.Errorf("%v: got %v, want %v", k.d, got, k.want)
		}
	}
	for _, k := range []struct {
		d    graph.DType
		text string
	}{{graph.Float32, "abc"}, {graph.Float32, "12abc"}, {graph.Float32, ""}, {graph.Float64, "1e999"}, {graph.Int64, "1.5"}, {graph.Int8, "128"}, {graph.Uint8, "-1"}, {graph.Bool, "true"}} {
		err := castOne(wordsOf("1", k.text), blank(k.d, []int{2}))
		if err == nil || !strings.Contains(err.Error(), "element 1 is") || !strings.Contains(err.Error(), "expected a number of type") {
			t.Errorf("%q to %v: got error %v", k.text, k.d, err)
		}
	}
}
