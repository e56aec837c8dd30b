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
