package vm_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// former builds the attention of a decoder over a cache that grows, of [2, 2, past, 4], in
// one of the ways in which exporters and people write it. Two tokens are new in each run.
type former struct {
	b                        *graph.Builder
	q, k, v, pastK, pastV    graph.TensorID
	presentK, presentV, last graph.TensorID
}

const formNew, formCapacity = 2, 11

func (f *former) node(op string, attrs []*graph.Attr, inputs ...graph.TensorID) graph.TensorID {
	return f.b.Add(&graph.Node{Op: op, Inputs: inputs, Attrs: attrs}, op)[0]
}

func (f *former) ints(v ...int64) graph.TensorID {
	return f.b.Ints("ints", []int64{int64(len(v))}, v)
}

func (f *former) scalar(v int64) graph.TensorID { return f.b.Ints("scalar", []int64{}, []int64{v}) }

func (f *former) real(v float32) graph.TensorID {
	return f.b.Floats("real", []int64{}, []float32{v})
}

func intsAttr(name string, v ...int64) []*graph.Attr {
	return []*graph.Attr{{Name: name, Type: graph.AttrInts, Ints: v}}
}

// grow extends the caches.
func (f *former) grow() {
	f.presentK = f.b.Add(&graph.Node{Op: "Concat", Inputs: []graph.TensorID{f.pastK, f.k}, Attrs: []*graph.Attr{attr("axis", 2)}}, "present_k")[0]
	f.presentV = f.b.Add(&graph.Node{Op: "Concat", Inputs: []graph.TensorID{f.pastV, f.v}, Attrs: []*graph.Attr{attr("axis", -2)}}, "present_v")[0]
}

// scores are those of the new tokens with all keys.
func (f *former) scores() graph.TensorID {
	f.grow()
	return f.node("MatMul", nil, f.q, f.node("Transpose", intsAttr("perm", 0, 1, 3, 2), f.presentK))
}

// weigh returns the values weighted by the softmax of scores.
func (f *former) weigh(scores graph.TensorID) {
	f.last = f.node("MatMul", nil, f.node("Softmax", []*graph.Attr{attr("axis", -1)}, scores), f.presentV)
}

// past is the number of past tokens, and total that of all tokens, as one element.
func (f *former) past() graph.TensorID {
	return f.node("Shape", []*graph.Attr{attr("start", 2), attr("end", 3)}, f.pastK)
}

func (f *former) total() graph.TensorID {
	return f.node("Shape", []*graph.Attr{attr("start", 2), attr("end", 3)}, f.presentK)
}

func (f *former) number(t graph.TensorID) graph.TensorID { return f.node("Squeeze", nil, t) }

// causal is a mask of bools [new, total] by positions.
func (f *former) causal() graph.TensorID {
	keys := f.node("Range", nil, f.scalar(0), f.number(f.total()), f.scalar(1))
	queries := f.node("Add", nil, f.node("Range", nil, f.scalar(0), f.scalar(formNew), f.scalar(1)), f.past())
	return f.node("LessOrEqual", nil, keys, f.node("Unsqueeze", nil, queries, f.ints(1)))
}

var forms = map[string]func(f *former){
	"no mask": func(f *former) { f.weigh(f.scores()) },
	"a causal mask that is added": func(f *former) {
		s := f.scores()
		f.weigh(f.node("Add", nil, s, f.node("Where", nil, f.causal(), f.real(0), f.real(-3.4028235e38))))
	},
	"scores that are hidden by Where": func(f *former) {
		s := f.scores()
		f.weigh(f.node("Where", nil, f.node("Not", nil, f.causal()), f.real(-10000), s))
	},
	"scores through a function of one number": func(f *former) {
		s := f.scores()
		f.weigh(f.node("Where", nil, f.node("Not", nil, f.causal()), f.real(-10000), f.node("Softsign", nil, s)))
	},
	"a mask of tokens alone, as 1 and 0": func(f *former) {
		s := f.scores()
		m := f.node("Cast", []*graph.Attr{attr("to", int(graph.Float32))}, f.b.Input("mask", graph.TensorOf(graph.Int64, 2, graph.Unknown), "", "past + 2"))
		m = f.node("Mul", nil, f.node("Sub", nil, f.real(1), m), f.real(-10000))
		f.weigh(f.node("Add", nil, s, f.node("Unsqueeze", nil, m, f.ints(1, 2))))
	},
	"a mask whose length has a name of its own": func(f *former) {
		s := f.scores()
		f.weigh(f.node("Add", nil, s, f.node("Unsqueeze", nil, f.b.Input("bias", graph.TensorOf(graph.Float32, 2, graph.Unknown), "", "total"), f.ints(1, 2))))
	},
	"a triangle": func(f *former) {
		s := f.scores()
		shape := f.node("Concat", []*graph.Attr{attr("axis", 0)}, f.ints(formNew), f.total())
		full := f.node("Expand", nil, f.real(-1e9), shape)
		diagonal := f.node("Add", nil, f.number(f.past()), f.scalar(1))
		f.weigh(f.node("Add", nil, s, f.node("Trilu", []*graph.Attr{attr("upper", 1)}, full, diagonal)))
	},
	"positions from a sum of the mask": func(f *former) {
		s := f.scores()
		m := f.b.Input("mask", graph.TensorOf(graph.Int64, 2, graph.Unknown), "", "past + 2")
		at := f.node("Slice", nil, f.node("CumSum", nil, m, f.scalar(1)), f.ints(-formNew), f.ints(1<<62), f.ints(1))
		table := make([]float32, 30*4)
		for i := range table {
			table[i] = float32(i%7) - 3
		}
		rows := f.node("Gather", nil, f.b.Floats("table", []int64{30, 4}, table), at) // [2, new, 4]
		f.weigh(s)
		f.last = f.node("Add", nil, f.last, f.node("Unsqueeze", nil, rows, f.ints(1)))
	},
	"positions in a table": func(f *former) {
		s := f.scores()
		table := make([]float32, 11)
		for i := range table {
			table[i] = float32(i)/4 - 1
		}
		rows := f.node("Slice", nil, f.b.Floats("table", []int64{11, 1}, table), f.past(), f.total(), f.ints(0)) // [new, 1]
		f.weigh(f.node("Mul", nil, s, rows))
	},
	"letters": func(f *former) {
		f.grow()
		s := f.node("Einsum", []*graph.Attr{{Name: "equation", Type: graph.AttrString, String: "bhqd,bhkd->bhqk"}}, f.q, f.presentK)
		w := f.node("Softmax", nil, s)
		f.last = f.node("Einsum", []*graph.Attr{{Name: "equation", Type: graph.AttrString, String: "bhqk,bhkd->bhqd"}}, w, f.presentV)
	},
	"relative positions": func(f *former) {
		s := f.scores()
		keys := f.node("Range", nil, f.scalar(0), f.number(f.total()), f.scalar(1))
		queries := f.node("Range", nil, f.number(f.past()), f.number(f.total()), f.scalar(1))
		apart := f.node("Sub", nil, keys, f.node("Unsqueeze", nil, queries, f.ints(1)))
		bias := []float32{.5, -.5, 1, .25, 2, -1, 0, 1, .125, -2, 3, .75}
		rows := f.node("Gather", nil, f.b.Floats("bias", []int64{12}, bias), f.node("Max", nil, f.node("Neg", nil, f.node("Min", nil, apart, f.scalar(0))), f.scalar(0)))
		f.weigh(f.node("Add", nil, f.node("Where", nil, f.causal(), f.real(0), f.real(-1e30)), f.node("Add", nil, s, rows)))
	},
	"Attention without a mask": func(f *former) {
		f.grow()
		f.last = f.node("Attention", nil, f.q, f.presentK, f.presentV)
	},
	"Attention with a mask": func(f *former) {
		f.grow()
		f.last = f.node("Attention", nil, f.q, f.presentK, f.presentV, f.causal())
	},
	"Attention that extends its past": func(f *former) {
		out := f.b.Add(&graph.Node{Op: "Attention", Inputs: []graph.TensorID{f.q, f.k, f.v, graph.None, f.pastK, f.pastV}, Attrs: []*graph.Attr{attr("is_causal", 1)}}, "attended", "present_k", "present_v")
		f.last, f.presentK, f.presentV = out[0], out[1], out[2]
	},
	"heads that share keys": func(f *former) {
		f.grow()
		b := f.ints(2)
		shape := f.node("Concat", []*graph.Attr{attr("axis", 0)}, b, f.ints(2, 3), f.total(), f.ints(4))
		flat := f.node("Concat", []*graph.Attr{attr("axis", 0)}, b, f.ints(6), f.total(), f.ints(4))
		each := func(t graph.TensorID) graph.TensorID {
			return f.node("Reshape", nil, f.node("Expand", nil, f.node("Unsqueeze", nil, t, f.ints(2)), shape), flat)
		}
		q := f.node("Concat", []*graph.Attr{attr("axis", 1)}, f.q, f.q, f.q)
		s := f.node("MatMul", nil, q, f.node("Transpose", intsAttr("perm", 0, 1, 3, 2), each(f.presentK)))
		f.last = f.node("MatMul", nil, f.node("Softmax", nil, s), each(f.presentV))
	},
}

func formed(t *testing.T, build func(f *former)) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("form", 23)
	heads, of := graph.TensorOf(graph.Float32, 2, 2, formNew, 4), graph.TensorOf(graph.Float32, 2, 2, graph.Unknown, 4)
	f := &former{b: b}
	f.q, f.k, f.v = b.Input("q", heads), b.Input("k", heads), b.Input("v", heads)
	f.pastK, f.pastV = b.Input("past_k", of, "", "", "past"), b.Input("past_v", of, "", "", "past")
	build(f)
	y := b.Add(&graph.Node{Op: "Identity", Inputs: []graph.TensorID{f.last}}, "y")[0]
	b.Output(y, f.presentK, f.presentV)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Every form gives the same bits with a fixed capacity as with caches that grow, until the
// caches are full, or nearly the same where a sum has another order.
func TestKVForms(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		t.Run(name, func(t *testing.T) {
			p, _ := plannedModel(t, formed(t, forms[name]), passes.Options{KVCapacity: formCapacity})
			s := newSession(t, p, vm.Options{Poison: true})
			past := map[string]vm.Value{"past_k": vm.Float32s(nil, 2, 2, 0, 4), "past_v": vm.Float32s(nil, 2, 2, 0, 4)}
			for i := range formCapacity / formNew {
				in := map[string]vm.Value{}
				r := rand.New(rand.NewPCG(uint64(i), 5))
				for _, x := range []string{"q", "k", "v"} {
					v := make([]float32, 2*2*formNew*4)
					for j := range v {
						v[j] = r.Float32()*4 - 2
					}
					in[x] = vm.Float32s(v, 2, 2, formNew, 4)
				}
				mask := func(n int) vm.Value { // the second of the batch does not see the first token
					v := make([]int64, 2*n)
					for j := range v {
						if v[j] = 1; j == n {
							v[j] = 0
						}
					}
					return vm.Int64s(v, 2, n)
				}
				total := (i + 1) * formNew
				grows, _ := plannedModel(t, formed(t, forms[name]), passes.Options{Dims: map[string]int64{"past": int64(i * formNew), "total": int64(total)}, SpareDims: true, Effort: schedule.EffortFast})
				masked := slices.ContainsFunc(p.Inputs(), func(t graph.Tensor) bool { return t.Name == "mask" })
				before, now := maps.Clone(in), maps.Clone(in)
				maps.Copy(before, past)
				if masked {
					before["mask"], now["mask"] = mask((i+1)*formNew), mask(formCapacity)
				}
				if slices.ContainsFunc(p.Inputs(), func(t graph.Tensor) bool { return t.Name == "bias" }) {
					bias := []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10}
					before["bias"], now["bias"] = vm.Float32s(slices.Concat(bias[:total], bias[11:11+total]), 2, total), vm.Float32s(bias, 2, formCapacity)
				}
				now[p.KV().Index] = vm.Int64s([]int64{int64(i * formNew)}, 1)
				want, err := newSession(t, grows, vm.Options{}).Run(t.Context(), before)
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.Run(t.Context(), now)
				if err != nil {
					t.Fatal(err)
				}
				past = map[string]vm.Value{"past_k": want["present_k"].Clone(), "past_v": want["present_v"].Clone()}
				nearly(t, got, map[string]vm.Value{"y": want["y"]}, 1e-6)
				if !bytes.Equal(got["y"].Data, want["y"].Data) {
					t.Logf("run %d: other bits", i)
				}
			}
		})
	}
}

// Where the results might differ, the error names the node and says what was expected.
func TestKVRefused(t *testing.T) {
	for name, k := range map[string]struct {
		build func(f *former)
		want  string
	}{
		"weights without a Softmax": {func(f *former) {
			f.last = f.node("MatMul", nil, f.scores(), f.presentV)
		}, `(MatMul): sums over the tokens so far, and neither factor is known to be 0`},
		"positions that are rounded": { // which need a mask of their own, and get it
			func(f *former) {
				s := f.scores()
				half := []*graph.Attr{attr("to", int(graph.Float16))}
				keys := f.node("Cast", half, f.node("Range", nil, f.scalar(0), f.number(f.total()), f.scalar(1)))
				m := f.node("LessOrEqual", nil, keys, f.node("Cast", half, f.past()))
				f.last = f.node("MatMul", nil, f.node("Where", nil, m, s, f.real(0)), f.presentV)
			}, `(MatMul): sums over the tokens so far`,
		},
		"a mean of the values": {func(f *former) {
			f.weigh(f.scores())
			f.last = f.node("ReduceMean", nil, f.presentV, f.ints(2))
		}, `(ReduceMean): reads "present_v", which grows with the tokens: expected attention alone`},
		"a window of the newest keys": {func(f *former) {
			f.scores()
			f.last = f.node("Slice", nil, f.presentK, f.ints(-5), f.ints(1<<62), f.ints(2))
		}, `expected one axis alone to grow`},
		"a flat cache": {func(f *former) {
			f.grow()
			f.last = f.node("Reshape", nil, f.presentK, f.ints(2, -1, 4))
		}, `expected`},
		"a cache that is read itself": {func(f *former) {
			f.weigh(f.scores())
			f.last = f.node("MatMul", nil, f.q, f.node("Transpose", intsAttr("perm", 0, 1, 3, 2), f.pastK))
		}, `expected`},
		"weights that leave": {func(f *former) {
			f.last = f.node("Softmax", nil, f.scores())
		}, `"y": is a graph output whose length or value depends on the tokens so far`},
		"positions beyond a table": {func(f *former) {
			f.weigh(f.scores())
			rows := f.node("Gather", nil, f.b.Floats("table", []int64{6}, make([]float32, 6)), f.past())
			f.last = f.node("Add", nil, f.last, rows)
		}, `expected a capacity of at most 7`},
	} {
		m := formed(t, k.build)
		_, err := passes.Optimize(t.Context(), m, passes.Options{KVCapacity: formCapacity})
		if err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: error %v, expected one with %q", name, err, k.want)
		}
	}
	for name, k := range map[string]struct {
		opt  passes.Options
		want string
	}{
		"a small capacity":  {passes.Options{KVCapacity: 5}, "a capacity of 5 tokens: expected at least 6"},
		"a negative one":    {passes.Options{KVCapacity: -1}, "capacity of -1 tokens"},
		"a length":          {passes.Options{KVCapacity: 12, Dims: map[string]int64{"past": 3}}, `dimension "past" is the length of the caches`},
		"an unknown name":   {passes.Options{KVCapacity: 12, Dims: map[string]int64{"nothing": 3}}, `no dimension "nothing"`},
		"a disabled option": {passes.Options{KVCapacity: 12, Passes: slices.DeleteFunc(passes.Default(), func(p passes.Pass) bool { return p.Name == "kv" })}, `needs pass "kv"`},
	} {
		_, err := passes.Optimize(t.Context(), formed(t, forms["no mask"]), k.opt)
		if err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: error %v, expected one with %q", name, err, k.want)
		}
	}
	if _, err := passes.Optimize(t.Context(), decoder(t, -1), passes.Options{KVCapacity: 12}); err == nil || !strings.Contains(err.Error(), "no graph input is a cache that grows") {
		t.Errorf("a decoder with caches of fixed room: error %v", err)
	}
}
