package verify_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// TestBodiesBesideRepetitions: where nodes run again, or tensors are copied between pools,
// bodies keep the order that they had before, whatever strategy orders the nodes. Else the
// loads in program order would count other workspaces than the plan has.
func TestBodiesBesideRepetitions(t *testing.T) {
	x := text{
		main: `
			in x float32[1,1,32,32]
			in p bool[]
			init w float32[16,1,1,1] = ...
			a = Conv(x, w)
			b = MaxPool(a) kernel_shape=[8, 8] strides=[8, 8]
			taken = If(p)
			c = Sigmoid(a)
			d = Tanh(c)
			e = Mul(c, d)
			f = MaxPool(e) kernel_shape=[8, 8] strides=[8, 8]
			h = Mul(f, taken)
			out h
			r = Relu(a)
			s = MaxPool(r) kernel_shape=[8, 8] strides=[8, 8]
			g = Add(s, f)
			out g
		`,
		bodies: map[string]string{
			// A strategy that turns the order around gives the first one when it is asked again.
			"taken.then_branch": `
				k = Concat(b, b) axis=1
				q = ReduceMean(k) keepdims=0
				l = Sigmoid(b)
				u = Mul(l, q)
				v = ReduceMax(u) keepdims=0
				out v
			`,
			"taken.else_branch": "e = ReduceMax(b) keepdims=0\nout e",
		},
	}
	again, moved := 0, 0
	for _, name := range []string{"", "reverse-dfs", "dfs", "bfs", "greedy", "lpmf"} {
		for _, opt := range []passes.Options{
			{Schedule: name, ExtraPercent: 50},
			{Schedule: name, Limit: &passes.Limit{Percent: 80}},
			{Schedule: name, Pools: []passes.Pool{{Name: "fast", Capacity: 70_000}, {Name: "slow", Capacity: 400_000}}},
		} {
			found, err := passes.Optimize(t.Context(), x.build(t), opt)
			if limit := new(passes.LimitError); errors.As(err, &limit) {
				continue // there is none of so many bytes
			}
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			for _, x := range found.GivenUp {
				t.Errorf("%q: %+v", name, x)
			}
			for i, st := range found.Plan.Steps {
				if st.Again != nil {
					again++
				} else if found.Model.Graph.Nodes[i].IsSwap() {
					moved++
				}
			}
		}
	}
	if again < 6 || moved < 2 {
		t.Errorf("%d nodes that run again, %d that copy tensors: expected more", again, moved)
	}
}

// TestFirstRunsAreWhole: a repetition leaves out outputs that nobody reads from it. The search
// for an order may put it in front of the first run only if that leaves them out, too.
func TestFirstRunsAreWhole(t *testing.T) {
	x := text{main: `
		in x float32[3,5,6,6]
		init w float32[6] = ...
		a = Add(x, w)
		b = Sigmoid(a)
		c = MaxPool(b) kernel_shape=[3, 5] pads=[1, 2, 1, 2]
		d = SpaceToDepth(c) blocksize=2
		y = Softmax(d) axis=1
		out y
	`}
	again := 0
	for _, percent := range []float64{2, 5, 10, 20} {
		for _, last := range []bool{false, true} {
			found, err := passes.Optimize(t.Context(), x.build(t), passes.Options{Train: &autodiff.Options{Loss: "mse"}, UpdatesLast: last, ExtraPercent: percent})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range found.GivenUp {
				t.Errorf("%g %%: %+v", percent, x)
			}
			for i, st := range found.Plan.Steps {
				if st.Again != nil && found.Model.Graph.Nodes[i].Op == "MaxPool" {
					again++
				}
			}
		}
	}
	if again == 0 {
		t.Error("no MaxPool runs again")
	}
}

// TestFirstRunsReadStatistics: a repetition of a BatchNormalization reads zeros in place of the
// statistics that the first run writes over. The search for an order must not put it first.
func TestFirstRunsReadStatistics(t *testing.T) {
	x := text{main: `
		in x float32[2,12]
		init scale float32[12] = ...
		init bias float32[12] = ...
		init mean float32[12] = ...
		init var float32[12] = ...
		init w float32[12,12] = ...
		a = BatchNormalization(x, scale, bias, mean, var)
		b = MatMul(a, w)
		y = Concat(b, b, b) axis=1
		out y
	`}
	again := 0
	for _, percent := range []float64{70, 75, 80} {
		for _, ordered := range []bool{false, true} {
			found, err := passes.Optimize(t.Context(), x.build(t), passes.Options{
				Train: &autodiff.Options{Loss: "bce"}, KeepRandomOrder: ordered, Align: 16,
				Limit: &passes.Limit{Percent: percent},
			})
			if limit := new(passes.LimitError); errors.As(err, &limit) {
				continue // there is none of so many bytes
			}
			if err != nil {
				t.Fatalf("%g %%, in order %v: %v", percent, ordered, err)
			}
			for _, x := range found.GivenUp {
				t.Errorf("%g %%: %+v", percent, x)
			}
			for i, st := range found.Plan.Steps {
				if st.Again != nil && found.Model.Graph.Nodes[i].Op == "BatchNormalization" {
					again++
				}
			}
		}
	}
	if again == 0 {
		t.Error("no BatchNormalization runs again")
	}
}

// TestBodiesPlacedAgain: where nodes run again, bodies are placed a second time, in which a strategy
// may take other memory. The loads in program order are those of the plan.
func TestBodiesPlacedAgain(t *testing.T) {
	x := text{main: `
		in x float32[4,2,6]
		init w float32[16,2,4] = ...
		init b float32[16] = ...
		in v float32[2,18,3]
		in r float32[2,18,6]
		in c float32[2,36]
		a = Conv(x, w, b) pads=[1, 1] strides=[2]
		d = Transpose(a) perm=[1, 0, 2]
		_, y = GRU(d, v, r, c) hidden_size=6 direction="bidirectional"
		out y
	`}
	again := 0
	for _, s := range alloc.Strategies {
		found, err := passes.Optimize(t.Context(), x.build(t), passes.Options{
			Train: &autodiff.Options{Loss: "mse"}, Limit: &passes.Limit{Percent: 95}, Placement: s.Name,
		})
		if limit := new(passes.LimitError); errors.As(err, &limit) {
			continue // there is none of so many bytes
		}
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		for _, x := range found.GivenUp {
			t.Errorf("%s: %+v", s.Name, x)
		}
		if slices.ContainsFunc(found.Plan.Steps, func(st plan.Step) bool { return st.Again != nil }) {
			again++
		}
	}
	if again == 0 {
		t.Error("no node runs again")
	}
}

// TestBodiesReadRepetitions: beside slices, a body may read what runs again.
func TestBodiesReadRepetitions(t *testing.T) {
	x := text{main: `
		in x1 float32[1,2,11,12]
		in t38 float32[8,16,1,1]
		in t36 float32[11,16,1,1]
		in t19 float32[16,1,2,3]
		init c6 float32[1] = 1.3508568
		init c7 float32[1] = 1.2768885
		init c8 float32[1] = 0.1759426
		init c9 float32[1] = 0.21747872
		init c12 int64[3] = 4
		init c25 float32[16,1,1] = ...
		init c39 float32[8] = ...
		init c42 float32[] = 0.03
		init c43 int8[] = 0
		init c52 float32[] = 0.03
		init c53 int8[] = 0
		init c56 int8[16,16,1,4] = ...
		init c57 float32[16] = ...
		init c58 int8[16] = ...
		init c63 float32[16] = ...
		init c68 float32[] = 0.03
		init c69 uint8[] = 128
		init c80 float32[] = 0.03
		init c81 int8[] = 0
		init c84 int8[10,16,1,4] = ...
		init c85 float32[10] = ...
		init c86 int8[10] = ...
		init c87 float32[] = 0.03
		init c88 int8[] = 0
		init c96 int64[] = 0
		t3 = Transpose(x1) perm=[2, 0, 1, 3]
		t5 = Softmax(t3) axis=0
		t11 = BatchNormalization(t5, c7, c8, c9, c6) epsilon=0.001
		t14, t15, t16 = Split(t11, c12) axis=3
		t21 = Conv(t14, t19) kernel_shape=[2, 3] pads=[0, 1, 0, 1] strides=[1, 1]
		t27 = Div(t21, c25)
		t41 = Conv(t36, t38, c39) kernel_shape=[1, 1] auto_pad="SAME_UPPER" strides=[1, 1] dilations=[1, 1] group=1
		t45 = QuantizeLinear(t41, c42, c43)
		t47 = DequantizeLinear(t45, c42, c43)
		t49 = Add(t27, t21)
		t51 = MaxPool(t49) kernel_shape=[1, 3] auto_pad="SAME_UPPER" strides=[1, 1]
		t55 = QuantizeLinear(t51, c52, c53)
		t60 = DequantizeLinear(t55, c52, c53)
		t62 = DequantizeLinear(c56, c57, c58) axis=0
		t65 = Conv(t60, t62, c63) kernel_shape=[1, 4] auto_pad="VALID" group=1
		t67 = Relu(t65)
		t71 = QuantizeLinear(t67, c68, c69)
		t73 = DequantizeLinear(t71, c68, c69)
		t75 = Flatten(t73) axis=1
		t98 = Loop(c96, _, t75) body=graph body76 {
			in i77 int64[]
			in keep78 bool[]
			in state79 float32[11,16]
			init c89 int32[10] = ...
			t83 = QuantizeLinear(t51, c80, c81)
			t91 = QLinearConv(t83, c80, c81, c84, c85, c86, c87, c88, c89) kernel_shape=[1, 4] auto_pad="VALID" strides=[3, 1] group=1
			t93 = DequantizeLinear(t91, c87, c88)
			out keep78
			out state79
		}
		t102 = Sin(t98)
		out t47
		out t102
	`, opset: 17}
	again := 0
	for _, percent := range []float64{90, 85, 80, 78, 76, 74, 72, 70, 68, 66, 64, 62, 60, 55, 50} {
		found, err := passes.Optimize(t.Context(), x.build(t), passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: percent}})
		if limit := new(passes.LimitError); errors.As(err, &limit) {
			continue // there is none of so many bytes
		}
		if err != nil {
			t.Fatalf("%g %%: %v", percent, err)
		}
		for _, x := range found.GivenUp {
			t.Errorf("%g %%: %+v", percent, x)
		}
		if found.Plan.Slices != nil && slices.ContainsFunc(found.Plan.Steps, func(st plan.Step) bool { return st.Again != nil }) {
			again++
		}
	}
	if again == 0 {
		t.Error("no node runs again beside slices")
	}
}
