package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// ScatterElements writes each update to the element that its index gives along one axis, in their
// order, for elements of all widths; the first index out of range is named.
func TestScatterElements(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 400 {
		d := []graph.DType{graph.Float32, graph.Float64, graph.Int64, graph.Uint8, graph.Int16, graph.Int32}[r.IntN(6)]
		reduction := []string{"none", "add", "max"}[r.IntN(3)]
		if d == graph.Int16 {
			reduction = "none"
		}
		rank := 1 + r.IntN(3)
		shape, few := make([]int, rank), make([]int, rank)
		for a := range shape {
			shape[a] = 1 + r.IntN(6)
			few[a] = 1 + r.IntN(shape[a])
		}
		k := r.IntN(rank)
		few[k] = 1 + r.IntN(9)
		x, updates, out := blank(d, shape), blank(d, few), blank(d, shape)
		index := blank([]graph.DType{graph.Int32, graph.Int64}[r.IntN(2)], few)
		get, _ := form.Reader(d)
		set, _ := form.Writer(d)
		at := make([]int, index.Len())
		want := make([]float64, x.Len())
		for i := range want {
			want[i] = float64(r.IntN(50))
			set(x.At, i, want[i])
		}
		put, _ := form.IntWriter(index.Type)
		for i := range at {
			at[i] = r.IntN(2*shape[k]) - shape[k]
			put(index.At, i, int64(at[i]))
			set(updates.At, i, float64(r.IntN(50)))
		}
		wrong := -1
		if r.IntN(8) == 0 {
			wrong = r.IntN(len(at))
			put(index.At, wrong, int64(shape[k]))
		}
		s := strides(shape)
		for i := range at {
			off, rest := 0, i
			for a := rank - 1; a >= 0; a-- {
				p := rest % few[a]
				rest /= few[a]
				if a == k {
					p = (at[i] + shape[k]) % shape[k]
				}
				off += p * s[a]
			}
			switch v := get(updates.At, i); reduction {
			case "none":
				want[off] = v
			case "add":
				want[off] += v
			default:
				want[off] = max(want[off], v)
			}
		}
		c := &Invocation{Call: form.Call{
			Node: &graph.Node{Op: "ScatterElements", Attrs: attrs(whole1("axis", int64(k)), text("reduction", reduction))}, Version: 18,
			In: []*Tensor{x, index, updates}, Out: []*Tensor{out}, Runtime: alone{},
		}}
		err := prepareAndRun(c, Lookup("", "ScatterElements"), 1)
		if (err != nil) != (wrong >= 0) || err != nil && err.Error() != badIndex(index, wrong, shape[k]).Error() {
			t.Fatalf("index %d is out of range, got error %v", wrong, err)
		}
		if err != nil {
			continue
		}
		got := make([]float64, len(want))
		for i := range got {
			got[i] = get(out.At, i)
			if d == graph.Uint8 {
				want[i] = float64(uint8(int(want[i])))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v of %v along axis %d, indices of %v: got %v, want %v", reduction, shape, k, few, got, want)
		}
	}
}
