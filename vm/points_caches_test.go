package vm_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// decoderOfTokens is attention over some tokens and those before them, whose keys and values
// are in caches.
func decoderOfTokens(t testing.TB) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("decoder", 24)
	now := graph.TensorOf(graph.Float32, 1, cacheHeads, graph.Unknown, cacheWidth)
	of := graph.TensorOf(graph.Float32, 1, cacheHeads, cacheRoom, cacheWidth)
	tokens := []string{"", "", "tokens", ""}
	q, k, v := b.Input("q", now, tokens...), b.Input("k", now, tokens...), b.Input("v", now, tokens...)
	at := b.Input("at", graph.TensorOf(graph.Int64, 1))
	keys, values := b.Node("TensorScatter", "present_k", b.Input("past_k", of), k, at), b.Node("TensorScatter", "present_v", b.Input("past_v", of), v, at)
	turned := b.Add(&graph.Node{Op: "Transpose", Inputs: []graph.TensorID{keys}, Attrs: []*graph.Attr{{Name: "perm", Type: graph.AttrInts, Ints: []int64{0, 1, 3, 2}}}}, "keys")[0]
	b.Output(b.Node("MatMul", "y", b.Node("Softmax", "weights", b.Node("MatMul", "scores", q, turned)), values), keys, values)
	return modelOf(t, b)
}

// TestCachesOfRanges: the caches of a plan for ranges stay from one number of tokens to the
// next, with the bits of plans of these numbers alone; Reset, Snapshot and Restore are those
// of any session.
func TestCachesOfRanges(t *testing.T) {
	states := []string{"past_k=present_k", "past_v=present_v"}
	for _, opt := range []vm.Options{{Poison: true}, {Separate: true}} {
		p := rangedProgramOf(t, decoderOfTokens(t), passes.Options{Ranges: map[string]string{"tokens": "1..4"}, States: states})
		s := newSession(t, p, opt)
		for range 2 {
			if err := s.Reset(); err != nil {
				t.Fatal(err)
			}
			at := int64(0)
			var before map[string]vm.Value
			var middle vm.Snapshot
			for i, n := range []int64{3, 1, 2} {
				dims := map[string]int64{"tokens": n}
				in := inputsAt(t, p, dims, uint64(i))
				in["at"] = vm.Int64s([]int64{at}, 1)
				out, err := s.Run(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				alone := rangedProgramOf(t, decoderOfTokens(t), passes.Options{Dims: dims, States: states})
				own := newSession(t, alone, vm.Options{})
				for name, from := range map[string]string{"past_k": "present_k", "past_v": "present_v"} {
					if before != nil {
						if err := own.Set(name, before[from]); err != nil {
							t.Fatal(err)
						}
					}
				}
				want, err := own.Run(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				sameOutputs(t, dims, out, want)
				before = map[string]vm.Value{"present_k": want["present_k"].Clone(), "present_v": want["present_v"].Clone()}
				if at += n; i == 0 {
					if middle, err = s.Snapshot(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := s.Restore(middle); err != nil || middle.Bytes() != 2*cacheHeads*cacheRoom*cacheWidth*4 {
				t.Errorf("%d bytes, %v", middle.Bytes(), err)
			}
		}
	}
}
