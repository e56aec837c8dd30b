package vm_test

import (
	"strings"
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

// cachesOfBatch is a decoder as decoderOfTokens, for several texts at once: its caches have
// the batch in their shape.
func cachesOfBatch(t testing.TB) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("decoder", 24)
	now := graph.TensorOf(graph.Float32, graph.Unknown, cacheHeads, 1, cacheWidth)
	of := graph.TensorOf(graph.Float32, graph.Unknown, cacheHeads, cacheRoom, cacheWidth)
	batch := []string{"batch", "", "", ""}
	q, k, v := b.Input("q", now, batch...), b.Input("k", now, batch...), b.Input("v", now, batch...)
	at := b.Input("at", graph.TensorOf(graph.Int64, graph.Unknown), "batch")
	keys, values := b.Node("TensorScatter", "present_k", b.Input("past_k", of, batch...), k, at), b.Node("TensorScatter", "present_v", b.Input("past_v", of, batch...), v, at)
	turned := b.Add(&graph.Node{Op: "Transpose", Inputs: []graph.TensorID{keys}, Attrs: []*graph.Attr{{Name: "perm", Type: graph.AttrInts, Ints: []int64{0, 1, 3, 2}}}}, "keys")[0]
	b.Output(b.Node("MatMul", "y", b.Node("Softmax", "weights", b.Node("MatMul", "scores", q, turned)), values), keys, values)
	return modelOf(t, b)
}

// TestCachesOfAnyBatch: caches whose shape has a dimension with a range have the bits of a
// plan of each length alone. They keep their shape until they are reset or set.
func TestCachesOfAnyBatch(t *testing.T) {
	states := []string{"past_k=present_k", "past_v=present_v"}
	for _, opt := range []vm.Options{{Poison: true}, {Separate: true}, {Guard: vm.GuardEnd}} {
		p := rangedProgramOf(t, cachesOfBatch(t), passes.Options{Ranges: map[string]string{"batch": "1..4"}, States: states})
		s := newSession(t, p, opt)
		inputs := func(batch int64, token int) map[string]vm.Value {
			in := inputsAt(t, p, map[string]int64{"batch": batch}, uint64(token))
			list := make([]int64, batch)
			for i := range list {
				list[i] = int64(token)
			}
			in["at"] = vm.Int64s(list, int(batch))
			delete(in, "past_k")
			delete(in, "past_v")
			return in
		}
		for _, batch := range []int64{3, 1, 4} {
			dims := map[string]int64{"batch": batch}
			own := newSession(t, rangedProgramOf(t, cachesOfBatch(t), passes.Options{Dims: dims, States: states}), vm.Options{})
			for token := range 3 {
				in := inputs(batch, token)
				out, err := s.Run(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				want, err := own.Run(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				sameOutputs(t, dims, out, want)
			}
			kept, err := s.Snapshot()
			if err != nil || kept.Bytes() != 2*batch*cacheHeads*cacheRoom*cacheWidth*4 {
				t.Errorf("batch %d: a snapshot of %d bytes, %v", batch, kept.Bytes(), err)
			}
			want := `tensor "past_k": the cache holds float32[`
			if _, err := s.Run(t.Context(), inputs(2, 0)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("batch 2 after %d: got %v, want %q", batch, err, want)
			}
			if err := s.Reset(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Run(t.Context(), inputs(2, 0)); err != nil {
				t.Errorf("batch 2 after Reset: %v", err)
			}
			if err := s.Restore(kept); err != nil {
				t.Fatal(err)
			}
			in := inputs(batch, 3)
			out, err := s.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			alone, err := own.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			sameOutputs(t, dims, out, alone)
			if err := s.Reset(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
