package passes_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// TestUpdatesOfNamesWithEquals: an entry of the metadata is split where both of its names
// exist, and refused where there are two such places.
func TestUpdatesOfNamesWithEquals(t *testing.T) {
	for _, c := range []struct {
		name, w, updated, other, entry string
		want                           string // the error
	}{
		{name: "a parameter", w: "w=1", updated: "w=1.new", other: "x", entry: "w=1=w=1.new"},
		{name: "names that begin alike", w: "w=1", updated: "y", other: "w", entry: "w=1=y"},
		{name: "two ways", w: "w=1", updated: "y", other: "w", entry: "w=1=y=y", want: "expected INPUT=OUTPUT"},
		{name: "ambiguous", w: "w=1", updated: "y", other: "w", entry: "w=1=y", want: "ambiguous"},
	} {
		b := graph.NewBuilder("step", 17)
		w := b.Input(c.w, graph.TensorOf(graph.Float32, 8, 4))
		x := b.Input(c.other, graph.TensorOf(graph.Float32, 8, 4))
		b.Output(b.Node("Sub", c.updated, w, x))
		if c.want == "ambiguous" {
			b.Output(b.Node("Neg", "1=y", x))
		}
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		m.SetProp("onnxmem.mode", "training")
		m.SetProp("onnxmem.updates", `["`+c.entry+`"]`)
		r, err := passes.Optimize(t.Context(), m, passes.Options{Check: true})
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got error %v, expected %q", c.name, err, c.want)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !slices.ContainsFunc(r.Plan.Buffers, func(b plan.Buffer) bool { return slices.Equal(b.Tensors, []string{c.w, c.updated}) }):
			t.Errorf("%s: %q and %q share no buffer", c.name, c.w, c.updated)
		}
	}
}

// TestTrainsNamesWithEquals: a weight may have any name.
func TestTrainsNamesWithEquals(t *testing.T) {
	b := graph.NewBuilder("net", 18)
	x := b.Input("x", graph.TensorOf(graph.Float32, 8, 4))
	b.Output(b.Node("MatMul", "y", x, b.Floats("w=w.new", []int64{4, 3}, make([]float32, 12))))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	_, p := accepted(t, file(t, m), passes.Options{Train: &autodiff.Options{}})
	if !slices.ContainsFunc(p.Buffers, func(b plan.Buffer) bool { return b.Kind == plan.KindParameter && b.Tensors[0] == "w=w.new" }) {
		t.Error("the weight is no parameter")
	}
}

// handMadeStep is a training graph that no tool of ours wrote: its metadata alone
// say which tensor is a gradient.
func handMadeStep(t *testing.T, gradients string) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("step", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 8, 4))
	w := b.Input("w", graph.TensorOf(graph.Float32, 8, 4))
	h := b.Node("Mul", "h", x, w)
	slope := b.Node("Exp", "slope of w", h)
	scaled := b.Node("Mul", "other.grad", slope, x)
	b.Output(b.Node("Sub", "w.new", w, scaled))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	m.SetProp("onnxmem.mode", "training")
	m.SetProp("onnxmem.updates", `["w=w.new"]`)
	m.SetProp("onnxmem.trainable", `["w"]`)
	if gradients != "" {
		m.SetProp("onnxmem.gradients", gradients)
	}
	return m
}

// TestGradientsThatAreFolded: a gradient that is the same in every step may be a part of
// a folded constant; the list of gradients then no longer names it. That of a gradient
// which is a folded result stays.
func TestGradientsThatAreFolded(t *testing.T) {
	b := graph.NewBuilder("step", 17)
	c, d := b.Floats("c", []int64{4}, make([]float32, 4)), b.Floats("d", []int64{4}, make([]float32, 4))
	w, v := b.Input("w", graph.TensorOf(graph.Float32, 4)), b.Input("v", graph.TensorOf(graph.Float32, 4))
	b.Output(b.Node("Sub", "w.new", w, b.Node("Abs", "scaled", b.Node("Neg", "w.grad", c))))
	b.Output(b.Node("Sub", "v.new", v, b.Node("Neg", "v.grad", d)))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	const given = `["w=w.grad","v=v.grad"]`
	m.SetProp("onnxmem.mode", "training")
	m.SetProp("onnxmem.updates", `["w=w.new","v=v.new"]`)
	m.SetProp("onnxmem.trainable", `["w","v"]`)
	m.SetProp("onnxmem.gradients", given)
	r, err := passes.Optimize(t.Context(), m, passes.Options{Fold: passes.FoldExact, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Model.Graph.Nodes) != 2 {
		t.Errorf("%d nodes: expected the two updates", len(r.Model.Graph.Nodes))
	}
	if left, _ := r.Model.Prop("onnxmem.gradients"); left != `["v=v.grad"]` {
		t.Errorf("gradients %s: expected v's alone", left)
	}
	if was, _ := m.Prop("onnxmem.gradients"); was != given {
		t.Errorf("the model that was given now lists the gradients %s", was)
	}
}

// TestGradientsByMetadata: a buffer is of kind gradient if the model's metadata list
// one of its tensors, whatever the tensors are called.
func TestGradientsByMetadata(t *testing.T) {
	for gradients, want := range map[string]string{
		"":                    plan.KindActivation,
		`[]`:                  plan.KindActivation,
		`["w=slope of w"]`:    plan.KindGradient,
		`["w=slope of w=w"]`:  "",
		`["w"]`:               "",
		`["w=nobody"]`:        "",
		`w=slope of w`:        "",
		`{"w":"slope of w"}`:  "",
		`["w=slope of w", 1]`: "",
	} {
		// With Check, Optimize runs the verifier.
		r, err := passes.Optimize(t.Context(), handMadeStep(t, gradients), passes.Options{NoInplace: true, Check: true})
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "onnxmem.gradients") {
				t.Errorf("%s: got error %v, expected one on onnxmem.gradients", gradients, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", gradients, err)
			continue
		}
		found := ""
		for _, b := range r.Plan.Buffers {
			switch b.Tensors[0] {
			case "slope of w":
				found = b.Kind
			case "other.grad":
				if b.Kind == plan.KindGradient {
					t.Errorf("%s: a tensor that is not listed is called a gradient", gradients)
				}
			}
		}
		if found != want {
			t.Errorf("%s: the gradient's buffer is of kind %q, expected %q", gradients, found, want)
		}
	}
}

// TestGradientsWithoutUpdates: a training graph that updates nothing has gradients,
// too, for the planner and for the verifier.
func TestGradientsWithoutUpdates(t *testing.T) {
	m := handMadeStep(t, `["w=slope of w"]`)
	m.SetProp("onnxmem.updates", `[]`)
	_, p := accepted(t, file(t, m), passes.Options{NoInplace: true})
	for _, b := range p.Buffers {
		if want := plan.KindGradient; b.Tensors[0] == "slope of w" && b.Kind != want {
			t.Errorf("the gradient's buffer is of kind %q, expected %q", b.Kind, want)
		}
	}
}

// TestUpdatesLastInSlices: where regions of updates run in slices, too, all updates follow all
// other nodes. A copy in a slice is an update if its node is one; it was none, so a node of
// the update had to run before the first update.
func TestUpdatesLastInSlices(t *testing.T) {
	sliced := 0
	for _, optimizer := range []string{"sgd", "momentum", "adam", "adamw"} {
		for _, mode := range []passes.Slices{passes.SlicesExact, passes.SlicesAny} {
			b := graph.NewBuilder("net", 18)
			x := b.Input("x", graph.TensorOf(graph.Float32, 4, 1, 12, 8))
			w := b.Floats("w", []int64{4, 1, 12, 1}, make([]float32, 48))
			v := b.Floats("v", []int64{1}, make([]float32, 1))
			y := b.Node("Div", "y", x, b.Node("Add", "sum", b.Node("Abs", "size", w), v))
			mean := b.Add(&graph.Node{Op: "ReduceMean", Inputs: []graph.TensorID{y}, Attrs: []*graph.Attr{{Name: "keepdims", Type: graph.AttrInt}}}, "objective")[0]
			b.Output(mean)
			m, err := b.Model()
			if err != nil {
				t.Fatal(err)
			}
			found, p := accepted(t, file(t, m), passes.Options{
				Slices: mode, ExtraPercent: 50, Fold: passes.FoldAny, UpdatesLast: true,
				Train: &autodiff.Options{Loss: "none:objective", Optimizer: optimizer, KeepGradients: true, Trainable: regexp.MustCompile("^[wv]$")},
			})
			if p.Slices == nil {
				continue
			}
			sliced++
			if m, err = onnx.Parse("out.onnx", found); err != nil {
				t.Fatal(err)
			}
			first, last := -1, -1
			for i, n := range m.Graph.Nodes {
				switch phase, _ := n.Prop("onnxmem.phase"); {
				case phase != "update":
					last = i
				case first < 0:
					first = i
				}
			}
			if first >= 0 && last > first {
				t.Errorf("%s, slices %v: %s runs before %s", optimizer, mode, m.Graph.Label(graph.NodeID(first)), m.Graph.Label(graph.NodeID(last)))
			}
		}
	}
	if sliced < 2 {
		t.Errorf("%d steps run in slices: nothing is tested", sliced)
	}
}
