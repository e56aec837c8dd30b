package autodiff

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// TestRefused: Train refuses what it cannot differentiate, and names the node and, if
// one is the cause, the tensor.
func TestRefused(t *testing.T) {
	none := attrs{}
	for _, k := range []struct {
		c      ruleCase
		opset  int64
		expect string
	}{
		{ruleCase{op: "Range", in: []operand{param().of(0).fixed(), param().of(4), param().of(1).fixed()}}, 18, `node "y0/Range" (Range): tensor "p1": operator Range has no gradient: the length of its result depends on its inputs`},
		{ruleCase{op: "ScatterElements", in: []operand{param(3), indices([]int{1}, 1), param(1)}, attrs: attrs{"reduction": "mean"}}, 18, `reduction "mean"`},
		{ruleCase{op: "GridSample", in: []operand{param(1, 1, 3, 3), param(1, 2, 2, 2)}, attrs: attrs{"mode": "cubic"}}, 20, `mode "cubic" has no gradient rule`},
		{ruleCase{op: "MaxPool", in: []operand{param(1, 1, 4, 4)}, attrs: attrs{"kernel_shape": []int64{2, 2}, "storage_order": 1}}, 18, `storage_order is 1`},
		{ruleCase{op: "Slice", in: []operand{param(4), list(0).fed(), list(2).fed()}}, 18, `expected a fixed shape on a path to the loss`},
		{ruleCase{op: "Resize", in: []operand{param(1, 1, 4, 4), omitted, factors(1, 1, 0.5, 0.5)}, attrs: attrs{"mode": "linear", "antialias": 1}}, 18, `antialias is 1`},
		{ruleCase{op: "LSTM", in: []operand{param(3, 2, 2), param(1, 8, 2), param(1, 8, 2)}, attrs: attrs{"hidden_size": 2, "clip": 1.0}}, 18, `attribute clip is set`},
		{ruleCase{op: "LSTM", in: []operand{param(3, 2, 2), param(1, 8, 2), param(1, 8, 2), omitted, list32(2, 3).fed()}, attrs: attrs{"hidden_size": 2}}, 18, `input 4 (sequence_lens)`},
		{ruleCase{op: "BatchNormalization", in: []operand{param(2, 3), param(3), param(3), param(3).fixed(), param(3).in(1, 2).fixed()}, attrs: attrs{"spatial": 0}}, 7, `spatial is 0`},
		{ruleCase{op: "Add", in: []operand{param(2), param(2)}, attrs: none}, 6, `is of opset 6: expected opset 7 or later`},
		{ruleCase{op: "Det", in: []operand{param(100, 100)}}, 18, `node "y0/Det" (Det): the minors of matrices of shape [100 100] have 10000 times the elements: expected at most 67108864`},
		{ruleCase{op: "Col2Im", in: []operand{param(1, 8193, 1), list(8193), list(8193)}}, 18, `a block of shape [8193]: expected at most 8192 elements`},
		{ruleCase{op: "RoiAlign", in: []operand{param(1, 1, 4, 4), param(1, 4).fed(), indices([]int{1}, 0)}}, 18, `sampling_ratio is 0, so that the number of samples depends on the regions`},
		{ruleCase{op: "RoiAlign", in: []operand{param(1, 1, 4, 4), param(1, 4).fed(), indices([]int{1}, 0)}, attrs: attrs{"mode": "max", "sampling_ratio": 1}}, 18, `mode "max" has no gradient rule`},
		{ruleCase{op: "MaxRoiPool", in: []operand{param(1, 1, 4, 1<<13), param(1, 5).fed()}, attrs: attrs{"pooled_shape": []int64{2, 1 << 13}}}, 18, `expected at most 67108864 elements in the rows of a region`},
		{ruleCase{op: "STFT", in: []operand{param(1, 1<<14, 1), number(1), param(1 << 13)}}, 18, `8193 frames of 8192 elements, 1 apart: expected at most 67108864 places`},
		{ruleCase{op: "AffineGrid", in: []operand{param(1, 2, 3), list(1, 1, 1<<27, 1)}}, 20, `an axis of 134217728 places: expected at most 67108864`},
		{ruleCase{domain: microsoft, op: "MoE", in: []operand{param(4).as(graph.Float32), param(4, 3).as(graph.Float32), param(3, 5, 4).as(graph.Float32), omitted, param(3, 4, 5).as(graph.Float32)}}, 18, `expected two or three axes, and three`},
		{ruleCase{domain: microsoft, op: "GroupQueryAttention", in: []operand{param(1, 2, 8).as(graph.Float32), param(1, 2, 8).as(graph.Float32), param(1, 2, 8).as(graph.Float32), omitted, omitted, list32(1), list32(2)}, attrs: attrs{"num_heads": 1, "kv_num_heads": 1, "do_rotary": 1}}, 18, `as do_rotary is set`},
		{ruleCase{domain: microsoft, op: "MRotaryEmbedding", in: []operand{param(1, 2, 4).as(graph.Float32), indices([]int{1, 2}, 0, 1), param(2, 2).as(graph.Float32), param(2, 2).as(graph.Float32)}, attrs: attrs{"mrope_section": []int64{1, 1, 0}}}, 18, `expected three or four axes, three positions for each token`},
		{ruleCase{op: "LinearAttention", in: []operand{param(1, 2, 4).as(graph.Float32), param(1, 2, 4).as(graph.Float32), param(1, 2, 4).as(graph.Float32), omitted, param(2, 4).as(graph.Float32)}, attrs: attrs{"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "gated"}}, 27, `decay has shape [2 4]`},
		{ruleCase{op: "Compress", in: []operand{param(4), flags([]int{4}, 1, 0, 1, 1)}}, 18, `expected a fixed shape on a path to the loss`},
	} {
		m := k.c.squared(k.opset)
		_, err := Train(m, Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`)})
		var at *graph.Error
		if !errors.As(err, &at) || !strings.Contains(err.Error(), k.expect) {
			t.Errorf("%s: error %v, expected one with %q", k.c.op, err, k.expect)
		}
	}
}

// TestRefusedInBranches: so does Train where the node stands in a branch.
func TestRefusedInBranches(t *testing.T) {
	b := newBuilder("branches", 26)
	w := b.initializer("w", b.value(operand{shape: []int{1, 1, 4, 4}, elem: graph.Float32}))
	c := b.input("c", &reference.Tensor{Type: graph.Bool, Shape: []int{}, I: []int64{1}})
	y := b.op("y", "If", nil, c)
	n := b.m.Graph.Nodes[0]
	for _, name := range []string{"then_branch", "else_branch"} {
		n.Attrs = append(n.Attrs, chain(name, "w", w, &graph.Node{Name: name + ".bits", Op: "BitCast", Attrs: attrs{"to": graph.Float32}.list()}))
	}
	n.SetCaptures()
	m := b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, y))
	_, err := Train(m, Options{Loss: "none:objective", Trainable: everything})
	if err == nil || !strings.Contains(err.Error(), "_branch.bits") || !strings.Contains(err.Error(), "operator BitCast has no gradient") {
		t.Errorf("error %v, expected one that names the node", err)
	}
}

// squared builds a model whose loss is the sum of the squares of output 0. Unlike model,
// it does not run the node.
func (c *ruleCase) squared(opset int64) *graph.Model {
	b := newBuilder(c.op, opset)
	var in []ID
	for i, o := range c.in {
		switch name := string(rune('0' + i)); {
		case o.absent:
			in = append(in, graph.None)
		case o.param:
			in = append(in, b.initializer("p"+name, b.value(o)))
		case o.known:
			in = append(in, b.initializer("c"+name, b.value(o)))
		default:
			in = append(in, b.input("x"+name, b.value(o)))
		}
	}
	y := b.node(c.domain, c.op, c.attrs, in, "y0")[0]
	return b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, b.op("square", "Mul", nil, y, y)))
}

// TestOptionsRefused: Train refuses options that fit no model, or not this one.
func TestOptionsRefused(t *testing.T) {
	axis := 7
	for _, k := range []struct {
		opt    Options
		option bool // the option is wrong for every model
		expect string
	}{
		{Options{Loss: "hinge"}, true, `loss "hinge": expected one of cross-entropy, mse`},
		{Options{Optimizer: "lion"}, true, `optimizer "lion": expected one of sgd, momentum, adam, adamw`},
		{Options{Optimizer: "adam", Constants: map[string]float64{"momentum": 0.9}}, true, `optimizer adam has no constant "momentum"`},
		{Options{Optimizer: "adam", Constants: map[string]float64{"beta1": 1}}, true, `beta1 is 1`},
		{Options{ClipNorm: -1}, true, `clip norm -1`},
		{Options{Accumulate: -1}, true, `accumulate -1`},
		{Options{LossScale: &LossScale{}}, true, `loss scale 0: expected a number above 0`},
		{Options{LossScale: &LossScale{Initial: 1, Dynamic: true, Growth: 2, Backoff: 1, Interval: 1}}, true, `backoff is 1`},
		{Options{Groups: []ParamGroup{{Name: "a b", Match: everything}}}, true, `group "a b": expected a name of letters`},
		{Options{Groups: []ParamGroup{{Name: "a", Match: everything}, {Name: "a", Match: everything}}}, true, `group "a": expected each name once`},
		{Options{Groups: []ParamGroup{{Name: "a", Match: everything, Constants: map[string]float64{"beta1": 0.5}}}}, true, `group "a": optimizer sgd has no constant "beta1"`},
		{Options{Groups: []ParamGroup{{Name: "a", Match: everything}, {Name: "b", Match: everything}}}, false, `group "b" has no parameter`},
		{Options{LossOutput: "nowhere"}, false, `output "nowhere" not found: expected one of logits`},
		{Options{Loss: "none:logits"}, false, `expected a loss of one element`},
		{Options{ClassAxis: &axis}, false, `expected a class axis 7`},
		{Options{Freeze: everything}, false, `no parameter to train`},
		{Options{Trainable: regexp.MustCompile("unread")}, false, `tensor "unread": matches --trainable, and the loss does not depend on it`},
	} {
		m, _ := perceptron(0)
		id := m.Graph.NewTensor("unread")
		m.Graph.Tensors[id].Data = m.Graph.Tensors[m.Graph.Nodes[0].Inputs[1]].Data
		_, err := Train(m, k.opt)
		var option *OptionError
		if err == nil || !strings.Contains(err.Error(), k.expect) || errors.As(err, &option) != k.option {
			t.Errorf("%+v: error %v, expected one with %q", k.opt, err, k.expect)
		}
	}
}

// TestLossOnUnknownShape: the error blames the shape, not the class axis.
func TestLossOnUnknownShape(t *testing.T) {
	b := newBuilder("slice", 18)
	in := []ID{b.initializer("p0", b.value(param(4, 3))), b.input("x1", b.value(list(0).fed())), b.input("x2", b.value(list(2).fed()))}
	m := b.finish(b.node("", "Slice", nil, in, "y0")[0])
	_, err := Train(m, Options{Trainable: regexp.MustCompile("^p0$")})
	if tensor, fault := `tensor "y0": has type`, "expected a fixed shape"; err == nil || !strings.Contains(err.Error(), tensor) || !strings.Contains(err.Error(), fault) {
		t.Errorf("error %v, expected one with %q and %q", err, tensor, fault)
	}
}

// TestLossOverOneClass: cross-entropy over one class would be 0 for every output.
func TestLossOverOneClass(t *testing.T) {
	b := newBuilder("one class", 18)
	m := b.finish(b.op("y", "MatMul", nil, b.input("x", b.real(3, 4)), b.weights("w", 4, 1)))
	_, err := Train(m, Options{})
	if want := `tensor "y": has type float32[3,1]: cross-entropy over one class is always 0: expected two or more along axis 1 (--class-axis), or --loss bce`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, expected one with %q", err, want)
	}
	if _, err := Train(m, Options{Loss: "bce"}); err != nil {
		t.Error(err)
	}
}

// TestStepOfAStep: a training step is not trained again.
func TestStepOfAStep(t *testing.T) {
	m, _ := perceptron(0)
	_, err := Train(train(t, m, Options{}).Model, Options{})
	if want := "is a training step already"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, expected one with %q", err, want)
	}
}

// TestRefusedTogether: an error about an operator without a gradient names all of them that stand
// between parameters and the loss, and those alone.
func TestRefusedTogether(t *testing.T) {
	b := graph.NewBuilder("several", 18)
	b.Import("com.acme", 1)
	four := graph.TensorOf(graph.Float32, 4)
	x := b.Input("x", four)
	w := b.Floats("w", []int64{4}, []float32{1, 2, 3, 4})
	at := func(op, name string, in ...graph.TensorID) graph.TensorID {
		id := b.Add(&graph.Node{Domain: "com.acme", Op: op, Inputs: in}, name)[0]
		b.Declare(id, four)
		return id
	}
	y := b.Node("Mul", "y", at("Far", "far", x), at("Near", "near", at("Middle", "middle", w)))
	b.Output(b.Node("ReduceSum", "total", y))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Train(m, Options{Loss: "none:total", Trainable: regexp.MustCompile("^w$")})
	if want := "operators without one on the way to the loss: Middle, com.acme; Near, com.acme)"; err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Far") {
		t.Errorf("got %v, want %q", err, want)
	}
}
