package passes_test

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

// TestCheckedIsTheSame: the plan and the file have the same bytes when lists without order are
// shuffled before each pass.
func TestCheckedIsTheSame(t *testing.T) {
	for _, c := range []struct {
		name, file string
		opt        passes.Options
	}{
		{"a network", "light/light_squeezenet.onnx", passes.Options{}},
		{"compact slices", "tiny_resnet8", passes.Options{Limit: &passes.Limit{Percent: 70}, Slices: passes.SlicesExact, Compact: true}},
		{"slices", "light/groupnorm.onnx", passes.Options{Limit: &passes.Limit{Percent: 75}, Slices: passes.SlicesExact}},
		{"a training step with a limit", "light/light_squeezenet.onnx", passes.Options{Train: &autodiff.Options{}, Limit: &passes.Limit{Percent: 90}}},
		{"the sharing of a runtime", "light/light_squeezenet.onnx", passes.Options{Runtime: "onnxruntime", Schedule: "program"}},
		{"another training step", "light/heads.onnx", passes.Options{Fold: passes.FoldAny, Train: &autodiff.Options{}}},
		{"bodies", "functions/bodies.onnx", passes.Options{}},
		{"functions, inlined", "functions/calls.onnx", passes.Options{InlineFunctions: true}},
		{"loops", "functions/loops.onnx", passes.Options{}},
		{"caches of GPT-2", "decoders/gpt2.onnx", passes.Options{KVCapacity: 32}},
		{"caches of Llama", "decoders/llama.onnx", passes.Options{KVCapacity: 32}},
	} {
		plan := func(check bool) string {
			var m *graph.Model
			if strings.Contains(c.file, "/") {
				f, err := onnx.Open(filepath.Join("..", "testdata", filepath.FromSlash(c.file)), onnx.ReadOptions{AllowMissingWeights: true})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				m = f.Model
			} else {
				var err error
				if m, err = models.Build(c.file, models.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			opt := c.opt
			opt.Check, opt.Effort = check, schedule.EffortFast
			r, err := passes.Optimize(t.Context(), m, opt)
			if err != nil {
				return err.Error()
			}
			im, err := onnx.Encode(r.Model)
			if err != nil {
				t.Fatal(err)
			}
			b, err := im.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(r.Plan)
			if err != nil {
				t.Fatal(err)
			}
			return string(b) + string(text) + strings.Join(r.Warnings, "\n")
		}
		without, with := plan(false), plan(true)
		if without != with {
			t.Errorf("%s: %d bytes of file and plan, with shuffled lists %d other ones: %.500s", c.name, len(without), len(with), with)
		}
		if len(without) < 1000 {
			t.Errorf("%s: %s", c.name, without)
		}
	}
}

const pool = `ir 8
opset 17
opset com.acme 1
opset org.other 2
in x float32[2,8,8,8]
y = MaxPool(x) ceil_mode=0 dilations=[1, 1] kernel_shape=[3, 3] pads=[1, 1, 1, 1] strides=[2, 2] #pool {"a"="1", "b"="2", "c"="3"}
z = Identity(y) #last
out z
`

// TestShuffled: passes see lists in another order, each in its own. After a pass that adds to
// a list, takes from it and copies its node, all of them have their order again.
func TestShuffled(t *testing.T) {
	orders := map[string]bool{}
	look := func(m *graph.Model) {
		orders[strings.Join(strings.Split(graph.Text(m), "\n")[:6], "\n")] = true
	}
	var own []passes.Pass
	for _, name := range []string{"first", "second"} {
		own = append(own, passes.Pass{Name: name, Run: func(_ context.Context, s *passes.State) error {
			look(s.Model())
			return nil
		}})
	}
	own = append(own, passes.Pass{Name: "edit", Run: func(_ context.Context, s *passes.State) error {
		m := s.Model()
		look(m)
		m.Opsets = append(m.Opsets, graph.Opset{Domain: "added", Version: 1})
		old := m.Graph.Nodes[0]
		twin := &graph.Node{Op: old.Op, Name: "twin", Inputs: slices.Clone(old.Inputs), Outputs: []graph.TensorID{m.Graph.NewTensor("twin")}, Props: slices.Clone(old.Props)}
		for _, a := range old.Attrs {
			twin.Attrs = append(twin.Attrs, a.Clone())
		}
		m.Graph.Nodes = slices.Insert(m.Graph.Nodes, 1, twin)
		m.Graph.Nodes[2].Inputs[0] = twin.Outputs[0]
		old.Attrs = slices.DeleteFunc(old.Attrs, func(a *graph.Attr) bool { return a.Name == "pads" })
		old.SetProp("added", "4")
		m.Graph.Link()
		s.Invalidate()
		return nil
	}})
	built, err := graph.Parse("pool", pool)
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(built)
	if err != nil {
		t.Fatal(err)
	}
	b, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse("pool", b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := passes.Optimize(t.Context(), m, passes.Options{Passes: own, Check: true, NoVerify: true}); err != nil {
		t.Fatal(err)
	}
	if orders[strings.Join(strings.Split(pool, "\n")[:6], "\n")] || len(orders) != 3 {
		t.Errorf("three passes saw these lists, expected three different ones: %q", slices.Sorted(maps.Keys(orders)))
	}
	want := strings.NewReplacer(`opset org.other 2`, "opset org.other 2\nopset added 1",
		`pads=[1, 1, 1, 1] strides=[2, 2] #pool {"a"="1", "b"="2", "c"="3"}`, `strides=[2, 2] #pool {"a"="1", "b"="2", "c"="3", "added"="4"}
twin = MaxPool(x) ceil_mode=0 dilations=[1, 1] kernel_shape=[3, 3] pads=[1, 1, 1, 1] strides=[2, 2] #twin {"a"="1", "b"="2", "c"="3"}`,
		"Identity(y)", "Identity(twin)").Replace(pool)
	if diff := cmp.Diff(want, graph.Text(m)); diff != "" {
		t.Error(diff)
	}
}

// TestPrinted: the graph is printed after the passes that are named, and with Check wherever
// it changes.
func TestPrinted(t *testing.T) {
	print := func(opt passes.Options) string {
		m, err := graph.Parse("net", "ir 8; opset 17; in x float32[n]; init k float32[] = 2; y = Mul(x, k) #mul; out y")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		opt.Printed, opt.Dims = &b, map[string]int64{"n": 3}
		if _, err := passes.Optimize(t.Context(), m, opt); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const given = "ir 8\nopset 17\nin x float32[n]\ninit k float32[] = 2\ny = Mul(x, k) #mul\nout y\n"
	typed := strings.NewReplacer("float32[n]\n", "float32[n]  // float32[3]\n", "#mul\n", "#mul  // float32[3]\n").Replace(given)
	for _, c := range []struct {
		name string
		opt  passes.Options
		want string
	}{
		{"nothing asked", passes.Options{}, ""},
		{"after two passes", passes.Options{PrintAfter: []string{"infer", "kv"}}, "// after pass kv\n" + given + "// after pass infer\n" + typed},
	} {
		if diff := cmp.Diff(c.want, print(c.opt)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	all := print(passes.Options{Check: true})
	for _, part := range []string{
		"// before pass adapt\n" + given + "// after pass adapt: the same\n// after pass attention: the same\n// after pass precision: the same\n// after pass train: the same\n", "// after pass infer\n" + typed + "// after pass fold: the same\n",
		"// after pass annotate\n", `y = Mul(x, k) #mul @ arena:0:64  // float32[3]`,
	} {
		if !strings.Contains(all, part) {
			t.Errorf("no %q in\n%s", part, all)
		}
	}
	m, _ := graph.Parse("net", pool)
	_, err := passes.Optimize(t.Context(), m, passes.Options{PrintAfter: []string{"ordr"}})
	if want := `graph after pass "ordr": expected one of adapt, attention, precision, train, inline, kv, infer, fold, `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
