package autodiff

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// spelledAttention is attention between projections of one input, with what a case puts between
// the scores and the weights.
func spelledAttention(name string, opset int64, between func(b *builder, scores ID) ID) (*graph.Model, map[string]*reference.Tensor) {
	const batch, places, width, heads = 2, 5, 6, 2
	b := newBuilder("attention "+name, opset)
	x := b.input("x", b.real(batch, places, width))
	shape := b.initializer("heads", &reference.Tensor{Type: graph.Int64, Shape: []int{4}, I: []int64{batch, places, heads, width / heads}})
	part := func(name string, perm ...int64) ID {
		t := b.op(name, "MatMul", nil, x, b.weights(name+".weight", width, width))
		return b.op(name+".turned", "Transpose", attrs{"perm": perm}, b.op(name+".heads", "Reshape", nil, t, shape))
	}
	scores := b.op("scores", "MatMul", nil, part("q", 0, 2, 1, 3), part("k", 0, 2, 3, 1))
	scores = between(b, b.op("scaled", "Mul", nil, scores, b.constant("scale", 0.6)))
	y := b.op("y", "MatMul", nil, scores, part("v", 0, 2, 1, 3))
	b.feeds[labelsName] = b.real(batch, heads, places, width/heads)
	return b.finish(y), b.feeds
}

// softmax adds the Softmax.
func (b *builder) softmax(scores ID) ID {
	return b.op("weights", "Softmax", attrs{"axis": -1}, scores)
}

// constant is a float32 without axes that is not trained.
func (b *builder) constant(name string, v float64) ID {
	return b.initializer(name, &reference.Tensor{Type: graph.Float32, Shape: []int{}, F: []float64{v}})
}

// masked are flags for pairs of places.
func (b *builder) masked(seen func(i, j int) bool) ID {
	t := &reference.Tensor{Type: graph.Bool, Shape: []int{5, 5}}
	for i := range 5 {
		for j := range 5 {
			v := int64(0)
			if seen(i, j) {
				v = 1
			}
			t.I = append(t.I, v)
		}
	}
	return b.initializer("seen", t)
}

// attentionForms are the forms in which models spell attention, and whether they become one node.
var attentionForms = []struct {
	name    string
	is      bool
	says    string // part of the note, if it stays as it is
	between func(b *builder, scores ID) ID
}{
	{"plain", true, "", func(b *builder, s ID) ID { return b.softmax(s) }},
	{"bias", true, "", func(b *builder, s ID) ID {
		return b.softmax(b.op("biased", "Add", nil, b.input("bias", b.real(2, 1, 1, 5)), s))
	}},
	{"causal", true, "", func(b *builder, s ID) ID {
		seen := b.masked(func(i, j int) bool { return j <= i })
		return b.softmax(b.op("kept", "Where", nil, seen, s, b.constant("least", -1e4)))
	}},
	{"replaced where a flag is set", true, "", func(b *builder, s ID) ID {
		hidden := b.masked(func(i, j int) bool { return j > i })
		return b.softmax(b.op("kept", "Where", nil, hidden, b.constant("least", -3e38), b.op("biased", "Add", nil, s, b.input("bias", b.real(5)))))
	}},
	{"rows without keys", true, "", func(b *builder, s ID) ID {
		seen := b.masked(func(i, j int) bool { return j < i })
		s = b.softmax(b.op("kept", "Where", nil, seen, s, b.constant("least", math.Inf(-1))))
		return b.op("safe", "Where", nil, b.op("undefined", "IsNaN", nil, s), b.constant("zero", 0), s)
	}},
	{"trained bias", false, "1 of 1 attentions keep their scores: what is added to these is trained", func(b *builder, s ID) ID {
		return b.softmax(b.op("biased", "Add", nil, s, b.weights("bias.weight", 2, 5, 5)))
	}},
	{"weights are read elsewhere", false, "", func(b *builder, s ID) ID {
		p := b.softmax(s)
		return b.op("both", "Mul", nil, p, b.op("again", "Tanh", nil, p))
	}},
	{"along another axis", false, "in a form that is not known", func(b *builder, s ID) ID {
		return b.op("weights", "Softmax", attrs{"axis": 2}, s)
	}},
	{"dropout of weights", false, "a Dropout follows the Softmax", func(b *builder, s ID) ID {
		return b.op("dropped", "Dropout", attrs{"seed": 3}, b.softmax(s), b.constant("ratio", 0.5))
	}},
}

// TestAttention: attention becomes one node, and its gradient another, in the forms in which that
// is the same; the loss and all gradients are those of the step without, by the operators, by
// their functions, and by the nodes of the functions.
func TestAttention(t *testing.T) {
	for _, c := range attentionForms {
		t.Run(c.name, func(t *testing.T) {
			m, feeds := spelledAttention(c.name, 18, c.between)
			opt := Options{Loss: "mse", KeepGradients: true}
			plain := train(t, m, opt)
			opt.Attention = true
			step := train(t, m, opt)
			var calls []string
			for _, n := range step.Model.Graph.Nodes {
				if n.Domain == fusedDomain {
					calls = append(calls, n.Op)
				}
			}
			if want := []string{graph.FlashAttention, graph.FlashAttentionGrad}; c.is != slices.Equal(calls, want) || !c.is && calls != nil {
				t.Fatalf("calls of %v, expected attention to be one node: %t", calls, c.is)
			}
			if notes := strings.Join(step.Warnings, "\n"); !strings.Contains(notes, c.says) || c.is && strings.Contains(notes, "--attention") {
				t.Errorf("notes %q, expected %q", notes, c.says)
			}
			given, names := feedsOf(t, plain, feeds), append(gradientsOf(plain), "loss")
			want, err := reference.Eval(plain.Model, given, names...)
			if err != nil {
				t.Fatal(err)
			}
			inlined, err := graph.Inline(step.Model)
			if err != nil {
				t.Fatal(err)
			}
			operator := *step.Model
			operator.Functions = nil
			for what, m := range map[string]*graph.Model{"function": step.Model, "inlined": inlined, "operator": &operator} {
				got, err := reference.Eval(m, given, names...)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for _, name := range names {
					for i, v := range got[name].F {
						if w := want[name].F[i]; !(math.Abs(v-w) <= 2e-6*max(1, math.Abs(w))) {
							t.Errorf("%s: element %d of %s is %v, expected %v", what, i, name, v, w)
						}
					}
				}
			}
		})
	}
}

// TestSharedHeads: keys and values that a model repeats for several heads of queries are those of the node
// without repetitions; the loss and all gradients stay.
func TestSharedHeads(t *testing.T) {
	const batch, places, width, heads, groups = 2, 5, 8, 4, 2
	b := newBuilder("attention of shared heads", 18)
	x := b.input("x", b.real(batch, places, width))
	list := func(name string, v ...int64) ID {
		return b.initializer(name, &reference.Tensor{Type: graph.Int64, Shape: []int{len(v)}, I: v})
	}
	part := func(name string, n int) ID {
		y := b.op(name, "MatMul", nil, x, b.weights(name+".weight", width, n*width/heads))
		y = b.op(name+".heads", "Reshape", nil, y, list(name+".shape", batch, places, int64(n), width/heads))
		return b.op(name+".turned", "Transpose", attrs{"perm": []int64{0, 2, 1, 3}}, y)
	}
	axis, wide, whole := list("axis", 2), list("wide", batch, groups, heads/groups, places, width/heads), list("whole", batch, heads, places, width/heads)
	repeated := func(name string) ID {
		y := b.op(name+".axis", "Unsqueeze", nil, part(name, groups), axis)
		return b.op(name+".all", "Reshape", nil, b.op(name+".wide", "Expand", nil, y, wide), whole)
	}
	k := b.op("k.columns", "Transpose", attrs{"perm": []int64{0, 1, 3, 2}}, repeated("k"))
	k = b.op("k.scaled", "Mul", nil, k, b.constant("scale", 0.6))
	y := b.op("y", "MatMul", nil, b.softmax(b.op("scores", "MatMul", nil, part("q", heads), k)), repeated("v"))
	b.feeds[labelsName] = b.real(batch, heads, places, width/heads)
	m := b.finish(y)
	plain := train(t, m, Options{Loss: "mse", KeepGradients: true})
	step := train(t, m, Options{Loss: "mse", KeepGradients: true, Attention: true})
	var found bool
	for _, n := range step.Model.Graph.Nodes {
		if phase, _ := n.Prop(keyPhase); phase != phaseForward {
			continue
		}
		switch n.Op {
		case graph.FlashAttention:
			found = true
			for _, in := range n.Inputs[1:3] {
				if got := step.Model.Graph.Tensors[in].Type.Shape[1]; got != groups {
					t.Errorf("%d heads of keys or values, expected %d", got, groups)
				}
			}
		case "Expand":
			t.Errorf("%s repeats heads", n.Name)
		}
	}
	if !found {
		t.Fatal("attention did not become one node")
	}
	given, names := feedsOf(t, plain, b.feeds), append(gradientsOf(plain), "loss")
	want, err := reference.Eval(plain.Model, given, names...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := reference.Eval(step.Model, given, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for i, v := range got[name].F {
			if w := want[name].F[i]; !(math.Abs(v-w) <= 2e-6*max(1, math.Abs(w))) {
				t.Errorf("element %d of %s is %v, expected %v", i, name, v, w)
			}
		}
	}
}
