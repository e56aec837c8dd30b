package autodiff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/internal/sweep"
)

// TestRandomGradients compares the gradients of random networks under random options with
// central differences of the loss, in float64. No point lies at a kink: what an operator
// with kinks or ties reads is moved to numbers between them, by adding a constant.
func TestRandomGradients(t *testing.T) {
	count := 40
	if sweep.On() {
		count = 500
	}
	used := map[string]int{}
	for seed := range count {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			n := newRandomNet(t, uint64(seed), false)
			step, err := Train(n.m, n.options())
			if err != nil {
				t.Fatalf("%v\n%s", err, n)
			}
			n.move(step)
			const most = 3 // elements of each parameter
			if _, worst := checkGradients(t, step, n.feeds, most); t.Failed() {
				t.Fatalf("largest error %.1e\n%s", worst, n)
			}
			for _, node := range n.m.Graph.Nodes {
				used[node.Op]++
			}
		})
	}
	if sweep.On() {
		for _, k := range commonOperators {
			if used[k] == 0 {
				t.Errorf("no network has the operator %s", k)
			}
		}
		t.Logf("%d networks of %d operators", count, len(used))
	}
}

// TestRandomCorners: no gradient of a random network is no number where the loss is
// finite, although what operators with kinks read lies at kinks and ties, and whole rows
// are 0.
func TestRandomCorners(t *testing.T) {
	count := 40
	if sweep.On() {
		count = 500
	}
	for seed := range count {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			n := newRandomNet(t, uint64(seed), true)
			step, err := Train(n.m, n.options())
			if err != nil {
				t.Fatalf("%v\n%s", err, n)
			}
			got, err := reference.Eval(step.Model, feedsOf(t, step, n.feeds), gradientsOf(step, lossName)...)
			if err != nil {
				t.Fatal(err)
			}
			if v := got[lossName].F[0]; math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("the loss is %v\n%s", v, n)
			}
			for _, p := range step.Parameters {
				if slices.ContainsFunc(got[p+".grad"].F, math.IsNaN) {
					t.Fatalf("gradient of %s: %v\n%s", p, got[p+".grad"].F, n)
				}
			}
		})
	}
}

// commonOperators are some that random networks must have.
var commonOperators = strings.Fields("Conv ConvTranspose MatMul Gemm Einsum LSTM GRU RNN MaxPool LayerNormalization BatchNormalization Softmax Relu Pow Where Concat Split Slice Gather ScatterElements TopK Resize ReduceProd ReduceL2 Pad Trilu CumSum GroupNormalization")

// randomNet is a network that grows node by node; the elements of all tensors are known.
type randomNet struct {
	*builder
	t       *testing.T
	r       *rand.Rand
	seed    uint64
	corners bool // what operators with kinks read lies at kinks and ties
	opset   int64
	params  int
	pool    []randomValue // what a node may read
	read    map[ID]bool
	loss    string
}

// randomValue is a tensor with its elements.
type randomValue struct {
	id ID
	x  *reference.Tensor
}

func newRandomNet(t *testing.T, seed uint64, corners bool) *randomNet {
	r := rand.New(rand.NewPCG(seed, 44))
	opset := []int64{18, 19, 20, 21, 22, 23, 24}[r.IntN(7)]
	n := &randomNet{builder: newBuilder(fmt.Sprint("random ", seed), opset), t: t, r: r, seed: seed, corners: corners, opset: opset, read: map[ID]bool{}}
	shape := [][]int{{2 + r.IntN(3), 2 + r.IntN(5)}, {2, 2 + r.IntN(3), 2 + r.IntN(3)}, {1 + r.IntN(2), 2 * (1 + r.IntN(2)), 3 + r.IntN(3), 3 + r.IntN(3)}}[r.IntN(3)]
	x := n.builder.value(operand{shape: shape, elem: graph.Float64})
	n.pool = append(n.pool, n.one("Mul", nil, n.input("x", x), n.param(shape...).id))
	for count, tries := 4+r.IntN(10), 0; count > 0 && tries < 200; tries++ {
		if n.grow() {
			count--
		}
	}
	n.end()
	return n
}

// move changes the parameters a little, as an update does: a gradient may take nothing of
// their first values for a constant. No element crosses a kink.
func (n *randomNet) move(step *Step) {
	for _, p := range step.Params.Graph.Tensors {
		x, err := reference.FromData(p.Data)
		if err != nil {
			n.t.Fatal(err)
		}
		if slices.Contains(step.Parameters, p.Name) {
			for i := range x.F {
				x.F[i] *= 1 + 1e-4*n.r.Float64()
			}
			p.Data = dataOf(x)
		}
	}
}

// String lists the nodes.
func (n *randomNet) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "seed %d, opset %d, loss %s, options %+v\n", n.seed, n.opset, n.loss, n.options())
	for _, k := range n.m.Graph.Nodes {
		in := []string{}
		for _, t := range k.Inputs {
			name := ""
			if t != graph.None {
				name = n.m.Graph.Tensors[t].Name
			}
			in = append(in, name)
		}
		a := []string{}
		for _, at := range k.Attrs {
			a = append(a, fmt.Sprintf("%s=%v/%v/%v/%v", at.Name, at.Int, at.Float, at.Ints, at.String))
		}
		fmt.Fprintf(&s, "%s = %s(%s) %s\n", n.m.Graph.Tensors[k.Outputs[0]].Name, k.Op, strings.Join(in, ", "), strings.Join(a, " "))
	}
	return s.String()
}

// frozen reports whether batch normalisations keep their statistics.
func (n *randomNet) frozen() bool { return n.seed%2 == 0 }

// options draws those of the step; the same for every call.
func (n *randomNet) options() Options {
	r := rand.New(rand.NewPCG(n.seed, 45))
	o := Options{Loss: n.loss, Trainable: regexp.MustCompile(`^p\d+$`), KeepGradients: true, FusedGradients: Fusion(r.IntN(4)), FreezeStatistics: n.frozen()}
	for _, s := range Savings {
		if r.IntN(4) == 0 {
			o.NoLean = append(o.NoLean, s.Name)
		}
	}
	if n.loss == "bce" {
		o.Probabilities = r.IntN(2) == 0 && n.probable()
	}
	return o
}

// probable reports whether all elements of the output lie between 0 and 1.
func (n *randomNet) probable() bool {
	return !slices.ContainsFunc(n.pool[len(n.pool)-1].x.F, func(v float64) bool { return v < 0.01 || v > 0.99 })
}

// param adds a parameter.
func (n *randomNet) param(shape ...int) randomValue {
	x := n.builder.value(param(shape...))
	v := randomValue{n.initializer(fmt.Sprintf("p%d", n.params), x), x}
	n.params++
	return v
}

// apply adds a node with some outputs, and evaluates them.
func (n *randomNet) apply(op string, a attrs, outputs int, in ...ID) []randomValue {
	for _, t := range in {
		n.read[t] = true
	}
	var names []string
	for range outputs {
		names = append(names, fmt.Sprintf("t%d.%d", len(n.m.Graph.Tensors), len(names)))
	}
	made := n.node("", op, a, in, names...)
	n.m.Graph.Link()
	x, err := reference.Eval(n.m, n.feeds, names...)
	if err != nil {
		n.t.Fatalf("%v\n%s", err, n)
	}
	list := make([]randomValue, outputs)
	for k := range list {
		list[k] = randomValue{made[k], x[names[k]]}
	}
	return list
}

func (n *randomNet) one(op string, a attrs, in ...ID) randomValue { return n.apply(op, a, 1, in...)[0] }

// placed adds a constant to a tensor, so that its elements become f(0), f(1) and so on, in
// random order. f(k) are distinct numbers between kinks.
func (n *randomNet) placed(v randomValue, f func(k, of int) float64) randomValue {
	offset := &reference.Tensor{Type: graph.Float64, Shape: v.x.Shape, F: make([]float64, len(v.x.F))}
	for i, k := range n.r.Perm(len(v.x.F)) {
		offset.F[i] = f(k, len(v.x.F)) - v.x.F[i]
	}
	return n.one("Add", nil, v.id, n.initializer(fmt.Sprintf("offset%d", len(n.m.Graph.Tensors)), offset))
}

// Kinks lie at multiples of a tenth: apart has the numbers between them, beside those of
// ties with it.
func (n *randomNet) apart(k, of int) float64 {
	if n.corners {
		return n.corner()
	}
	return 0.1*float64(k-of/2) + 0.05
}

func (n *randomNet) beside(k, of int) float64 {
	if n.corners {
		return n.corner()
	}
	return 0.1 * float64(k-of/2)
}

// orCorner returns f, or corners.
func (n *randomNet) orCorner(f func(k, of int) float64) func(k, of int) float64 {
	if n.corners {
		return n.apart
	}
	return f
}

// corner draws a number at which many operators have a kink, so that there are ties, too.
func (n *randomNet) corner() float64 {
	return []float64{0, 0, 0, 1, -1, 0.5, -0.5, 3, -3}[n.r.IntN(9)]
}

// above has numbers from 0.3 on, unit those between -0.9 and 0.9, over those from 1.2 on.
func above(k, of int) float64 { return 0.3 + 0.1*float64(k) }
func unit(k, of int) float64  { return 1.8*(float64(k)+0.5)/float64(of) - 0.9 }
func over(k, of int) float64  { return 1.2 + 0.1*float64(k) }

func (n *randomNet) ints(v ...int64) ID {
	return n.initializer(fmt.Sprintf("list%d", len(n.m.Graph.Tensors)), reference.Ints([]int{len(v)}, v...))
}

func (n *randomNet) number(v float64) ID { return n.builder.number(v) }

// of draws a name from a list.
func (n *randomNet) of(list string) string {
	f := strings.Fields(list)
	return f[n.r.IntN(len(f))]
}

// grow adds one operator, or a few that spell out one, and reports whether it did.
func (n *randomNet) grow() bool {
	v := n.pool[n.r.IntN(len(n.pool))]
	if n.r.IntN(3) > 0 {
		v = n.pool[len(n.pool)-1]
	}
	families := []func(*randomNet, randomValue) (randomValue, bool){
		(*randomNet).smooth, (*randomNet).kinked, (*randomNet).bounded, (*randomNet).binary, (*randomNet).product, (*randomNet).spatial,
		(*randomNet).norm, (*randomNet).reduction, (*randomNet).shaped, (*randomNet).selected, (*randomNet).recurrent, (*randomNet).spelledOut,
	}
	y, ok := families[n.r.IntN(len(families))](n, v)
	if !ok {
		return false
	}
	if n.corners && slices.ContainsFunc(y.x.F, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return false
	}
	largest := 0.0
	for _, f := range y.x.F {
		largest = math.Max(largest, math.Abs(f))
	}
	if math.IsNaN(largest) || math.IsInf(largest, 0) {
		n.t.Fatalf("a result is no number\n%s", n)
	}
	if largest > 4 {
		y = n.one("Mul", nil, y.id, n.number(1/largest))
	}
	n.pool = append(n.pool, y)
	return true
}

func (n *randomNet) smooth(v randomValue) (randomValue, bool) {
	op := n.of("Tanh Sigmoid Softplus Erf Mish Sin Cos Atan Asinh Exp Softsign Sinh Cosh Elu Celu Neg Identity Gelu Gelu Swish Softmax LogSoftmax")
	a := attrs{}
	switch {
	case len(v.x.Shape) == 0 && strings.HasSuffix(op, "Softmax"), op == "Gelu" && n.opset < 20 || op == "Swish" && n.opset < 24:
		return v, false
	case op == "Gelu":
		a["approximate"] = n.of("none tanh")
	case op == "Swish":
		a["alpha"] = 1.5
	case op == "Softmax" || op == "LogSoftmax":
		a["axis"] = n.axis(v)
	}
	return n.one(op, a, v.id), true
}

// axis draws an axis, counted from the front or from the end.
func (n *randomNet) axis(v randomValue) int {
	r := len(v.x.Shape)
	if r == 0 {
		return 0
	}
	return n.r.IntN(2*r) - r
}

func (n *randomNet) kinked(v randomValue) (randomValue, bool) {
	v = n.placed(v, n.apart)
	switch op := n.of("Relu LeakyRelu PRelu HardSigmoid HardSwish ThresholdedRelu Shrink Abs Selu Elu Clip Max Min Floor Clip"); op {
	case "LeakyRelu", "Elu":
		return n.one(op, attrs{"alpha": []float64{0.5, -0.25}[n.r.IntN(2)]}, v.id), true
	case "PRelu":
		shape := slices.Clone(v.x.Shape)
		if len(shape) > 1 {
			shape = shape[1:]
			for i := 1; i < len(shape); i++ {
				shape[i] = 1
			}
		}
		return n.one(op, nil, v.id, n.param(shape...).id), true
	case "Clip":
		low, high := n.number(-0.5), n.number(1)
		switch n.r.IntN(3) {
		case 0:
			return n.one(op, nil, v.id, n.number(0), n.number(6)), true
		case 1:
			return n.one(op, nil, v.id, low), true
		}
		return n.one(op, nil, v.id, low, high), true
	case "Max", "Min":
		return n.one(op, nil, v.id, n.number(0.2)), true
	case "Floor":
		return n.one("Sub", nil, v.id, n.one("Floor", nil, n.placed(v, apartFromIntegers).id).id), true
	default:
		return n.one(op, nil, v.id), true
	}
}

func apartFromIntegers(k, of int) float64 { return float64(k-of/2) + 0.5 }

func (n *randomNet) bounded(v randomValue) (randomValue, bool) {
	switch op := n.of("Log Sqrt Reciprocal Pow Pow Asin Acos Atanh Acosh Tan"); op {
	case "Log", "Sqrt", "Reciprocal":
		return n.one(op, nil, n.placed(v, above).id), true
	case "Asin", "Acos", "Atanh", "Tan":
		return n.one(op, nil, n.placed(v, unit).id), true
	case "Acosh":
		return n.one(op, nil, n.placed(v, over).id), true
	}
	switch e := []float64{-1.5, 0, 0.5, 1, 2, 3, 4}[n.r.IntN(8-1)]; n.r.IntN(3) {
	case 0: // a trained exponent of one element
		return n.one("Pow", nil, n.placed(v, above).id, n.param(1).id), true
	case 1:
		return n.one("Pow", nil, n.placed(v, above).id, n.number(e)), true
	default: // bases below 0
		return n.one("Pow", nil, n.placed(v, n.orCorner(unit)).id, n.ints(int64(math.Abs(math.Floor(e))))), true
	}
}

// beside draws an operand that broadcasts with v: of the pool, or a parameter.
func (n *randomNet) operand(v randomValue) randomValue {
	var fit []randomValue
	for _, o := range n.pool {
		if slices.Equal(o.x.Shape, v.x.Shape) {
			fit = append(fit, o)
		}
	}
	if len(fit) > 0 && n.r.IntN(2) == 0 {
		return fit[n.r.IntN(len(fit))]
	}
	shape := slices.Clone(v.x.Shape)
	for i := range shape {
		if n.r.IntN(3) == 0 {
			shape[i] = 1
		}
	}
	if len(shape) > 0 && n.r.IntN(3) == 0 {
		shape = shape[1:]
	}
	return n.param(shape...)
}

func (n *randomNet) binary(v randomValue) (randomValue, bool) {
	o := n.operand(v)
	switch op := n.of("Add Sub Mul Div Max Min Pow Sum Mean Where Mod"); op {
	case "Div":
		o = n.placed(o, above)
		return n.one(op, nil, v.id, o.id), true
	case "Max", "Min":
		return n.one(op, nil, n.placed(v, n.apart).id, n.placed(o, n.beside).id), true
	case "Pow":
		return n.one(op, nil, n.placed(v, above).id, o.id), true
	case "Sum", "Mean":
		return n.one(op, nil, v.id, o.id, v.id), true
	case "Where":
		flags := &reference.Tensor{Type: graph.Bool, Shape: v.x.Shape, I: make([]int64, len(v.x.F))}
		for i := range flags.I {
			flags.I[i] = int64(n.r.IntN(2))
		}
		return n.one(op, nil, n.initializer(fmt.Sprintf("flags%d", len(n.m.Graph.Tensors)), flags), v.id, o.id), true
	case "Mod":
		return n.one(op, attrs{"fmod": 1}, n.placed(v, n.apart).id, n.number(0.5)), true
	default:
		if n.r.IntN(2) == 0 {
			return n.one(op, nil, o.id, v.id), true
		}
		return n.one(op, nil, v.id, o.id), true
	}
}

func (n *randomNet) product(v randomValue) (randomValue, bool) {
	shape := v.x.Shape
	r := len(shape)
	if r < 2 {
		return v, false
	}
	k, wide := shape[r-1], 1+n.r.IntN(5)
	switch n.r.IntN(6) {
	case 0:
		if r != 2 {
			return v, false
		}
		ta, tb := n.r.IntN(2), n.r.IntN(2)
		rows, inner := shape[0], shape[1]
		if ta == 1 {
			rows, inner = inner, rows
		}
		w := []int{inner, wide}
		if tb == 1 {
			w = []int{wide, inner}
		}
		c := [][]int{{wide}, {1}, {rows, 1}, {rows, wide}}[n.r.IntN(4)]
		return n.one("Gemm", attrs{"transA": ta, "transB": tb, "alpha": 0.5, "beta": 1.5}, v.id, n.param(w...).id, n.param(c...).id), true
	case 1: // with a transposed weight
		w := n.one("Transpose", nil, n.param(wide, k).id)
		return n.one("MatMul", nil, v.id, w.id), true
	case 2: // with itself
		perm := axes(0, r)
		perm[r-1], perm[r-2] = perm[r-2], perm[r-1]
		return n.one("MatMul", nil, v.id, n.one("Transpose", attrs{"perm": perm}, v.id).id), true
	case 3:
		front := "abc"[:r-1]
		return n.one("Einsum", attrs{"equation": front + "k,kj->" + n.of("j"+front+" "+front+"j")}, v.id, n.param(k, wide).id), true
	case 4:
		if r != 3 {
			return v, false
		}
		return n.one("Einsum", attrs{"equation": n.of("btk,bk->bt btk,bk->tk btk,bk->b")}, v.id, n.param(shape[0], k).id), true
	default:
		return n.one("MatMul", nil, v.id, n.param(k, wide).id), true
	}
}

func (n *randomNet) spatial(v randomValue) (randomValue, bool) {
	shape := v.x.Shape
	if len(shape) < 3 || len(shape) > 4 || slices.Min(shape[2:]) < 2 || elementsOf(shape) > 150 {
		return v, false
	}
	d := len(shape) - 2
	list := func(f func(i int) int64) []int64 {
		var out []int64
		for i := range d {
			out = append(out, f(i))
		}
		return out
	}
	kernel := list(func(i int) int64 { return 1 + int64(n.r.IntN(min(3, shape[2+i]))) })
	strides := list(func(int) int64 { return 1 + int64(n.r.IntN(2)) })
	pads := append(list(func(i int) int64 { return int64(n.r.IntN(int(min(2, kernel[i])))) }), list(func(i int) int64 { return int64(n.r.IntN(int(min(2, kernel[i])))) })...)
	a := attrs{"kernel_shape": kernel, "strides": strides, "pads": pads}
	switch op := n.of("Conv Conv ConvTranspose MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool DepthToSpace SpaceToDepth Resize Resize"); op {
	case "Conv", "ConvTranspose":
		group := 1
		if shape[1]%2 == 0 && n.r.IntN(2) == 0 {
			group = 2
		}
		a["group"] = group
		out := group * (1 + n.r.IntN(2))
		w := []int{out, shape[1] / group}
		if op == "ConvTranspose" {
			w = []int{shape[1], out / group}
			a["pads"] = filled(0, 2*d)
		}
		for _, k := range kernel {
			w = append(w, int(k))
		}
		in := []ID{v.id, n.param(w...).id}
		if n.r.IntN(2) == 0 {
			in = append(in, n.param(out).id)
		}
		return n.one(op, a, in...), true
	case "MaxPool":
		return n.one(op, a, n.placed(v, n.apart).id), true
	case "AveragePool":
		a["count_include_pad"] = n.r.IntN(2)
		return n.one(op, a, v.id), true
	case "LpPool":
		return n.one(op, a, n.placed(v, above).id), true
	case "GlobalMaxPool":
		return n.one(op, nil, n.placed(v, n.apart).id), true
	case "GlobalAveragePool":
		return n.one(op, nil, v.id), true
	case "DepthToSpace":
		if d != 2 || shape[1]%4 != 0 {
			return v, false
		}
		return n.one(op, attrs{"blocksize": 2, "mode": n.of("DCR CRD")}, v.id), true
	case "SpaceToDepth":
		if d != 2 || shape[2]%2+shape[3]%2 != 0 {
			return v, false
		}
		return n.one(op, attrs{"blocksize": 2}, v.id), true
	}
	sizes := []int64{int64(shape[0]), int64(shape[1])}
	for i := range d {
		sizes = append(sizes, int64(max(1, shape[2+i]+n.r.IntN(4)-1)))
	}
	return n.one("Resize", attrs{"mode": n.of("nearest linear cubic"), "coordinate_transformation_mode": n.of("half_pixel asymmetric align_corners")}, v.id, graph.None, graph.None, n.ints(sizes...)), true
}

func elementsOf(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func (n *randomNet) norm(v randomValue) (randomValue, bool) {
	shape := v.x.Shape
	r := len(shape)
	if r < 2 || shape[r-1] < 2 || elementsOf(shape) < 4 {
		return v, false
	}
	last, channels := shape[r-1], shape[1]
	e := attrs{"epsilon": 0.01}
	switch op := n.of("LayerNormalization LayerNormalization RMSNormalization GroupNormalization InstanceNormalization BatchNormalization LRN LpNormalization MeanVarianceNormalization"); op {
	case "LayerNormalization":
		return n.one(op, attrs{"axis": -1, "epsilon": 0.01}, v.id, n.param(last).id, n.param(last).id), true
	case "RMSNormalization":
		if n.opset < 23 {
			return v, false
		}
		return n.one(op, e, v.id, n.param(last).id), true
	case "GroupNormalization":
		if r < 3 || n.opset < 21 || channels%2 != 0 {
			return v, false
		}
		return n.one(op, attrs{"num_groups": 2, "epsilon": 0.01}, v.id, n.param(channels).id, n.param(channels).id), true
	case "InstanceNormalization":
		if r < 3 {
			return v, false
		}
		return n.one(op, e, v.id, n.param(channels).id, n.param(channels).id), true
	case "BatchNormalization":
		variance := n.builder.value(param(channels).in(0.5, 1))
		mean := n.initializer(fmt.Sprintf("mean%d", len(n.m.Graph.Tensors)), n.builder.value(param(channels)))
		in := []ID{v.id, n.param(channels).id, n.param(channels).id, mean, n.initializer(fmt.Sprintf("variance%d", len(n.m.Graph.Tensors)), variance)}
		if n.frozen() {
			return n.one(op, e, in...), true
		}
		return n.apply(op, attrs{"epsilon": 0.01, "training_mode": 1}, 3, in...)[0], true
	case "LRN":
		if r < 3 {
			return v, false
		}
		return n.one(op, attrs{"size": 1 + n.r.IntN(3), "alpha": 0.1}, v.id), true
	case "LpNormalization":
		p := 1 + n.r.IntN(2)
		return n.one(op, attrs{"axis": n.axis(v), "p": p}, n.placed(v, n.apart).id), true
	default:
		if r != 4 {
			return v, false
		}
		return n.one(op, nil, n.placed(v, n.apart).id), true
	}
}

func (n *randomNet) reduction(v randomValue) (randomValue, bool) {
	r := len(v.x.Shape)
	if r == 0 {
		return v, false
	}
	op := n.of("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp")
	var over []int64
	for a := range r {
		if n.r.IntN(2) == 0 {
			over = append(over, int64(a))
		}
	}
	if len(over) == 0 {
		over = []int64{int64(n.axis(v))}
	}
	switch op {
	case "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2":
		v = n.placed(v, n.apart)
	case "ReduceLogSum":
		v = n.placed(v, above)
	case "ReduceProd":
		v = n.placed(v, n.orCorner(nearOne))
	}
	return n.one(op, attrs{"keepdims": n.r.IntN(2)}, v.id, n.ints(over...)), true
}

func nearOne(k, of int) float64 {
	v := 0.8 + 0.4*(float64(k)+0.5)/float64(of)
	if k%3 == 0 {
		v = -v
	}
	return v
}

func (n *randomNet) shaped(v randomValue) (randomValue, bool) {
	shape := v.x.Shape
	r := len(shape)
	if r == 0 {
		return v, false
	}
	a := n.r.IntN(r)
	switch op := n.of("Reshape Flatten Unsqueeze Squeeze Transpose Concat Split Pad Expand Tile Slice Trilu"); op {
	case "Reshape":
		to := slices.Clone(shape)
		n.r.Shuffle(r, func(i, k int) { to[i], to[k] = to[k], to[i] })
		if r > 2 && n.r.IntN(2) == 0 {
			to = append([]int{to[0] * to[1]}, to[2:]...)
		}
		list := make([]int64, len(to))
		for i, d := range to {
			list[i] = int64(d)
		}
		return n.one(op, nil, v.id, n.ints(list...)), true
	case "Flatten":
		return n.one(op, attrs{"axis": a}, v.id), true
	case "Unsqueeze":
		if r > 3 {
			return v, false
		}
		return n.one(op, nil, v.id, n.ints(int64(a))), true
	case "Squeeze":
		if !slices.Contains(shape, 1) {
			return v, false
		}
		return n.one(op, nil, v.id, n.ints(int64(slices.Index(shape, 1)))), true
	case "Transpose":
		perm := make([]int64, r)
		for i, k := range n.r.Perm(r) {
			perm[i] = int64(k)
		}
		return n.one(op, attrs{"perm": perm}, v.id), true
	case "Concat":
		if elementsOf(shape) > 60 {
			return v, false
		}
		o := n.param(shape...)
		for _, k := range n.pool {
			if slices.Equal(k.x.Shape, shape) && n.r.IntN(2) == 0 {
				o = k
			}
		}
		return n.one(op, attrs{"axis": a}, v.id, o.id, v.id), true
	case "Split":
		if shape[a] < 2 {
			return v, false
		}
		first := int64(1 + n.r.IntN(shape[a]-1))
		parts := n.apply(op, attrs{"axis": a}, 2, v.id, n.ints(first, int64(shape[a])-first))
		k := n.r.IntN(2)
		if n.r.IntN(2) == 0 {
			n.pool = append(n.pool, parts[1-k])
		}
		return parts[k], true
	case "Pad":
		if elementsOf(shape) > 60 || shape[a] < 2 {
			return v, false
		}
		pads := filled(0, 2*r)
		pads[a], pads[r+a] = int64(n.r.IntN(2)), 1
		return n.one(op, attrs{"mode": n.of("constant reflect edge")}, v.id, n.ints(pads...)), true
	case "Expand":
		if elementsOf(shape) > 40 || r > 3 {
			return v, false
		}
		list := []int64{2}
		for _, d := range shape {
			list = append(list, int64(d))
		}
		return n.one(op, nil, v.id, n.ints(list...)), true
	case "Tile":
		if elementsOf(shape) > 40 {
			return v, false
		}
		list := filled(1, r)
		list[a] = 2
		return n.one(op, nil, v.id, n.ints(list...)), true
	case "Slice":
		if shape[a] < 2 {
			return v, false
		}
		if n.r.IntN(2) == 0 {
			return n.one(op, nil, v.id, n.ints(-1), n.ints(math.MinInt64), n.ints(int64(a)), n.ints(-1)), true
		}
		return n.one(op, nil, v.id, n.ints(int64(n.r.IntN(2))), n.ints(int64(shape[a])), n.ints(int64(a)), n.ints(1+int64(n.r.IntN(2)))), true
	default:
		if r < 2 {
			return v, false
		}
		return n.one("Trilu", attrs{"upper": n.r.IntN(2)}, v.id), true
	}
}

func (n *randomNet) selected(v randomValue) (randomValue, bool) {
	shape := v.x.Shape
	if len(shape) == 0 {
		return v, false
	}
	a := n.r.IntN(len(shape))
	indices := func(shape []int) ID {
		x := &reference.Tensor{Type: graph.Int64, Shape: shape, I: make([]int64, elementsOf(shape))}
		for i := range x.I {
			x.I[i] = int64(n.r.IntN(v.x.Shape[a]))
		}
		return n.initializer(fmt.Sprintf("at%d", len(n.m.Graph.Tensors)), x)
	}
	switch op := n.of("Gather GatherElements ScatterElements TopK CumSum Embedding"); op {
	case "Gather":
		return n.one(op, attrs{"axis": a}, v.id, indices([]int{1 + n.r.IntN(3)})), true
	case "GatherElements":
		return n.one(op, attrs{"axis": a}, v.id, indices(shape)), true
	case "ScatterElements":
		return n.one(op, attrs{"axis": a, "reduction": "add"}, v.id, indices(shape), n.param(shape...).id), true
	case "TopK":
		k := int64(1 + n.r.IntN(shape[a]))
		return n.apply(op, attrs{"axis": a, "largest": n.r.IntN(2)}, 2, n.placed(v, n.apart).id, n.ints(k))[0], true
	case "CumSum":
		return n.one(op, attrs{"exclusive": n.r.IntN(2), "reverse": n.r.IntN(2)}, v.id, n.initializer(fmt.Sprintf("axis%d", len(n.m.Graph.Tensors)), reference.Ints(nil, int64(a)))), true
	default: // rows of a table are added
		last := shape[len(shape)-1]
		table := n.param(4, last)
		at := &reference.Tensor{Type: graph.Int64, Shape: []int{1}, I: []int64{int64(n.r.IntN(4))}}
		row := n.one("Gather", nil, table.id, n.initializer(fmt.Sprintf("word%d", len(n.m.Graph.Tensors)), at))
		return n.one("Add", nil, v.id, row.id), true
	}
}

func (n *randomNet) recurrent(v randomValue) (randomValue, bool) {
	shape := v.x.Shape
	if len(shape) != 3 || elementsOf(shape) > 60 || shape[0] < 2 || shape[0] > 4 { // one step reads no recurrent weight
		return v, false
	}
	op := n.of("LSTM GRU RNN")
	gates := map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1}[op]
	const hidden = 2
	directions, a := 1, attrs{"hidden_size": hidden}
	switch n.r.IntN(3) {
	case 0:
		directions, a["direction"] = 2, "bidirectional"
	case 1:
		a["direction"] = "reverse"
	}
	if op == "GRU" {
		a["linear_before_reset"] = n.r.IntN(2)
	}
	in := []ID{v.id, n.param(directions, gates*hidden, shape[2]).id, n.param(directions, gates*hidden, hidden).id}
	if n.r.IntN(2) == 0 {
		in = append(in, n.param(directions, 2*gates*hidden).id)
	}
	y := n.one(op, a, in...)
	if n.r.IntN(2) == 0 {
		return n.one("Squeeze", nil, n.one("Slice", nil, y.id, n.ints(0), n.ints(1), n.ints(1)).id, n.ints(1)), true
	}
	return y, true
}

// spelledOut writes an operator as exporters do, of several.
func (n *randomNet) spelledOut(v randomValue) (randomValue, bool) {
	r := len(v.x.Shape)
	if r == 0 {
		return v, false
	}
	mul := func(a, b ID) ID { return n.one("Mul", nil, a, b).id }
	last := n.ints(-1)
	switch n.r.IntN(12) {
	case 0:
		return n.one("Mul", nil, v.id, n.one("Sigmoid", nil, v.id).id), true
	case 1:
		e := n.one("Erf", nil, n.one("Div", nil, v.id, n.number(math.Sqrt2)).id)
		return n.one("Mul", nil, mul(v.id, n.one("Add", nil, e.id, n.number(1)).id), n.number(0.5)), true
	case 2:
		cube := mul(n.one("Pow", nil, v.id, n.number(3)).id, n.number(0.044715))
		e := n.one("Tanh", nil, mul(n.one("Add", nil, v.id, cube).id, n.number(math.Sqrt(2/math.Pi))))
		return n.one("Mul", nil, mul(v.id, n.number(0.5)), n.one("Add", nil, e.id, n.number(1)).id), true
	case 3:
		square := n.one("ReduceMean", nil, n.one("Pow", nil, v.id, n.number(2)).id, last)
		root := n.one("Sqrt", nil, n.one("Add", nil, square.id, n.number(0.01)).id)
		return n.one("Mul", nil, n.one("Div", nil, v.id, root.id).id, n.param(v.x.Shape[r-1]).id), true
	case 4:
		d := n.one("Sub", nil, v.id, n.one("ReduceMean", nil, v.id, last).id)
		variance := n.one("ReduceMean", nil, mul(d.id, d.id), last)
		return n.one("Div", nil, d.id, n.one("Sqrt", nil, n.one("Add", nil, variance.id, n.number(0.01)).id).id), true
	case 5:
		v = n.placed(v, n.apart)
		e := n.one("Exp", nil, n.one("Sub", nil, v.id, n.one("ReduceMax", nil, v.id, last).id).id)
		return n.one("Div", nil, e.id, n.one("ReduceSum", nil, e.id, last).id), true
	case 6:
		v = n.placed(v, n.apart)
		return n.one("Div", nil, v.id, n.one("Clip", nil, n.one("ReduceL2", nil, v.id, last).id, n.number(1e-12)).id), true
	case 7:
		v = n.placed(v, n.apart)
		return n.one("Sqrt", nil, n.one("ReduceSum", nil, mul(v.id, v.id), last).id), true
	case 8:
		return n.one("Atan", nil, n.one("Div", nil, v.id, n.placed(n.operand(v), above).id).id), true
	case 9:
		return n.one("Log", nil, n.one(n.of("Sigmoid Softmax"), nil, v.id).id), true
	case 10: // what is chosen of a logarithm
		v = n.placed(v, n.apart)
		return n.one("Where", nil, n.one("Greater", nil, v.id, n.number(0)).id, n.one("Log", nil, v.id).id, n.number(0.5)), true
	default: // attention with a mask that hides what comes later
		if r != 3 {
			return v, false
		}
		t := v.x.Shape[1]
		mask := &reference.Tensor{Type: graph.Float64, Shape: []int{t, t}}
		for i := range t * t {
			mask.F = append(mask.F, map[bool]float64{true: -1e9}[i%t > i/t])
		}
		scores := n.one("MatMul", nil, v.id, n.one("Transpose", attrs{"perm": []int64{0, 2, 1}}, v.id).id)
		scores = n.one("Add", nil, scores.id, n.initializer(fmt.Sprintf("mask%d", len(n.m.Graph.Tensors)), mask))
		return n.one("MatMul", nil, n.one("Softmax", nil, scores.id).id, v.id), true
	}
}

// end makes the output and the labels of a loss. What no node has read is summed with
// weights, if the network has a loss of its own.
func (n *randomNet) end() {
	v := n.pool[len(n.pool)-1]
	if len(v.x.Shape) == 0 {
		v = n.one("Mul", nil, v.id, n.param(3).id)
	}
	n.loss = n.of("mse l1 bce cross-entropy none:objective none:objective")
	if n.loss == "none:objective" || len(v.x.Shape) < 2 && n.loss == "cross-entropy" {
		n.loss = "none:objective"
		total := ID(graph.None)
		for i, k := range n.pool {
			if n.read[k.id] && i < len(n.pool)-1 {
				continue
			}
			w := n.initializer(fmt.Sprintf("w%d", len(n.m.Graph.Tensors)), n.builder.value(operand{shape: k.x.Shape, elem: graph.Float64}))
			term := n.one("ReduceSum", attrs{"keepdims": 0}, n.one("Mul", nil, k.id, w).id).id
			if total != graph.None {
				term = n.one("Add", nil, total, term).id
			}
			total = term
		}
		n.finish(n.op("objective", "Identity", nil, total))
		n.keepReached(total)
		return
	}
	if n.loss == "cross-entropy" {
		rank := len(v.x.Shape)
		axis := 1
		if rank == 3 {
			axis = 2
		}
		if v.x.Shape[axis] < 2 {
			v = n.one("MatMul", nil, n.one("Flatten", nil, v.id).id, n.param(elementsOf(v.x.Shape)/v.x.Shape[0], 3).id)
			axis = 1
		}
		classes := v.x.Shape[axis]
		shape := slices.Delete(slices.Clone(v.x.Shape), axis, axis+1)
		labels := &reference.Tensor{Type: graph.Int64, Shape: shape}
		for i := range elementsOf(shape) {
			k := int64(n.r.IntN(classes))
			if i > 0 && n.r.IntN(4) == 0 {
				k = ignoredLabel
			}
			labels.I = append(labels.I, k)
		}
		n.feeds[labelsName] = labels
	} else {
		labels := &reference.Tensor{Type: graph.Float64, Shape: v.x.Shape}
		for _, f := range v.x.F {
			k := f + []float64{-0.5, 0.3}[n.r.IntN(2)]
			if n.loss == "bce" {
				k = float64(n.r.IntN(3)) / 2
			}
			labels.F = append(labels.F, k)
		}
		n.feeds[labelsName] = labels
	}
	n.pool = append(n.pool, v)
	n.finish(v.id)
	n.keepReached(v.id)
}

// keepReached freezes the parameters on which the loss does not depend: they become
// constants by another name.
func (n *randomNet) keepReached(from ID) {
	g := n.m.Graph
	reached := map[ID]bool{from: true}
	for _, k := range slices.Backward(g.Nodes) {
		if slices.ContainsFunc(k.Outputs, func(t ID) bool { return reached[t] }) && k.Op != "Floor" {
			for _, t := range k.Inputs {
				reached[t] = true
			}
		}
	}
	for i, t := range g.Tensors {
		if t.Data != nil && !reached[ID(i)] && strings.HasPrefix(t.Name, "p") {
			t.Name = "unread." + t.Name
		}
	}
}
