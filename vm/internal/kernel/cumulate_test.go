package kernel

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Sums along an axis are those of each line alone, in place, too.
func TestCumSumOfColumnsInPlace(t *testing.T) {
	const rows, columns = 5, 19
	for _, k := range []struct{ exclusive, reverse int64 }{{0, 0}, {0, 1}, {1, 0}, {1, 1}} {
		x, axis := blank(graph.Float32, []int{rows, columns}), blank(graph.Int64, []int{})
		list := data[float32](x)
		data[int64](axis)[0] = 0
		want := make([]float32, len(list))
		for i := range list {
			list[i] = float32(math.Sin(float64(i)))
		}
		list[3], list[columns+3] = float32(math.Inf(1)), float32(math.Inf(-1))
		for col := range columns {
			sum := float32(0)
			for row := range rows {
				if k.reverse != 0 {
					row = rows - 1 - row
				}
				at := row*columns + col
				if k.exclusive != 0 {
					want[at] = sum
				}
				if sum += list[at]; k.exclusive == 0 {
					want[at] = sum
				}
			}
		}
		c := &Invocation{Call: form.Call{
			Node: &graph.Node{Op: "CumSum", Attrs: attrs(whole1("exclusive", k.exclusive), whole1("reverse", k.reverse))}, Version: 14,
			In: []*Tensor{x, axis}, Out: []*Tensor{x}, Runtime: alone{},
		}}
		run, err := Lookup("", "CumSum").Prepare(c)
		if err != nil {
			t.Fatal(err)
		}
		pool := work.New(2)
		err = run(pool)
		pool.Close()
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range list {
			if got != want[i] && (got == got || want[i] == want[i]) {
				t.Fatalf("%+v: element %d: got %v, want %v", k, i, got, want[i])
			}
		}
	}
}
