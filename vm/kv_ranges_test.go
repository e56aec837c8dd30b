package vm_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/vm"
)

// said is what a decoder of any batch and number of new tokens is given: numbers of tokens,
// and a mask that shows all of them and, with a capacity, the places behind.
func said(batch, first, tokens, seen int, seed uint64) map[string]vm.Value {
	draw := rand.New(rand.NewPCG(seed, uint64(first)))
	ids := make([]int64, batch*tokens)
	for i := range ids {
		ids[i] = draw.Int64N(vocabulary)
	}
	mask := make([]int64, batch*seen)
	for i := range mask {
		mask[i] = 1
	}
	return map[string]vm.Value{"input_ids": vm.Int64s(ids, batch, tokens), "attention_mask": vm.Int64s(mask, batch, seen)}
}

// TestKVCapacityOfRanges: one decoder and one plan take prompts and single tokens of several
// batches. The scores are those of the decoder whose caches grow, and, for single tokens, the
// bits of one that was rewritten and planned for that batch alone.
func TestKVCapacityOfRanges(t *testing.T) {
	const capacity = 24
	ranges := map[string]string{"batch": "1..3", "new": "1..6"}
	p, r := programOf(t, openDecoder(t, "llama-any"), passes.Options{KVCapacity: capacity, Ranges: ranges})
	if report, err := verify.Plan(r.Model, r.Plan, verify.Options{SkipAnnotations: true}); err != nil || !report.Valid {
		t.Fatalf("%v %v", report, err)
	}
	s := newSession(t, p, vm.Options{Poison: true})
	for _, text := range []struct {
		batch int
		runs  []int
	}{{2, []int{5, 1, 1, 3}}, {3, []int{1, 1, 1}}, {1, []int{6, 1, 2, 1}}} {
		if err := s.Reset(); err != nil {
			t.Fatal(err)
		}
		past := map[string]vm.Value{}
		at := 0
		var alone *vm.Session
		for i, n := range text.runs {
			in := said(text.batch, at, n, capacity, uint64(text.batch))
			in[p.KV().Index] = vm.Int64s([]int64{int64(at)}, 1)
			out, err := s.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			dims := map[string]int64{"batch": int64(text.batch), "past": int64(at), "new": int64(n)}
			grows, _ := plannedModel(t, openDecoder(t, "llama-any"), passes.Options{Dims: dims})
			given := said(text.batch, at, n, at+n, uint64(text.batch))
			for _, x := range grows.Inputs() {
				if v, has := past[x.Name]; has {
					given[x.Name] = v
				} else if strings.HasPrefix(x.Name, "past_") {
					if given[x.Name], err = vm.Filled(x, 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			want, err := newSession(t, grows, vm.Options{}).Run(t.Context(), given)
			if err != nil {
				t.Fatal(err)
			}
			nearly(t, out, map[string]vm.Value{"logits": want["logits"]}, 2e-6)
			for name, v := range want {
				if strings.HasPrefix(name, "present_") {
					past["past_"+strings.TrimPrefix(name, "present_")] = v.Clone()
				}
			}
			if text.batch == 3 {
				if i == 0 {
					own, _ := plannedModel(t, openDecoder(t, "llama-any"), passes.Options{KVCapacity: capacity, Dims: map[string]int64{"batch": 3, "new": 1}})
					alone = newSession(t, own, vm.Options{})
				}
				single, err := alone.Run(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				sameOutputs(t, dims, out, single)
			}
			at += n
		}
	}
	point, err := p.At(map[string]int64{"batch": 2, "new": 4})
	if err != nil || point.KV().New != 4 || p.KV().New != 6 {
		t.Errorf("new tokens: %v, %+v, %+v", err, point.KV(), p.KV())
	}
}

// TestKVCapacityOfOtherRanges: lengths for which the rewritten decoder is not the same model
// are refused.
func TestKVCapacityOfOtherRanges(t *testing.T) {
	for _, c := range []struct {
		ranges map[string]string
		points int
		want   string
	}{
		{map[string]string{"past": "1..8"}, 0, `dimension "past" is the length of the caches`},
		{map[string]string{"batch": "1..8", "new": "1..2"}, 4, "16 points are too many to rewrite the decoder at each"},
		{map[string]string{"new": "1..22"}, 0, "a capacity of 24 tokens: expected at least 26, for runs of 22"},
	} {
		_, err := passes.Optimize(t.Context(), openDecoder(t, "llama-any"), passes.Options{KVCapacity: 24, Ranges: c.ranges, RangePoints: c.points})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.ranges, err, c.want)
		}
	}
}
