package autodiff

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// a number is a float32 input without axes.
func float(v float64) *reference.Tensor {
	return &reference.Tensor{Type: graph.Float32, Shape: []int{}, F: []float64{float64(float32(v))}}
}

// advance runs a step once and feeds its new values to the next.
func advance(t *testing.T, step *Step, feeds map[string]*reference.Tensor) {
	t.Helper()
	pairs := updatePairs(t, step)
	got, err := reference.Eval(step.Model, feeds, slices.Collect(maps.Values(pairs))...)
	if err != nil {
		t.Fatal(err)
	}
	for old, updated := range pairs {
		feeds[old] = got[updated]
	}
}

// values are copies of the elements of the parameters.
func values(step *Step, feeds map[string]*reference.Tensor) map[string][]float64 {
	v := map[string][]float64{}
	for _, p := range step.Parameters {
		v[p] = slices.Clone(feeds[p].F)
	}
	return v
}

// near compares parameters with what was computed by hand.
func near(t *testing.T, when string, feeds map[string]*reference.Tensor, want map[string][]float64) {
	t.Helper()
	for p, v := range want {
		for i, w := range v {
			if got := feeds[p].F[i]; !(math.Abs(got-w) <= 1e-6*math.Max(1, math.Abs(w))) {
				t.Fatalf("%s: %s, element %d is %v, expected %v", when, p, i, got, w)
			}
		}
	}
}

// TestGroups: each group has its own learning rate and weight decay.
func TestGroups(t *testing.T) {
	for _, name := range Optimizers() {
		opt := Options{Optimizer: name, Constants: map[string]float64{"weight_decay": 0.1}, Groups: []ParamGroup{
			{Name: "head", Match: regexp.MustCompile("^fc2"), Constants: map[string]float64{"weight_decay": 0.3}},
			{Name: "all.biases", Match: regexp.MustCompile("bias$")}, // fc2.bias is the head's
		}}
		m, feeds := perceptron(0)
		gradients := train(t, m, Options{KeepGradients: true})
		step := train(t, m, opt)
		maps.Copy(feeds, residents(t, step))
		feeds[rateName], feeds["learning_rate.head"], feeds["learning_rate.all.biases"] = float(0.01), float(0.1), float(0.5)
		want, state := values(step, feeds), map[string][]float64{}
		for k := 1; k <= 3; k++ {
			grads := gradientsAt(t, gradients, feeds, want)
			for p, v := range want {
				rate, decay := 0.01, 0.1
				switch {
				case strings.HasPrefix(p, "fc2"):
					rate, decay = 0.1, 0.3 // also of the bias
				case strings.HasSuffix(p, "bias"):
					rate, decay = 0.5, 0
				}
				if state[p] == nil {
					state[p] = make([]float64, 2*len(v))
				}
				for i := range v {
					v[i] = formulas[name](v[i], grads[p].F[i], float64(float32(rate)), decay, k, state[p][2*i:2*i+2])
				}
			}
			advance(t, step, feeds)
			near(t, name, feeds, want)
		}
	}
}

// TestAccumulate: the parameters change on every third run, by the mean of the gradients of
// three runs, which are clipped together.
func TestAccumulate(t *testing.T) {
	const runs = 3
	for _, clip := range []float64{0, 0.05} {
		m, feeds := perceptron(0)
		gradients := train(t, m, Options{KeepGradients: true})
		step := train(t, m, Options{Optimizer: "adam", Accumulate: runs, ClipNorm: clip})
		maps.Copy(feeds, residents(t, step))
		feeds[rateName] = float(0.1)
		b := newBuilder("data", 18)
		want, state := values(step, feeds), map[string][]float64{}
		for update := 1; update <= 2; update++ {
			var mean map[string]*reference.Tensor
			for run := range runs {
				feeds["x"] = b.real(5, 4)
				grads := gradientsAt(t, gradients, feeds, want)
				for p, d := range grads {
					for i := range d.F {
						d.F[i] /= runs
						if run > 0 {
							d.F[i] += mean[p].F[i]
						}
					}
				}
				if mean = grads; run == runs-1 {
					if clip > 0 {
						clipByHand(mean, clip)
					}
					for p, v := range want {
						if state[p] == nil {
							state[p] = make([]float64, 2*len(v))
						}
						for i := range v {
							v[i] = formulas["adam"](v[i], mean[p].F[i], float64(float32(0.1)), 0, update, state[p][2*i:2*i+2])
						}
					}
				}
				advance(t, step, feeds)
				near(t, "accumulated", feeds, want)
			}
			if n := feeds[stepName].I[0]; n != int64(update) {
				t.Errorf("the counter of updates is %d, expected %d", n, update)
			}
		}
	}
}

// TestLossScale: a scale changes nothing but the gradients on the way. With a dynamic one, a
// gradient that is not finite leaves all parameters and states as they are.
func TestLossScale(t *testing.T) {
	const spoiled = 2 // the run whose data are infinite
	for _, runs := range []int{1, 2} {
		dynamic := &LossScale{Initial: 1024, Dynamic: true, Growth: 4, Backoff: 0.5, Interval: 2}
		m, feeds := perceptron(0)
		plain := train(t, m, Options{Optimizer: "adamw", Accumulate: runs})
		step := train(t, m, Options{Optimizer: "adamw", Accumulate: runs, LossScale: dynamic})
		fixed := train(t, m, Options{Optimizer: "adamw", Accumulate: runs, LossScale: &LossScale{Initial: 1024}})
		feeds[rateName] = float(0.1)
		given := func(s *Step) map[string]*reference.Tensor {
			all := maps.Clone(feeds)
			maps.Copy(all, residents(t, s))
			return all
		}
		a, c, f := given(plain), given(step), given(fixed)
		scale, finite := 1024.0, 0
		for update := range 8 {
			before := maps.Clone(c)
			for run := range runs {
				x := newBuilder(string(rune('a'+update*runs+run)), 18).real(5, 4)
				a["x"], c["x"], f["x"] = x, x, x
				if update == spoiled && run == 0 {
					broken := *x
					broken.F = slices.Clone(x.F)
					broken.F[3] = math.Inf(1)
					c["x"] = &broken
				}
				if update != spoiled {
					advance(t, plain, a)
					advance(t, fixed, f)
				}
				advance(t, step, c)
			}
			if update == spoiled {
				scale, finite = scale/2, 0
				for old := range updatePairs(t, step) {
					if !strings.HasPrefix(old, scaleName) && !strings.HasSuffix(old, sumSuffix) && !slices.Equal(before[old].F, c[old].F) {
						t.Errorf("%s changed", old)
					}
				}
			} else if finite++; finite == 2 {
				scale, finite = scale*4, 0
			}
			if got := c[scaleName].F[0]; got != scale || c[scaleStepsName].I[0] != int64(finite) {
				t.Errorf("update %d: scale %v after %d updates, expected %v after %d", update, got, c[scaleStepsName].I[0], scale, finite)
			}
			near(t, "dynamic", c, values(plain, a))
			near(t, "fixed", f, values(plain, a))
		}
		if a[stepName].I[0] != 7 || c[stepName].I[0] != 7 {
			t.Errorf("counters of updates %d and %d, expected 7", a[stepName].I[0], c[stepName].I[0])
		}
	}
}

// TestScaledSixteenBits: with a scaled loss, the gradients and states of a float16 model
// are float32, and the parameters stay float16.
func TestScaledSixteenBits(t *testing.T) {
	for _, elem := range []graph.DType{graph.Float16, graph.BFloat16} {
		for _, loss := range []string{"cross-entropy", "mse", "l1", "bce"} {
			m, feeds := convolutional()
			narrow(m, feeds, elem)
			step := train(t, m, Options{Loss: loss, Optimizer: "adamw", LossScale: DynamicScale(), KeepGradients: true, Accumulate: 2, ClipNorm: 1})
			types := map[string]graph.DType{}
			for _, x := range step.Model.Graph.Tensors {
				types[x.Name] = x.Type.Elem
			}
			for _, p := range step.Parameters {
				for name, want := range map[string]graph.DType{p: elem, p + ".new": elem, p + ".grad": graph.Float32, p + ".grad_sum": graph.Float32, p + ".adam_v": graph.Float32} {
					if types[name] != want {
						t.Errorf("%s: %s has type %v, expected %v", loss, name, types[name], want)
					}
				}
			}
		}
	}
}
