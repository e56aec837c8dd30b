package graph

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestLiteral: a literal becomes a tensor only if every number is an element of its
// type, and the tensor gives the shortest literal back.
func TestLiteral(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		data  string // separated by spaces
		to    DType
		want  string // the literal of the tensor, or "error: PART OF THE MESSAGE"
	}{
		{[]int64{}, "16000", Int64, "16000"},
		{[]int64{}, "-9223372036854775808", Int64, "-9223372036854775808"},
		{[]int64{}, "9223372036854775807", Uint64, "9223372036854775807"},
		{[]int64{2, 2}, "1 2e0 3.0 4", Int32, "[[1,2],[3,4]]"},
		{[]int64{0, 3}, "", Int64, "[]"},
		{[]int64{2}, "0.1 -0", Float32, "[0.1,-0]"},
		{[]int64{1}, "0.10000000149011612", Float32, "[0.1]"},
		{[]int64{1}, "1e-300", Float64, "[1e-300]"},
		{[]int64{}, "1", Bool, "1"},
		{[]int64{}, "2", Bool, "error: 2: expected an element of bool"},
		{[]int64{}, "1.5", Int64, "error: 1.5: expected an element of int64"},
		{[]int64{}, "256", Uint8, "error: 256: expected an element of uint8"},
		{[]int64{}, "-129", Int8, "error: -129: expected an element of int8"},
		{[]int64{}, "-1", Uint64, "error: -1: expected an element of uint64"},
		{[]int64{}, "1e39", Float32, "error: 1e39: expected an element of float32"},
		{[]int64{}, "NaN", Float32, "error: NaN: expected an element of float32"},
		{[]int64{}, "", Int64, "error: 0 numbers, expected as many as shape [] has elements"},
		{[]int64{-1}, "1", Int64, "error: 1 numbers, expected as many as shape [-1] has elements"},
		{[]int64{1 << 40, 1 << 40}, "1", Int64, "error: 1 numbers"},
		{nil, "1", Int64, "error: 1 numbers"},
		{[]int64{}, "1", Float16, "error: expected an input of integers, bool, float32 or float64, found float16"},
	} {
		l := Literal{Shape: c.shape, Data: []json.Number{}}
		for _, x := range strings.Fields(c.data) {
			l.Data = append(l.Data, json.Number(x))
		}
		d, err := l.Tensor("x", c.to)
		got := ""
		if err != nil {
			got = "error: " + err.Error()
		} else if m := LiteralOf(d); !m.Equal(m.Filled(nil)) {
			t.Errorf("%v: a literal with a shape is filled", m)
		} else {
			got = m.String()
		}
		if strings.HasPrefix(c.want, "error: ") && strings.HasPrefix(got, c.want) {
			continue
		}
		if got != c.want {
			t.Errorf("%v of shape %v as %v: got %s, want %s", c.data, c.shape, c.to, got, c.want)
		}
	}
	seven := Literal{Data: []json.Number{"7"}}
	if got := seven.Filled([]int64{2, 2}).String(); got != "[[7,7],[7,7]]" {
		t.Errorf("a number fills the shape: got %s", got)
	}
}
