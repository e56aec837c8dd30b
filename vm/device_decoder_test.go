package vm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// generator builds a decoder as ONNX Runtime's tools write it, like crosscheck/generation.py:
// GroupQueryAttention over caches, the numbers of keys by a mask, and products by weights of 4
// bits, or, if whole, of float32. Then its norms are operators of ai.onnx, too.
type generator struct {
	b     *graph.Builder
	draw  *rand.Rand
	whole bool
	made  int
}

// Lengths of the decoder.
const (
	genLayers, genWide, genHeads, genShared, genInner, genWords = 2, 64, 4, 2, 96, 40
	genHead, genRoom, genPrompt                                 = genWide / genHeads, 160, 5
)

func (g *generator) name() string {
	g.made++
	return fmt.Sprintf("t%d", g.made)
}

func (g *generator) node(op, domain string, attributes []*graph.Attr, inputs ...graph.TensorID) graph.TensorID {
	return g.b.Add(&graph.Node{Op: op, Domain: domain, Inputs: inputs, Attrs: attributes}, g.name())[0]
}

func (g *generator) reals(around, wide float64, dims ...int64) graph.TensorID {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(around + wide*(2*g.draw.Float64()-1))
	}
	return g.b.Floats(g.name(), dims, list)
}

// product multiplies by a matrix.
func (g *generator) product(x graph.TensorID, rows, columns int) graph.TensorID {
	if g.whole {
		return g.node("MatMul", "", nil, x, g.reals(0, 1.7/math.Sqrt(float64(rows)), int64(rows), int64(columns)))
	}
	raw := make([]byte, rows*columns/2)
	for i := range raw {
		raw[i] = byte(g.draw.IntN(256))
	}
	w := g.b.Initializer(g.name(), &graph.Data{Type: graph.Uint8, Dims: []int64{int64(columns), int64(rows / 32), 16}, Raw: raw})
	scales := g.reals(0.22/math.Sqrt(float64(rows)), 0.1/math.Sqrt(float64(rows)), int64(rows*columns/32))
	return g.node("MatMulNBits", "com.microsoft", attrs(attr("N", columns), attr("K", rows), attr("bits", 4), attr("block_size", 32)), x, w, scales)
}

// norm returns the norm of x, or, if there is a skip, of their sum, and the sum.
func (g *generator) norm(x, skip graph.TensorID) (y, sum graph.TensorID) {
	scale := g.reals(1, 0.5, genWide)
	epsilon := attrs(attr("epsilon", float32(1e-5)))
	switch {
	case skip == graph.None && !g.whole:
		return g.node("SimplifiedLayerNormalization", "", append(epsilon, attr("axis", -1), attr("stash_type", 1)), x, scale), x
	case !g.whole:
		out := g.b.Add(&graph.Node{Op: "SkipSimplifiedLayerNormalization", Domain: "com.microsoft", Inputs: []graph.TensorID{x, skip, scale}, Attrs: epsilon}, g.name(), "", "", g.name())
		return out[0], out[3]
	case skip != graph.None:
		x = g.node("Add", "", nil, x, skip)
	}
	return g.node("RMSNormalization", "", append(epsilon, attr("axis", -1)), x, scale), x
}

// generation is the decoder for a number of new tokens and the length of its mask.
func generation(t *testing.T, whole bool, tokens, total int) *graph.Model {
	t.Helper()
	g := &generator{b: graph.NewBuilder("generation", 23), draw: rand.New(rand.NewPCG(3, 4)), whole: whole}
	b := g.b
	b.Import("com.microsoft", 1)
	ids := b.Input("input_ids", graph.TensorOf(graph.Int64, 1, graph.Dim(tokens)))
	mask := b.Input("attention_mask", graph.TensorOf(graph.Int64, 1, graph.Dim(total)))
	one, axis := b.Ints("one", nil, []int64{1}), b.Ints("axis", []int64{1}, []int64{1})
	narrow := attrs(attr("to", int(graph.Int32)))
	last := g.node("Cast", "", narrow, g.node("Sub", "", nil, g.node("ReduceSum", "", attrs(attr("keepdims", 0)), mask, axis), one))
	all := g.node("Cast", "", narrow, g.node("Gather", "", attrs(attr("axis", 0)), g.node("Shape", "", nil, mask), one))
	var angles [2][]float32
	for i := range genRoom * genHead / 2 {
		sin, cos := math.Sincos(float64(i/(genHead/2)) / math.Pow(10000, float64(i%(genHead/2))/(genHead/2)))
		angles[0], angles[1] = append(angles[0], float32(cos)), append(angles[1], float32(sin))
	}
	cos, sin := b.Floats("cos_cache", []int64{genRoom, genHead / 2}, angles[0]), b.Floats("sin_cache", []int64{genRoom, genHead / 2}, angles[1])
	x := g.node("Gather", "", nil, g.reals(0, 1, genWords, genWide), ids)
	y, x := g.norm(x, graph.None)
	for k := range genLayers {
		in := []graph.TensorID{g.product(y, genWide, genWide), g.product(y, genWide, genShared*genHead), g.product(y, genWide, genShared*genHead)}
		of := graph.TensorOf(graph.Float32, 1, genShared, genRoom, genHead)
		for _, what := range []string{"key", "value"} {
			in = append(in, b.Input(fmt.Sprintf("past_key_values.%d.%s", k, what), of))
		}
		out := b.Add(&graph.Node{
			Op: "GroupQueryAttention", Domain: "com.microsoft", Inputs: append(in, last, all, cos, sin),
			Attrs: attrs(attr("num_heads", genHeads), attr("kv_num_heads", genShared), attr("do_rotary", 1)),
		}, g.name(), fmt.Sprintf("present.%d.key", k), fmt.Sprintf("present.%d.value", k))
		b.Output(out[1:]...)
		y, x = g.norm(x, g.product(out[0], genWide, genWide))
		gate := g.product(y, genWide, genInner)
		gated := g.node("Mul", "", nil, g.node("Mul", "", nil, gate, g.node("Sigmoid", "", nil, gate)), g.product(y, genWide, genInner))
		y, x = g.norm(x, g.product(gated, genInner, genWide))
	}
	b.Output(b.Add(&graph.Node{Op: "Identity", Inputs: []graph.TensorID{g.product(y, genWide, genWords)}}, "logits")[0])
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// written is what a decoder has written: tokens, the scores of each step, and the caches.
type written struct {
	tokens []int64
	scores []map[string]vm.Value
	caches map[string]vm.Value
}

// writes has a decoder read a prompt and write tokens, each that with the largest score. look
// is called after each token.
func writes(t *testing.T, prompt, next *vm.Program, opt vm.Options, tokens int, look func(s *vm.Session)) (w written) {
	t.Helper()
	opt.LeaveUpdates = true
	read := func(s *vm.Session, total, seen int, ids ...int64) {
		mask := make([]int64, total)
		for i := range seen {
			mask[i] = 1
		}
		out, err := s.Run(t.Context(), map[string]vm.Value{"input_ids": vm.Int64s(ids, 1, len(ids)), "attention_mask": vm.Int64s(mask, 1, total)})
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != 1 {
			t.Errorf("a step returns %d outputs, expected the scores alone", len(out))
		}
		scores, _ := out["logits"].Reals()
		scores = scores[len(scores)-genWords:]
		w.tokens = append(w.tokens, int64(slices.Index(scores, slices.Max(scores))))
		w.scores = append(w.scores, map[string]vm.Value{"logits": out["logits"].Clone()})
	}
	first := newSession(t, prompt, opt)
	read(first, genPrompt, genPrompt, 3, 1, 4, 1, 5)
	made, err := first.Updates()
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, next, opt)
	for _, c := range next.Caches() {
		if err := s.Set(c.Name, made["present"+c.Name[len("past_key_values"):]]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range tokens {
		look(nil)
		read(s, genRoom, genPrompt+i+1, w.tokens[len(w.tokens)-1])
		look(s)
	}
	made, err = s.Updates()
	if err != nil {
		t.Fatal(err)
	}
	w.caches = map[string]vm.Value{}
	for name, v := range made {
		w.caches[name] = v.Clone()
	}
	return w
}

// TestDeviceGeneration: a decoder as ONNX Runtime's tools write it writes the tokens on a
// device that it writes on the CPU. Its caches stay on the device from token to token, and
// with all tensors apart, poisoned and replayed it gives the same bits.
func TestDeviceGeneration(t *testing.T) {
	d, f := onDevice(t)
	for name, whole := range map[string]bool{"float32": true, "4 bits": false} {
		t.Run(name, func(t *testing.T) {
			prompt, _ := plannedModel(t, generation(t, whole, genPrompt, genPrompt), passes.Options{StatesAuto: true})
			next, _ := plannedModel(t, generation(t, whole, 1, genRoom), passes.Options{StatesAuto: true})
			if n := len(next.Caches()); n != 2*genLayers {
				t.Fatalf("%d caches, expected %d", n, 2*genLayers)
			}
			const tokens = 6
			want := writes(t, prompt, next, vm.Options{}, tokens, func(*vm.Session) {})
			var first written
			for i, opt := range []vm.Options{{Device: d}, {Device: d, NoReplay: true}, {Device: d, Separate: true}, {Device: d, Poison: true}} {
				what := fmt.Sprintf("%+v", opt)
				got := writes(t, prompt, next, opt, tokens, generationOnDevice(t, f, opt))
				if !slices.Equal(got.tokens, want.tokens) {
					t.Errorf("%s: writes %v, on the CPU %v", what, got.tokens, want.tokens)
				}
				for k := range want.scores {
					nearly(t, got.scores[k], want.scores[k], 2e-5)
				}
				nearly(t, got.caches, want.caches, 2e-5)
				if i == 0 {
					first = got
				}
				for k := range first.scores {
					sameBits(t, what, got.scores[k], first.scores[k])
				}
				sameBits(t, what, got.caches, first.caches)
			}
		})
	}
}

// generationOnDevice is called before and after each token of a decoder: no node runs on the
// host, steps are replayed, and nothing but scores comes back.
func generationOnDevice(t *testing.T, f *fake.Fake, opt vm.Options) func(s *vm.Session) {
	steps := 0
	return func(s *vm.Session) {
		if s == nil {
			if f != nil {
				f.ResetCounters()
			}
			return
		}
		steps++
		u := s.DeviceUse()
		if u.FallbackNodes > 0 {
			t.Errorf("%d nodes run on the CPU: %v", u.FallbackNodes, u.FallbackOps)
		}
		if replays := !opt.NoReplay && !opt.Poison; u.ReplayedSteps != max(0, steps-2) && replays || u.ReplayedSteps > 0 && !replays {
			t.Errorf("%d of %d steps were replayed", u.ReplayedSteps, steps)
		}
		if f == nil || opt.Poison || opt.Separate || steps == 1 { // the first one brings the caches of the prompt
			return
		}
		if c := f.Counters(); c.DownloadedBytes > 4*genWords+64 || c.UploadedBytes > 8*genRoom+64 {
			t.Errorf("token %d copies %d bytes to the device and %d to the host", steps, c.UploadedBytes, c.DownloadedBytes)
		}
	}
}
