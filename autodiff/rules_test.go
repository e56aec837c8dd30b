package autodiff

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/opcase"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/ops"
)

// ruleCase is one node. The loss is a sum over the elements of its outputs, each times a
// fixed random number. The gradients of the loss with respect to the operands that are
// parameters are compared with central differences.
type ruleCase struct {
	domain, op string
	name       string  // what the case shows
	rule       string  // the operator that an upgrade makes of op; "": op itself
	opsets     []int64 // of ai.onnx; none: 18
	in         []operand
	attrs      attrs
	outputs    int   // of the node; 0: one
	use        []int // outputs that the loss reads; nil: all
	training   bool  // the node behaves differently in training: its loss is not the model's
	freeze     bool  // Options.FreezeStatistics
	zero       bool  // no gradient flows through the node
}

// operand is an input of the node.
type operand struct {
	shape     []int
	low, high float64 // range of random elements; both 0: ±[0.2, 0.9]
	reals     []float64
	ints      []int64
	elem      graph.DType
	param     bool // a trained initializer
	known     bool // an untrained initializer; otherwise a graph input
	like      int  // 1 + the index of the operand that is the same tensor
	absent    bool
}

// param returns a float64 parameter whose elements keep away from 0 and from integers.
func param(shape ...int) operand {
	return operand{shape: shape, elem: graph.Float64, param: true}
}

// in returns o with elements drawn from an interval.
func (o operand) in(low, high float64) operand {
	o.low, o.high = low, high
	return o
}

// of returns o with the given elements.
func (o operand) of(v ...float64) operand {
	o.reals = v
	return o
}

// as returns o with another floating-point type.
func (o operand) as(elem graph.DType) operand {
	o.elem = elem
	return o
}

// fed returns o as a graph input.
func (o operand) fed() operand {
	o.param, o.known = false, false
	return o
}

// fixed returns o as an untrained initializer.
func (o operand) fixed() operand {
	o.param, o.known = false, true
	return o
}

// list returns a constant int64 list.
func list(v ...int64) operand {
	return operand{shape: []int{len(v)}, ints: v, elem: graph.Int64, known: true}
}

// list32 returns a constant int32 list.
func list32(v ...int64) operand {
	o := list(v...)
	o.elem = graph.Int32
	return o
}

// number returns a constant int64 scalar.
func number(v int64) operand {
	return operand{ints: []int64{v}, elem: graph.Int64, known: true}
}

// indices returns an int64 graph input.
func indices(shape []int, v ...int64) operand {
	return operand{shape: shape, ints: v, elem: graph.Int64}
}

// flags returns a bool graph input.
func flags(shape []int, v ...int64) operand {
	return operand{shape: shape, ints: v, elem: graph.Bool}
}

// same returns the tensor of an earlier operand.
func same(i int) operand { return operand{like: i + 1} }

// omitted is an optional input that the node leaves out.
var omitted = operand{absent: true}

// allRuleCases returns the cases of all families.
func allRuleCases() []ruleCase {
	list := slices.Concat(
		elementwiseCases, arithmeticCases, reduceCases, matmulCases, convCases, poolCases, normCases,
		softmaxCases, lossCases, shapeCases, selectCases, padCases, resizeCases, gridCases,
		contribCases, recurrentCases, attentionCases, contribExpansionCases,
		imageCases, signalCases, withdrawnCases, detCases, swigluCases, moreContribCases, linearAttentionCases, mlCases,
	)
	return append(list, signatureCases(list)...)
}

// signatureCases are the cases that signatures give of elementwise operators with a rule but
// without a case in a list.
func signatureCases(list []ruleCase) (more []ruleCase) {
	cases, err := opcase.Elementwise(2, 5)
	if err != nil {
		panic(err)
	}
	for _, c := range cases {
		r := LookupRule(c.Domain, c.Op)
		if r == nil || slices.ContainsFunc(list, func(x ruleCase) bool { return x.domain == c.Domain && x.op == c.Op }) {
			continue
		}
		k := ruleCase{domain: c.Domain, op: c.Op, attrs: attrs{}, zero: r.Grad == nil}
		if c.Domain == "" {
			k.opsets = []int64{c.Version}
		}
		for _, a := range c.Attrs {
			k.attrs[a.Name] = float64(a.Float)
		}
		for _, x := range c.In {
			k.in = append(k.in, param(x.Shape...).of(x.F...))
		}
		more = append(more, k)
	}
	return more
}

// TestRules differentiates every case and compares. With -v it prints the number of
// cases and the largest error of each operator.
func TestRules(t *testing.T) {
	type figure struct {
		cases int
		worst float64
	}
	figures := map[string]*figure{}
	for _, c := range allRuleCases() {
		f := figures[c.op]
		if f == nil {
			f = &figure{}
			figures[c.op] = f
		}
		opsets := c.opsets
		if opsets == nil {
			opsets = []int64{18}
		}
		for _, opset := range opsets {
			name := c.op
			if c.name != "" {
				name += "/" + c.name
			}
			t.Run(fmt.Sprintf("%s/opset=%d", name, opset), func(t *testing.T) {
				f.worst = max(f.worst, c.check(t, opset))
			})
			f.cases++
		}
	}
	for _, op := range slices.Sorted(maps.Keys(figures)) {
		t.Logf("| %s | %d | %.1e |", op, figures[op].cases, figures[op].worst)
	}
}

// TestRulesAreCovered: each rule and each expansion has a case, and each input with a
// gradient is a parameter in some case.
func TestRulesAreCovered(t *testing.T) {
	cases := map[ruleKey][]ruleCase{}
	for _, c := range allRuleCases() {
		k := ruleKey{c.domain, c.op}
		if c.rule != "" {
			k.op = c.rule
		}
		cases[k] = append(cases[k], c)
	}
	for k, r := range rules {
		if k.op == "If" || k.op == "Scan" {
			continue // TestScanGradients
		}
		if len(cases[k]) == 0 {
			t.Errorf("rule of %s %s: no case, and its signature gives none: write one in a file cases_*_test.go", k.domain, k.op)
		}
		asked, there := map[int]bool{}, map[int]bool{}
		for _, c := range cases[k] {
			if c.zero != (r.Grad == nil) {
				t.Errorf("rule of %s %s: case %q expects zero: %v", k.domain, k.op, c.name, c.zero)
			}
			for i, o := range c.in {
				if o.like > 0 {
					o = c.in[o.like-1]
				}
				there[i] = there[i] || !o.absent && r.flows(i, o.elem)
				asked[i] = asked[i] || o.param
			}
		}
		for i := range there {
			if there[i] && !asked[i] {
				t.Errorf("rule of %s %s: no case asks for the gradient of input %d", k.domain, k.op, i)
			}
		}
	}
	for k := range expansions {
		if len(cases[k]) == 0 && !slices.Contains([]string{"Loop", "Scan", "SequenceAt", "ConcatFromSequence"}, k.op) { // TestLoopGradients, TestTurnedScanGradients, TestSequenceGradients
			t.Errorf("expansion of %s %s: no case", k.domain, k.op)
		}
	}
	for k := range cases {
		if rules[k] == nil && expansions[k] == nil {
			t.Errorf("cases of %s %s: there is no rule", k.domain, k.op)
		}
	}
}

// builder makes a small model.
type builder struct {
	m     *graph.Model
	feeds map[string]*reference.Tensor
	rnd   *rand.Rand
}

func newBuilder(name string, opset int64) *builder {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	m := &graph.Model{
		IRVersion: 8, Graph: &graph.Graph{Name: "g"},
		Opsets: []graph.Opset{{Version: opset}, {Domain: "com.microsoft", Version: 1}, {Domain: "ai.onnx.ml", Version: 5}, {Domain: fusedDomain, Version: 1}},
	}
	return &builder{m, map[string]*reference.Tensor{}, rand.New(rand.NewPCG(h.Sum64(), 1))}
}

// value draws the elements of an operand.
func (b *builder) value(o operand) *reference.Tensor {
	x := &reference.Tensor{Type: o.elem, Shape: o.shape, I: o.ints, F: o.reals}
	n := 1
	for _, d := range o.shape {
		n *= d
	}
	for o.elem.Floating() && len(x.F) < n {
		v := 0.2 + 0.7*b.rnd.Float64()
		switch {
		case o.low != 0 || o.high != 0:
			v = o.low + (o.high-o.low)*b.rnd.Float64()
		case b.rnd.IntN(2) == 0:
			v = -v
		}
		x.F = append(x.F, v)
	}
	return x
}

// input adds a graph input.
func (b *builder) input(name string, x *reference.Tensor) ID {
	id := b.m.Graph.NewTensor(name)
	typ := dataOf(x).TensorType()
	b.m.Graph.Tensors[id].Declared = &graph.Declared{Type: typ, Symbols: make([]string, len(typ.Shape))}
	b.m.Graph.Tensors[id].Input = true
	b.m.Graph.Inputs = append(b.m.Graph.Inputs, id)
	b.feeds[name] = x
	return id
}

// initializer adds an initializer.
func (b *builder) initializer(name string, x *reference.Tensor) ID {
	id := b.m.Graph.NewTensor(name)
	d := dataOf(x)
	d.Name = name
	b.m.Graph.Tensors[id].Data = d
	return id
}

// node adds a node with outputs of the given names; "" leaves one out.
func (b *builder) node(domain, op string, a attrs, in []ID, outputs ...string) []ID {
	n := &graph.Node{Name: outputs[0] + "/" + op, Op: op, Domain: domain, Inputs: in, Attrs: attributes(a)}
	for _, name := range outputs {
		id := ID(graph.None)
		if name != "" {
			id = b.m.Graph.NewTensor(name)
		}
		n.Outputs = append(n.Outputs, id)
	}
	b.m.Graph.Nodes = append(b.m.Graph.Nodes, n)
	return slices.Clone(n.Outputs)
}

// attributes returns the attributes of a node, including lists of floats and of strings.
func attributes(a attrs) []*graph.Attr {
	a = maps.Clone(a)
	var more []*graph.Attr
	for name, v := range a {
		switch v := v.(type) {
		case []float64:
			at := &graph.Attr{Name: name, Type: graph.AttrFloats}
			for _, x := range v {
				at.Floats = append(at.Floats, float32(x))
			}
			more = append(more, at)
			delete(a, name)
		case []string:
			more = append(more, &graph.Attr{Name: name, Type: graph.AttrStrings, Strings: v})
			delete(a, name)
		}
	}
	slices.SortFunc(more, func(a, b *graph.Attr) int { return strings.Compare(a.Name, b.Name) })
	return append(a.list(), more...)
}

// op adds a node of ai.onnx with one output.
func (b *builder) op(name, op string, a attrs, in ...ID) ID { return b.node("", op, a, in, name)[0] }

// finish makes the given tensors graph outputs.
func (b *builder) finish(outputs ...ID) *graph.Model {
	g := b.m.Graph
	g.Outputs = outputs
	for _, t := range outputs {
		g.Tensors[t].Output = true
	}
	g.Link()
	return b.m
}

// dataOf returns a tensor as an initializer.
func dataOf(x *reference.Tensor) *graph.Data {
	d := &graph.Data{Type: x.Type, Dims: make([]int64, len(x.Shape)), Raw: []byte{}}
	for i, n := range x.Shape {
		d.Dims[i] = int64(n)
	}
	for _, v := range x.F {
		switch x.Type {
		case graph.Float32:
			d.Raw = binary.LittleEndian.AppendUint32(d.Raw, math.Float32bits(float32(v)))
		case graph.Float64:
			d.Raw = binary.LittleEndian.AppendUint64(d.Raw, math.Float64bits(v))
		default:
			panic(fmt.Sprintf("initializer of type %v", x.Type))
		}
	}
	for _, v := range x.I {
		switch x.Type {
		case graph.Int64:
			d.Raw = binary.LittleEndian.AppendUint64(d.Raw, uint64(v))
		case graph.Int32:
			d.Raw = binary.LittleEndian.AppendUint32(d.Raw, uint32(int32(v)))
		case graph.Bool, graph.Uint8, graph.Int8:
			d.Raw = append(d.Raw, byte(v))
		default:
			panic(fmt.Sprintf("initializer of type %v", x.Type))
		}
	}
	d.Bytes = int64(len(d.Raw))
	return d
}

// model builds the case's model; its only output is "objective".
func (c *ruleCase) model(t *testing.T, opset int64) *builder {
	t.Helper()
	b := newBuilder(c.op+c.name, opset)
	var in []ID
	for i, o := range c.in {
		switch {
		case o.absent:
			in = append(in, graph.None)
		case o.like > 0:
			in = append(in, in[o.like-1])
		case o.param:
			in = append(in, b.initializer(fmt.Sprintf("p%d", i), b.value(o)))
		case o.known:
			in = append(in, b.initializer(fmt.Sprintf("c%d", i), b.value(o)))
		default:
			in = append(in, b.input(fmt.Sprintf("x%d", i), b.value(o)))
		}
	}
	var names []string
	for k := range max(c.outputs, 1) {
		names = append(names, fmt.Sprintf("y%d", k))
	}
	use := c.use
	for k := range names {
		if c.use == nil {
			use = append(use, k)
		}
	}
	outputs := b.node(c.domain, c.op, c.attrs, in, names...)
	b.m.Graph.Link()
	made := c.results(t, b, names, outputs)
	total := ID(graph.None)
	add := func(name string, term ID) {
		if total == graph.None {
			total = term
		} else {
			total = b.op(name+"/total", "Add", nil, total, term)
		}
	}
	weighted := func(name string, y ID, x *reference.Tensor) {
		if x.Type.Floating() {
			w := b.initializer(name+"/weights", b.value(operand{shape: x.Shape, elem: x.Type}))
			y = b.op(name+"/weighted", "Mul", nil, y, w)
		}
		if x.Type != graph.Float64 {
			y = b.op(name+"/cast", "Cast", attrs{"to": graph.Float64}, y)
		}
		add(name, b.op(name+"/sum", "ReduceSum", attrs{"keepdims": 0}, y))
	}
	for _, k := range use {
		weighted(names[k], outputs[k], made[names[k]])
	}
	if c.zero { // a path to the loss besides the node
		x := b.value(param(3))
		weighted("aside", b.initializer("p99", x), x)
		for i, o := range c.in {
			if o.param {
				x, err := reference.FromData(b.m.Graph.Tensors[in[i]].Data)
				if err != nil {
					t.Fatal(err)
				}
				weighted(fmt.Sprintf("aside%d", i), in[i], x)
			}
		}
	}
	b.finish(b.op("objective", "Identity", nil, total))
	return b
}

// results returns the types and shapes of the node's outputs, and their elements if the
// evaluator knows the operator.
func (c *ruleCase) results(t *testing.T, b *builder, names []string, outputs []ID) map[string]*reference.Tensor {
	t.Helper()
	if reference.Knows(c.domain, c.op) {
		made, err := reference.Eval(b.m, b.feeds, names...)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	if _, err := ops.Infer(b.m, ops.Options{}); err != nil {
		t.Fatal(err)
	}
	made := map[string]*reference.Tensor{}
	for k, id := range outputs {
		typ := b.m.Graph.Tensors[id].Type
		x := &reference.Tensor{Type: typ.Elem, Shape: []int{}}
		for _, d := range typ.Shape {
			x.Shape = append(x.Shape, int(d))
		}
		made[names[k]] = x
	}
	return made
}

// check trains one step of the case's model, compares the gradients, and returns the
// largest error of an element.
func (c *ruleCase) check(t *testing.T, opset int64, noLean ...string) float64 {
	t.Helper()
	b := c.model(t, opset)
	known := reference.Knows(c.domain, c.op) // else ONNX's operator tests or ONNX Runtime tell the result
	var want map[string]*reference.Tensor
	var err error
	if known {
		if want, err = reference.Eval(b.m, b.feeds, "objective"); err != nil {
			t.Fatal(err)
		}
	}
	step, err := Train(b.m, Options{
		Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`), KeepGradients: true, FreezeStatistics: c.freeze, NoLean: noLean,
	})
	if err != nil {
		t.Fatal(err)
	}
	const most = 24 // elements of each parameter
	got, worst := checkGradients(t, step, b.feeds, most)
	if !known {
		return worst
	}
	if v, w := got["loss"].F[0], want["objective"].F[0]; !c.training && math.Abs(v-w) > 1e-9*math.Max(1, math.Abs(w)) {
		t.Errorf("loss %v, expected %v as before training: upgrade or expansion changed the model", v, w)
	}
	return worst
}

// residents returns the initial values of parameters and states.
func residents(t *testing.T, step *Step) map[string]*reference.Tensor {
	t.Helper()
	first := map[string]*reference.Tensor{}
	for _, p := range step.Params.Graph.Tensors {
		x, err := reference.FromData(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		first[p.Name] = x
	}
	return first
}

// feedsOf returns the inputs of a step: the data, the first values of parameters and states,
// and a learning rate.
func feedsOf(t *testing.T, step *Step, data map[string]*reference.Tensor) map[string]*reference.Tensor {
	t.Helper()
	feeds := residents(t, step)
	maps.Copy(feeds, data)
	feeds[rateName] = &reference.Tensor{Type: graph.Float32, Shape: []int{}, F: []float64{0.01}}
	return feeds
}

// gradientsOf returns other names and those of the gradients of a step's parameters.
func gradientsOf(step *Step, others ...string) []string {
	for _, p := range step.Parameters {
		others = append(others, p+".grad")
	}
	return others
}

// checkGradients compares the gradients of all parameters with central differences of
// the loss, at most the given number of elements of each. It returns the loss, the
// gradients, and the largest difference, relative to the largest element of the gradient
// if that is above 1.
func checkGradients(t *testing.T, step *Step, data map[string]*reference.Tensor, most int) (_ map[string]*reference.Tensor, worst float64) {
	t.Helper()
	checkMade(t, step.Model.Graph)
	feeds := feedsOf(t, step, data)
	got, err := reference.Eval(step.Model, feeds, gradientsOf(step, lossName)...)
	if err != nil {
		t.Fatal(err)
	}
	loss := func() float64 {
		out, err := reference.Eval(step.Model, feeds, lossName)
		if err != nil {
			t.Fatal(err)
		}
		return out[lossName].F[0]
	}
	for _, p := range step.Parameters {
		x, d := feeds[p], got[p+".grad"]
		if d.Type != x.Type || !slices.Equal(d.Shape, x.Shape) {
			t.Errorf("gradient of %s: %v%v, expected %v%v", p, d.Type, d.Shape, x.Type, x.Shape)
			continue
		}
		scale := 1.0
		for _, v := range d.F {
			scale = math.Max(scale, math.Abs(v))
		}
		const h, tolerance = 1e-6, 1e-6
		for k := range min(len(x.F), most) {
			i := k
			if len(x.F) > most { // a sample
				i = k * 7919 % len(x.F)
			}
			v := x.F[i]
			x.F[i] = v + h
			above := loss()
			x.F[i] = v - h
			below := loss()
			x.F[i] = v
			slope := (above - below) / (2 * h)
			off := math.Abs(d.F[i]-slope) / scale
			worst = max(worst, off)
			if !(off <= tolerance) {
				t.Errorf("gradient of %s, element %d of %v: %v, but the loss has the slope %v", p, i, x.Shape, d.F[i], slope)
				break
			}
		}
	}
	return got, worst
}
