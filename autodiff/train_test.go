package autodiff

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/onnx"
)

// nets are whole networks.
var nets = []struct {
	name string
	make func() (*graph.Model, map[string]*reference.Tensor)
}{
	{"perceptron", func() (*graph.Model, map[string]*reference.Tensor) { return perceptron(0) }},
	{"dropouts", func() (*graph.Model, map[string]*reference.Tensor) { return perceptron(2) }},
	{"convolutional", convolutional},
	{"transformer", transformer},
}

func train(t *testing.T, m *graph.Model, opt Options) *Step {
	t.Helper()
	step, err := Train(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// TestNets: the gradients of all parameters of whole networks are slopes of the loss.
func TestNets(t *testing.T) {
	for _, net := range nets {
		t.Run(net.name, func(t *testing.T) {
			m, feeds := net.make()
			step := train(t, m, Options{KeepGradients: true})
			var want []string
			for _, x := range m.Graph.Tensors {
				if x.Data != nil && x.Type.Elem == graph.Float32 && len(x.Type.Shape) > 0 && x.Name != "val_3" && !strings.Contains(x.Name, "running") {
					want = append(want, x.Name)
				}
			}
			if !slices.Equal(slices.Sorted(slices.Values(step.Parameters)), slices.Sorted(slices.Values(want))) {
				t.Errorf("parameters %v, expected %v", step.Parameters, want)
			}
			const most = 12 // elements of each parameter
			checkGradients(t, step, feeds, most)
		})
	}
}

// TestLosses: every loss on the same network, and which parameters it trains.
func TestLosses(t *testing.T) {
	last := -1
	for _, k := range []struct {
		name   string
		opt    Options
		labels func(b *builder) *reference.Tensor
	}{
		{"mse", Options{Loss: "mse"}, func(b *builder) *reference.Tensor { return b.real(5, 3) }},
		{"l1", Options{Loss: "l1"}, func(b *builder) *reference.Tensor { return b.real(5, 3) }},
		{"bce", Options{Loss: "bce"}, func(b *builder) *reference.Tensor {
			return b.value(operand{shape: []int{5, 3}, elem: graph.Float32, low: 0.1, high: 0.9})
		}},
		{"cross-entropy", Options{}, nil},
		{"last class axis", Options{ClassAxis: &last}, nil},
	} {
		t.Run(k.name, func(t *testing.T) {
			m, feeds := perceptron(0)
			if k.labels != nil {
				feeds[labelsName] = k.labels(newBuilder(k.name, 18))
			}
			k.opt.KeepGradients = true
			got, _ := checkGradients(t, train(t, m, k.opt), feeds, math.MaxInt)
			y, err := reference.Eval(m, feeds, "logits")
			if err != nil {
				t.Fatal(err)
			}
			if want := lossByHand(k.name, y["logits"], feeds[labelsName]); math.Abs(got[lossName].F[0]-want) > 1e-6*want {
				t.Errorf("loss %v, expected %v", got[lossName].F[0], want)
			}
		})
	}
}

// lossByHand returns the mean loss over all elements, for cross-entropy over all rows.
func lossByHand(name string, y, labels *reference.Tensor) float64 {
	total, n := 0.0, len(y.F)
	switch name {
	case "mse":
		for i, v := range y.F {
			total += (v - labels.F[i]) * (v - labels.F[i])
		}
	case "l1":
		for i, v := range y.F {
			total += math.Abs(v - labels.F[i])
		}
	case "bce":
		for i, v := range y.F {
			p := 1 / (1 + math.Exp(-v))
			total -= labels.F[i]*math.Log(p) + (1-labels.F[i])*math.Log(1-p)
		}
	default:
		n = len(labels.I)
		for r, label := range labels.I {
			row, sum := y.F[r*3:r*3+3], 0.0
			for _, v := range row {
				sum += math.Exp(v)
			}
			total -= row[label] - math.Log(sum)
		}
	}
	return total / float64(n)
}

// formula is one update of a parameter as in PyTorch's documentation (torch.optim: SGD,
// Adam, AdamW), one element at a time. state has two elements, initially zero.
type formula func(w, d, rate, decay float64, step int, state []float64) float64

func adamMoments(d float64, step int, state []float64) float64 {
	const beta1, beta2, epsilon = 0.9, 0.999, 1e-8
	state[0] = beta1*state[0] + (1-beta1)*d
	state[1] = beta2*state[1] + (1-beta2)*d*d
	m, v := state[0]/(1-math.Pow(beta1, float64(step))), state[1]/(1-math.Pow(beta2, float64(step)))
	return m / (math.Sqrt(v) + epsilon)
}

var formulas = map[string]formula{
	"sgd": func(w, d, rate, decay float64, _ int, _ []float64) float64 { return w - rate*(d+decay*w) },
	"momentum": func(w, d, rate, decay float64, _ int, state []float64) float64 {
		state[0] = 0.9*state[0] + d + decay*w
		return w - rate*state[0]
	},
	"adam": func(w, d, rate, decay float64, step int, state []float64) float64 {
		return w - rate*adamMoments(d+decay*w, step, state)
	},
	"adamw": func(w, d, rate, decay float64, step int, state []float64) float64 {
		return w*(1-rate*decay) - rate*adamMoments(d, step, state)
	},
}

// TestOptimizers runs five steps of each optimizer, with and without weight decay and
// clipping, and compares with its formula.
func TestOptimizers(t *testing.T) {
	for _, name := range Optimizers() {
		for _, k := range []struct {
			name     string
			decay    float64
			clip     float64
			decayAll bool
		}{{"plain", 0, 0, false}, {"decay", 0.1, 0, false}, {"decay of all", 0.1, 0, true}, {"clipped", 0.01, 0.05, false}, {"clipped at more", 0, 100, false}} {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				opt := Options{Optimizer: name, Constants: map[string]float64{"weight_decay": k.decay}, ClipNorm: k.clip, DecayAll: k.decayAll}
				followOptimizer(t, opt)
			})
		}
	}
}

func followOptimizer(t *testing.T, opt Options) {
	t.Helper()
	m, data := convolutional()
	gradients := train(t, m, Options{KeepGradients: true}) // by sgd, without clipping
	step := train(t, m, opt)
	feeds := maps.Clone(data)
	first := residents(t, step)
	maps.Copy(feeds, first)
	mine, states := map[string][]float64{}, map[string][][]float64{}
	for _, p := range step.Parameters {
		mine[p] = slices.Clone(first[p].F)
		for range first[p].F {
			states[p] = append(states[p], make([]float64, 2))
		}
	}
	pairs := updatePairs(t, step)
	for k := 1; k <= 5; k++ {
		rate := float64(float32(0.1 / float64(k)))
		feeds[rateName] = &reference.Tensor{Type: graph.Float32, Shape: []int{}, F: []float64{rate}}
		grads := gradientsAt(t, gradients, feeds, mine)
		if opt.ClipNorm > 0 {
			clipByHand(grads, opt.ClipNorm)
		}
		for _, p := range step.Parameters {
			decay := opt.Constants["weight_decay"]
			if !opt.DecayAll && len(first[p].Shape) == 1 { // biases and scales
				decay = 0
			}
			for i := range mine[p] {
				mine[p][i] = formulas[opt.Optimizer](mine[p][i], grads[p].F[i], rate, decay, k, states[p][i])
			}
		}
		got, err := reference.Eval(step.Model, feeds, slices.Collect(maps.Values(pairs))...)
		if err != nil {
			t.Fatal(err)
		}
		for old, updated := range pairs {
			feeds[old] = got[updated]
		}
		for _, p := range step.Parameters {
			for i, want := range mine[p] {
				if math.Abs(feeds[p].F[i]-want) > 1e-6*math.Max(1, math.Abs(want)) {
					t.Fatalf("step %d: %s, element %d is %v, expected %v", k, p, i, feeds[p].F[i], want)
				}
			}
		}
		if n := feeds[stepName]; n != nil && n.I[0] != int64(k) {
			t.Errorf("step %d: the counter is %d", k, n.I[0])
		}
	}
}

// updatePairs reads onnxmem.updates: for each resident tensor, the tensor that replaces
// it.
func updatePairs(t *testing.T, step *Step) map[string]string {
	return pairsOf(t, step, "onnxmem.updates")
}

// pairsOf reads a list of NAME=NAME in a step's metadata.
func pairsOf(t *testing.T, step *Step, key string) map[string]string {
	t.Helper()
	text, _ := step.Model.Prop(key)
	pairs := map[string]string{}
	for _, p := range strings.Split(strings.Trim(text, `[]"`), `","`) {
		from, to, ok := strings.Cut(p, "=")
		if !ok {
			t.Fatalf("%s: %q", key, text)
		}
		pairs[from] = to
	}
	return pairs
}

// gradientsAt evaluates the gradients with other values of the parameters.
func gradientsAt(t *testing.T, step *Step, feeds map[string]*reference.Tensor, w map[string][]float64) map[string]*reference.Tensor {
	t.Helper()
	feeds = maps.Clone(feeds)
	names := pairsOf(t, step, "onnxmem.gradients")
	var want []string
	for p, v := range w {
		feeds[p] = &reference.Tensor{Type: feeds[p].Type, Shape: feeds[p].Shape, F: v}
		want = append(want, names[p])
	}
	got, err := reference.Eval(step.Model, feeds, want...)
	if err != nil {
		t.Fatal(err)
	}
	grads := map[string]*reference.Tensor{}
	for p := range w {
		grads[p] = got[names[p]]
	}
	return grads
}

// clipByHand computes torch.nn.utils.clip_grad_norm_.
func clipByHand(grads map[string]*reference.Tensor, most float64) {
	total := 0.0
	for _, d := range grads {
		for _, v := range d.F {
			total += v * v
		}
	}
	scale := math.Min(1, most/(math.Sqrt(total)+1e-6))
	for _, d := range grads {
		for i := range d.F {
			d.F[i] *= scale
		}
	}
}

// TestStatistics: running statistics move towards those of the batch, with the
// population variance.
func TestStatistics(t *testing.T) {
	m, data := convolutional()
	step := train(t, m, Options{})
	feeds := maps.Clone(data)
	first := residents(t, step)
	maps.Copy(feeds, first)
	got, err := reference.Eval(step.Model, feeds, "conv1", "bn1.running_mean.new", "bn1.running_var.new")
	if err != nil {
		t.Fatal(err)
	}
	x := got["conv1"] // [2, 4, 6, 6]
	for ch := range 4 {
		var v []float64
		for n := range 2 {
			v = append(v, x.F[(n*4+ch)*36:(n*4+ch+1)*36]...)
		}
		mean, variance := 0.0, 0.0
		for _, e := range v {
			mean += e / float64(len(v))
		}
		for _, e := range v {
			variance += (e - mean) * (e - mean) / float64(len(v))
		}
		for name, of := range map[string]float64{"bn1.running_mean": mean, "bn1.running_var": variance} {
			want := 0.9*first[name].F[ch] + 0.1*of
			if v := got[name+".new"].F[ch]; math.Abs(v-want) > 1e-6 {
				t.Errorf("%s.new[%d] is %v, expected %v", name, ch, v, want)
			}
		}
	}
}

// TestSameBytes: equal models give equal files, on any number of cores.
func TestSameBytes(t *testing.T) {
	for _, net := range nets {
		var want []byte
		for run, cores := range []int{1, 2, runtime.NumCPU(), 1} {
			before := runtime.GOMAXPROCS(cores)
			m, _ := net.make()
			step := train(t, m, Options{Optimizer: "adamw", KeepGradients: true})
			var got []byte
			for _, part := range []*graph.Model{step.Model, step.Params} {
				im, err := onnx.Encode(part)
				if err != nil {
					t.Fatal(err)
				}
				b, err := im.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, b...)
			}
			runtime.GOMAXPROCS(before)
			if run == 0 {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: run %d on %d cores gives other bytes", net.name, run, cores)
			}
		}
	}
}

// TestDropoutsStayApart: two Dropouts with the same attributes and the same input are
// not merged; each has its own mask in the backward pass.
func TestDropoutsStayApart(t *testing.T) {
	b := newBuilder("twins", 13)
	x := b.weights("w", 4, 8)
	h := b.op("h", "Tanh", nil, x)
	sum := b.op("sum", "Add", nil, b.op("d0", "Dropout", nil, h), b.op("d1", "Dropout", nil, h))
	m := b.finish(b.op("loss_of_twins", "ReduceSum", attrs{"keepdims": 0}, sum))
	step := train(t, m, Options{Loss: "none:loss_of_twins", Trainable: everything, KeepGradients: true})
	masks := map[ID]int{}
	for _, n := range step.Model.Graph.Nodes {
		switch n.Op {
		case "Dropout":
			masks[n.Outputs[1]] += 0
		case "Where":
			masks[n.Inputs[0]]++
		}
	}
	if len(masks) != 2 || slices.Min(slices.Collect(maps.Values(masks))) != 1 {
		t.Errorf("masks and how often each is read backwards: %v, expected two, once each", masks)
	}
	checkGradients(t, step, nil, math.MaxInt)
}

// TestManyReaders: a tensor with k readers gets k-1 additions in a chain, and no term is
// lost.
func TestManyReaders(t *testing.T) {
	const readers = 40
	b := newBuilder("fan", 18)
	h := b.op("h", "Tanh", nil, b.weights("w", 2, 3))
	sum := ID(graph.None)
	for k := range readers {
		y := b.op(fmt.Sprintf("y%d", k), []string{"Sin", "Cos", "Exp", "Atan"}[k%4], nil, h)
		if sum == graph.None {
			sum = y
		} else {
			sum = b.op(fmt.Sprintf("s%d", k), "Add", nil, sum, y)
		}
	}
	m := b.finish(b.op("total", "ReduceSum", attrs{"keepdims": 0}, sum))
	step := train(t, m, Options{Loss: "none:total", Trainable: everything, KeepGradients: true})
	additions := 0
	for _, n := range step.Model.Graph.Nodes {
		if phase, _ := n.Prop(keyPhase); phase == phaseAccumulate && n.Op == "Add" {
			additions++
		}
	}
	if additions != readers-1 {
		t.Errorf("%d additions, expected %d", additions, readers-1)
	}
	checkGradients(t, step, nil, math.MaxInt)
}

// TestLocalFunctions: gradients pass through calls of local functions; each call has its
// own attributes and constants.
func TestLocalFunctions(t *testing.T) {
	body := &graph.Graph{}
	x, w, a, y := body.NewTensor("x"), body.NewTensor("w"), body.NewTensor("a"), body.NewTensor("y")
	body.Nodes = []*graph.Node{
		{Op: "LeakyRelu", Inputs: []ID{x}, Outputs: []ID{a}, Attrs: []*graph.Attr{{Name: "alpha", Type: graph.AttrFloat, Ref: "slope"}}},
		{Op: "Mul", Inputs: []ID{a, w}, Outputs: []ID{y}},
	}
	body.Inputs, body.Outputs = []ID{x, w}, []ID{y}
	body.Link()
	b := newBuilder("functions", 18)
	b.m.Opsets = append(b.m.Opsets, graph.Opset{Domain: "local", Version: 1})
	b.m.Functions = []*graph.Function{{Domain: "local", Name: "Scaled", Attrs: []string{"slope"}, Opsets: []graph.Opset{{Version: 18}}, Body: body}}
	h := b.node("local", "Scaled", attrs{"slope": 0.25}, []ID{b.weights("p0", 2, 3), b.weights("p1", 3)}, "h")[0]
	h = b.node("local", "Scaled", attrs{"slope": 0.5}, []ID{h, b.weights("p2", 2, 1)}, "h2")[0]
	m := b.finish(b.op("total", "ReduceSum", attrs{"keepdims": 0}, b.op("square", "Mul", nil, h, h)))
	before, err := reference.Eval(m, nil, "total")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := checkGradients(t, train(t, m, Options{Loss: "none:total", Trainable: everything, KeepGradients: true}), nil, math.MaxInt)
	if d := math.Abs(got[lossName].F[0] - before["total"].F[0]); d > 1e-12 {
		t.Errorf("the loss differs by %v from that of the functions", d)
	}
}

// TestScalarsOnTheWay: gradients pass through tensors without axes.
func TestScalarsOnTheWay(t *testing.T) {
	b := newBuilder("scalars", 18)
	w := b.weights("w", 2, 3)
	s := b.op("mean", "ReduceMean", attrs{"keepdims": 0}, w)
	e := b.op("exp", "Exp", nil, s)
	wide := b.op("wide", "Expand", nil, e, b.initializer("shape", reference.Ints([]int{2}, 2, 3)))
	y := b.op("y", "Mul", nil, b.op("product", "Mul", nil, w, e), b.op("sum", "Add", nil, wide, s))
	m := b.finish(b.op("total", "ReduceSum", attrs{"keepdims": 0}, y))
	checkGradients(t, train(t, m, Options{Loss: "none:total", Trainable: everything, KeepGradients: true}), nil, math.MaxInt)
}

// TestSixteenBits: the nodes for 16-bit parameters are well typed, have the parameters'
// type, and give nearly the gradients of float32.
func TestSixteenBits(t *testing.T) {
	for _, elem := range []graph.DType{graph.Float16, graph.BFloat16} {
		for _, make := range []func() (*graph.Model, map[string]*reference.Tensor){
			func() (*graph.Model, map[string]*reference.Tensor) { return perceptron(0) }, convolutional, transformer,
		} {
			m, feeds := make()
			want := allGradients(t, m, feeds)
			m, feeds = make()
			narrow(m, feeds, elem)
			got := allGradients(t, m, feeds)
			for p, d := range got {
				if d.Type != elem {
					t.Errorf("%s has type %v, expected %v", p, d.Type, elem)
				}
				scale := 0.0
				for _, v := range want[p].F {
					scale = math.Max(scale, math.Abs(v))
				}
				for i, v := range d.F {
					if math.Abs(v-want[p].F[i]) > 0.2*scale+2e-3 {
						t.Errorf("%v: %s, element %d is %v, but %v in float32", elem, p, i, v, want[p].F[i])
						break
					}
				}
			}
		}
	}
}

func allGradients(t *testing.T, m *graph.Model, feeds map[string]*reference.Tensor) map[string]*reference.Tensor {
	t.Helper()
	step := train(t, m, Options{KeepGradients: true})
	all := residents(t, step)
	maps.Copy(all, feeds)
	var want []string
	for _, p := range step.Parameters {
		want = append(want, p+".grad")
	}
	got, err := reference.Eval(step.Model, all, want...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// narrow changes all float32 tensors of a model to another type.
func narrow(m *graph.Model, feeds map[string]*reference.Tensor, elem graph.DType) {
	for _, x := range m.Graph.Tensors {
		if x.Declared != nil && x.Declared.Type.Elem == graph.Float32 {
			x.Declared.Type.Elem = elem
			f := *feeds[x.Name]
			f.Type = elem
			feeds[x.Name] = &f
		}
		if x.Data == nil || x.Data.Type != graph.Float32 {
			continue
		}
		v, _ := x.Data.Reals(math.MaxInt32)
		d := &graph.Data{Name: x.Data.Name, Type: elem, Dims: x.Data.Dims}
		for _, e := range v {
			bits := constant.HalfBits(e)
			if elem == graph.BFloat16 {
				bits = constant.BFloatBits(e)
			}
			d.Raw = append(d.Raw, byte(bits), byte(bits>>8))
		}
		d.Bytes = int64(len(d.Raw))
		x.Data = d
	}
}

// TestConstantBits: constants of 16-bit types are rounded to the nearest number of the
// type, ties to even.
func TestConstantBits(t *testing.T) {
	rnd := newBuilder("bits", 18).rnd
	for _, elem := range []graph.DType{graph.Float16, graph.BFloat16} {
		digits, smallest := 11, -24
		bits := constant.HalfBits
		if elem == graph.BFloat16 {
			digits, smallest, bits = 8, -133, constant.BFloatBits
		}
		for range 20000 {
			v := math.Ldexp(rnd.Float64()*2-1, rnd.IntN(45)-30)
			if rnd.IntN(2) == 0 { // ties, and numbers of the type
				_, exp := math.Frexp(v)
				unit := math.Ldexp(1, max(exp-digits, smallest)-1)
				v = math.Round(v/unit) * unit
			}
			_, exp := math.Frexp(v)
			unit := math.Ldexp(1, max(exp-digits, smallest))
			want := math.RoundToEven(v/unit) * unit
			if elem == graph.Float16 && math.Abs(want) > 65504 {
				want = math.Inf(int(math.Copysign(1, v)))
			}
			b := bits(v)
			got, err := reference.FromData(&graph.Data{Type: elem, Dims: []int64{}, Raw: []byte{byte(b), byte(b >> 8)}})
			if err != nil {
				t.Fatal(err)
			}
			if got.F[0] != want {
				t.Fatalf("%v of %v is %v, expected %v", elem, v, got.F[0], want)
			}
		}
	}
}

// TestRandomGraphs: networks of nodes that read any earlier tensors, also one twice, and
// whose outputs are read or not.
func TestRandomGraphs(t *testing.T) {
	for seed := range 60 {
		b := newBuilder(fmt.Sprint("random", seed), 18)
		made := []ID{b.weights("p0", 4, 3), b.weights("p1", 4, 3), b.weights("p2", 1, 3), b.input("x", b.real(4, 3))}
		pick := func() ID { return made[b.rnd.IntN(len(made))] }
		wide := func(name string, x ID) ID { // broadcast to [4, 3]
			return b.op(name, "Expand", nil, x, b.initializer(name+".shape", reference.Ints([]int{2}, 4, 3)))
		}
		for k := range 12 {
			name := fmt.Sprintf("n%d", k)
			switch b.rnd.IntN(8) {
			case 0:
				made = append(made, b.op(name, "Tanh", nil, pick()))
			case 1:
				made = append(made, b.op(name, "Sin", nil, pick()))
			case 2:
				made = append(made, b.op(name, "Add", nil, pick(), pick()))
			case 3:
				made = append(made, b.op(name, "Mul", nil, pick(), pick()))
			case 4:
				made = append(made, b.op(name, "Sub", nil, pick(), pick()))
			case 5: // the first part is read, the last may be unread
				parts := b.node("", "Split", attrs{"axis": 0, "num_outputs": 2}, []ID{wide(name+".in", pick())}, name+".0", name+".1")
				order := []ID{parts[0], parts[b.rnd.IntN(2)]}
				made = append(made, b.op(name, "Concat", attrs{"axis": 0}, order...))
			case 6: // the indices are not read
				top := b.node("", "TopK", attrs{"axis": 0}, []ID{wide(name+".in", pick()), b.initializer(name+".k", reference.Ints([]int{1}, 1))}, name, name+".at")
				made = append(made, top[0])
			case 7:
				scale := b.weights(fmt.Sprintf("p%d", 10+k), 3)
				made = append(made, b.op(name, "LayerNormalization", attrs{"epsilon": 0.5}, pick(), scale))
			}
		}
		sum := b.op("last", "Sum", nil, made[len(made)-1], made[len(made)-2], made[len(made)-3], made[0])
		m := b.finish(b.op("total", "ReduceSum", attrs{"keepdims": 0}, sum))
		reaches := map[ID]bool{m.Graph.Outputs[0]: true}
		for k := len(m.Graph.Nodes) - 1; k >= 0; k-- {
			if n := m.Graph.Nodes[k]; slices.ContainsFunc(n.Outputs, func(id ID) bool { return reaches[id] }) {
				for _, id := range n.Inputs {
					reaches[id] = true
				}
			}
		}
		var names []string
		for id, x := range m.Graph.Tensors {
			if reaches[ID(id)] && strings.HasPrefix(x.Name, "p") {
				names = append(names, x.Name)
			}
		}
		opt := Options{Loss: "none:total", Trainable: regexp.MustCompile(`^(` + strings.Join(names, "|") + `)$`), KeepGradients: true}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { checkGradients(t, train(t, m, opt), b.feeds, math.MaxInt) })
	}
}
