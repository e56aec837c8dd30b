package autodiff

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
)

// TrainRange makes the graph of one training step that is right at every point, which is a
// combination of lengths of the dimensions with a range: LOW..HIGH, LOW..HIGH:STEP or a
// list, as 1,2,4. These dimensions stay open in the graph, but for one whose range is a single
// length. opt.Dims has the lengths of others. The types of the result are those of the corner, where all lengths are largest.
//
// A step is made at each point, as Train makes it there, but for the gradients of depthwise
// convolutions, whose form there has the batch in an attribute. All must have the nodes of the
// corner's, with the same attributes, and differ in constants alone: shapes, and factors
// such as 1/batch. In the result, nodes compute these from the shapes of inputs, to the
// same bits. Where steps differ in more, as those for batch 1 often do, since an axis of
// length 1 broadcasts, there is no such graph, and the error names the point and a node.
// A point at which the model has no valid shapes is no such point.
//
// progress may be nil; it hears how many of the points have been compared.
func TrainRange(ctx context.Context, m *graph.Model, opt Options, ranges map[string]string, progress func(done, of int)) (step *Step, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	dims, fixed := map[string]dimrange.Lengths{}, map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(ranges)) {
		l, err := dimrange.Parse(ranges[name])
		if err != nil {
			return nil, optionf("dimension %q: %w", graph.Short(name), err)
		}
		if _, twice := opt.Dims[name]; twice {
			return nil, optionf("dimension %q: expected a length or a range, found both", graph.Short(name))
		}
		if l.Count == 1 {
			fixed[name] = l.Low
		} else {
			dims[name] = l
		}
	}
	maps.Copy(fixed, opt.Dims)
	opt.Dims = fixed
	box, err := dimrange.NewBox(dims, maxRangePoints)
	if err != nil {
		return nil, &OptionError{err}
	}
	if opt.FusedGradients == FuseAll {
		return nil, optionf("fused gradients: expected those of convolutions alone with ranges of dimensions, as the functions of others are for one shape")
	}
	r := &ranger{source: m, opt: opt, box: box, uses: map[use]*openData{}}
	if r.step, err = r.at(m, box.Corner()); err != nil {
		return nil, err
	}
	r.graphs = nestedGraphs(r.step.Model.Graph)
	for _, find := range []func() error{r.fit, func() error { return r.compare(ctx, progress) }, r.open} {
		if err := find(); err != nil {
			return nil, err
		}
	}
	return r.step, mapped.Unchanged(m.Source, nil)
}

// maxRangePoints is the largest number of points whose steps are made.
const maxRangePoints = 1 << 20

// ranger makes one step for all points of a box.
type ranger struct {
	source  *graph.Model
	opt     Options
	box     *dimrange.Box
	step    *Step    // of the corner
	graphs  []nested // of that step
	uses    map[use]*openData
	refused []int                // points that the model does not take, ascending
	axes    map[axis]*polynomial // of graph inputs, where the length differs between points

	// varying are the axes of inputs and outputs of bodies whose length differs between points.
	varying map[*graph.Tensor][]int

	made  map[string]ID // nodes that open emits, by what they compute
	sizes map[string]ID // the lengths of dimensions
}

// use is an input of a node that is a constant. graph is the index of the node's graph in
// ranger.graphs.
type use struct{ graph, node, input int }

// axis is an axis of a graph input.
type axis struct{ input, axis int }

// polynomial gives a number at each point.
type polynomial struct{ terms []dimrange.Term }

// openData is a constant that differs between points: its elements as polynomials, or 1
// divided by them.
type openData struct {
	corner     *graph.Data
	elements   []polynomial
	reciprocal bool
}

// at makes the step at a point.
func (r *ranger) at(m *graph.Model, point int) (*Step, error) {
	opt := r.opt
	opt.Dims, opt.openDims = r.box.At(point), true
	maps.Copy(opt.Dims, r.opt.Dims)
	c := *m
	c.Graph = m.Graph.Clone()
	return Train(&c, opt)
}

// differences compares the step of a point with that of the corner. It returns the
// constants that differ, and the lengths of inputs that do.
func (r *ranger) differences(s *Step, point int) (map[use]*graph.Data, map[axis]int64, error) {
	c := &comparison{a: r.graphs, b: nestedGraphs(s.Model.Graph), found: map[use]*graph.Data{}, lengths: map[axis]int64{}}
	c.other = func(format string, args ...any) error {
		return graph.Errorf("training with ranges of dimensions: the step for %s is another graph than that for %s: %s: expected lengths for which it is the same graph, often those from 2 on, or one of %v for each step",
			graph.AtLengths(r.box.At(point)), graph.AtLengths(r.box.At(r.box.Corner())), fmt.Sprintf(format, args...), r.box.Names)
	}
	if len(c.a) != len(c.b) {
		return nil, nil, c.other("it has %d bodies instead of %d", len(c.b)-1, len(c.a)-1)
	}
	for k := range c.a {
		if err := c.graph(k); err != nil {
			return nil, nil, err
		}
	}
	return c.found, c.lengths, nil
}

// sameAttr reports whether two attributes are equal. Where they stand in a file does not
// matter.
func sameAttr(a, b *graph.Attr) bool {
	x, y := *a, *b
	x.Span, y.Span = graph.Span{}, graph.Span{}
	if x.Tensor != nil && y.Tensor != nil && sameData(x.Tensor, y.Tensor) {
		x.Tensor, y.Tensor = nil, nil
	}
	if (x.Graph == nil) == (y.Graph == nil) && len(x.Graphs) == len(y.Graphs) {
		x.Graph, y.Graph, x.Graphs, y.Graphs = nil, nil, nil, nil // bodies are compared by themselves
	}
	return reflect.DeepEqual(x, y)
}

// sameData reports whether two constants have the same elements.
func sameData(a, b *graph.Data) bool {
	if a == b {
		return true
	}
	return a.Type == b.Type && slices.Equal(a.Dims, b.Dims) && bytes.Equal(a.Raw, b.Raw) && slices.Equal(a.Ints, b.Ints) && slices.Equal(a.Floats, b.Floats) &&
		a.Generate == nil && b.Generate == nil && reflect.DeepEqual(a.External, b.External) && reflect.DeepEqual(a.Sparse, b.Sparse) && slices.Equal(a.Payload, b.Payload)
}

// fit finds, from a few points, a formula for everything that differs.
func (r *ranger) fit() error {
	steps := map[int]*Step{r.box.Corner(): r.step}
	lengths, points := r.box.Interpolation(func(point int) bool {
		if _, tried := steps[point]; !tried {
			s, err := r.at(r.source, point)
			if err != nil {
				s = nil
			}
			steps[point] = s
		}
		return steps[point] != nil
	})
	if points == nil {
		return graph.Errorf("training with ranges of dimensions: the model takes too few of the points, or there are too many dimensions: expected ranges of fewer dimensions, or with a step (LOW..HIGH:STEP)")
	}
	values := map[use][]*graph.Data{}
	sizes := map[axis][]int64{}
	r.varying = map[*graph.Tensor][]int{}
	for i, p := range points {
		found, inputs, err := r.differences(steps[p], p)
		if err != nil {
			return err
		}
		r.noteVarying(steps[p])
		for u, d := range found {
			if values[u] == nil {
				values[u] = slices.Repeat([]*graph.Data{r.data(u)}, len(points))
			}
			values[u][i] = d
		}
		for a, n := range inputs {
			if sizes[a] == nil {
				sizes[a] = slices.Repeat([]int64{r.length(a)}, len(points))
			}
			sizes[a][i] = n
		}
	}
	r.axes = map[axis]*polynomial{}
	for a, list := range sizes {
		terms, ok := dimrange.Interpolate(lengths, list)
		if !ok {
			return r.noFormula("input "+graph.Short(r.step.Model.Graph.Tensors[r.step.Model.Graph.Inputs[a.input]].Name), list)
		}
		r.axes[a] = &polynomial{terms}
	}
	for u, list := range values {
		d, err := fitData(lengths, list)
		if err != nil {
			return r.about(u, err)
		}
		r.uses[u] = d
	}
	return nil
}

func (r *ranger) data(u use) *graph.Data {
	return heldBy(r.graphs, u.graph, r.graphs[u.graph].g.Nodes[u.node].Inputs[u.input])
}

func (r *ranger) length(a axis) int64 {
	g := r.step.Model.Graph
	return int64(g.Tensors[g.Inputs[a.input]].Type.Shape[a.axis])
}

// about says which constant an error is about.
func (r *ranger) about(u use, err error) error {
	g := r.graphs[u.graph].g
	return graph.Errorf("training with ranges of dimensions: input %d: %w: expected lengths for which it is the same, or a step for each of %v", u.input, err, r.box.Names).AtNode(g.Label(graph.NodeID(u.node)))
}

func (r *ranger) noFormula(what string, found any) error {
	return graph.Errorf("training with ranges of dimensions: %s: no polynomial of %v gives %v", what, r.box.Names, found)
}

// fitData returns a constant whose elements are polynomials, or 1 divided by such.
func fitData(lengths [][]int64, list []*graph.Data) (*openData, error) {
	last := list[len(list)-1]
	d := &openData{corner: last}
	numbers := make([][]float64, len(list))
	for i, x := range list {
		if x.Type != last.Type || !slices.Equal(x.Dims, last.Dims) {
			return nil, fmt.Errorf("a constant of type %v for some lengths, and %v for others", x.TensorType(), last.TensorType())
		}
		v, ok := numbersOf(x)
		if !ok {
			return nil, fmt.Errorf("a constant %v that depends on the lengths", x.TensorType())
		}
		numbers[i] = v
	}
	if d.reciprocal = last.Type.Floating() && slices.ContainsFunc(numbers, func(v []float64) bool {
		return slices.ContainsFunc(v, func(x float64) bool { return x > 0 && x < 1 })
	}); d.reciprocal && len(numbers[0]) != 1 {
		return nil, fmt.Errorf("a constant %v that depends on the lengths", last.TensorType())
	}
	for k := range numbers[0] {
		values := make([]int64, len(list))
		for i := range list {
			v := numbers[i][k]
			if d.reciprocal {
				v = 1 / v
			}
			if !(v > -1<<52 && v < 1<<52) {
				return nil, fmt.Errorf("a constant that is %g for some lengths", numbers[i][k])
			}
			values[i] = int64(math.RoundToEven(v))
		}
		terms, ok := dimrange.Interpolate(lengths, values)
		if !ok {
			return nil, fmt.Errorf("a constant whose element %d is %v for some lengths, which no polynomial gives", k, values)
		}
		d.elements = append(d.elements, polynomial{terms})
	}
	return d, nil
}

// compare makes the step of every point and proves that the formulas give its constants
// and the lengths of its inputs.
func (r *ranger) compare(ctx context.Context, progress func(done, of int)) error {
	errs, refused := make([]error, r.box.Points), make([]bool, r.box.Points)
	var next, done atomic.Int64
	var failed atomic.Bool
	var report sync.Mutex
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), r.box.Points) {
		m := *r.source
		m.Graph = r.source.Graph.Clone()
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < r.box.Points && ctx.Err() == nil && !failed.Load(); i = int(next.Add(1)) - 1 {
				if refused[i], errs[i] = r.prove(&m, i); errs[i] != nil {
					failed.Store(true)
				}
				if n := int(done.Add(1)); progress != nil && (n%16 == 0 || n == r.box.Points) {
					report.Lock()
					progress(n, r.box.Points)
					report.Unlock()
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, err := range errs {
		if err != nil {
			return err
		}
		if refused[i] {
			r.refused = append(r.refused, i)
		}
	}
	return nil
}

// prove compares the step of a point with what the formulas give there. The model may
// refuse the point.
func (r *ranger) prove(m *graph.Model, point int) (refused bool, err error) {
	s, err := r.at(m, point)
	if err != nil {
		return true, nil
	}
	return false, r.check(s, point)
}

func (r *ranger) check(s *Step, point int) error {
	found, inputs, err := r.differences(s, point)
	if err != nil {
		return err
	}
	dims := r.box.At(point)
	for _, u := range sortedUses(found) {
		if r.uses[u] == nil {
			return r.about(u, fmt.Errorf("a constant that differs between lengths without a rule"))
		}
	}
	for _, u := range sortedUses(r.uses) {
		want := r.data(u)
		if d, differs := found[u]; differs {
			want = d
		}
		if got := r.uses[u].at(r.box, dims); got == nil || !bytes.Equal(got, want.Raw) || want.Type != r.uses[u].corner.Type || !slices.Equal(want.Dims, r.uses[u].corner.Dims) {
			return r.about(u, fmt.Errorf("no polynomial, nor 1 divided by one, gives the constant at %s", graph.AtLengths(dims)))
		}
	}
	for i, id := range r.step.Model.Graph.Inputs {
		for k := range r.step.Model.Graph.Tensors[id].Type.Shape {
			a := axis{i, k}
			want := r.length(a)
			if n, differs := inputs[a]; differs {
				want = n
			}
			if p := r.axes[a]; p != nil && p.at(r.box, dims) != want || p == nil && want != r.length(a) {
				return r.noFormula("input "+graph.Short(r.step.Model.Graph.Tensors[id].Name), want)
			}
		}
	}
	return nil
}

// sortedUses returns the keys of a map in order.
func sortedUses[V any](m map[use]V) []use {
	list := make([]use, 0, len(m))
	for u := range m {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b use) int {
		return cmp.Or(a.graph-b.graph, a.node-b.node, a.input-b.input)
	})
	return list
}

// at returns the value of a polynomial.
func (p *polynomial) at(box *dimrange.Box, dims map[string]int64) (sum int64) {
	for _, t := range p.terms {
		v := t.Factor
		for k, power := range t.Powers {
			for range power {
				v *= dims[box.Names[k]]
			}
		}
		sum += v
	}
	return sum
}

// at returns the elements of a constant at a point, as a file has them.
func (d *openData) at(box *dimrange.Box, dims map[string]int64) []byte {
	v := make([]float64, len(d.elements))
	for i := range d.elements {
		if v[i] = float64(d.elements[i].at(box, dims)); d.reciprocal {
			v[i] = 1 / v[i]
		}
	}
	raw, _ := encode(d.corner.Type, v)
	return raw
}

// open makes the corner's step one for all points: nodes compute the constants that
// differ, and the graph inputs have open dimensions.
func (r *ranger) open() error {
	m := r.step.Model
	g := m.Graph
	e := newEmitter(g, m.Opsets, make([]*ops.Value, len(g.Tensors)))
	r.made, r.sizes = map[string]ID{}, map[string]ID{}
	perNode := map[*graph.Node][]use{}
	readers := map[use]*graph.Node{}
	for _, u := range sortedUses(r.uses) { // by the node of the main graph that they belong to
		n := r.graphs[u.graph].g.Nodes[u.node]
		readers[u] = n
		for k := u.graph; k > 0; k = r.graphs[k].outer {
			n = r.graphs[r.graphs[k].outer].g.Nodes[r.graphs[k].node]
		}
		perNode[n] = append(perNode[n], u)
	}
	nodes := g.Nodes
	g.Nodes = nil
	for _, n := range nodes {
		e.phase, _ = n.Prop(keyPhase)
		e.of, e.scope = "", "dims/"
		for _, u := range perNode[n] {
			reader, d := readers[u], r.uses[u]
			id, ok := r.shapeOf(e, reader, u.input, d)
			if !ok {
				id = r.emit(e, d)
			}
			if e.err != nil {
				return e.err
			}
			reader.Inputs[u.input] = capture(r.graphs, u.graph, id)
		}
		g.Nodes = append(g.Nodes, n)
	}
	if err := r.declare(); err != nil {
		return err
	}
	unread := func(g *graph.Graph) {
		g.Link()
		g.DropTensors(func(t ID) bool {
			x := g.Tensors[t]
			return x.Data != nil && len(x.Readers) == 0 && !x.Input && !x.Output
		})
		g.Link()
	}
	for k := len(r.graphs) - 1; k >= 0; k-- {
		for _, n := range r.graphs[k].g.Nodes {
			n.SetCaptures()
		}
		r.dropCaptures(k)
		unread(r.graphs[k].g)
	}
	for _, p := range r.refused {
		c := *m
		c.Graph = g.Clone()
		if _, err := ops.Infer(&c, ops.Options{Dims: r.box.At(p)}); err == nil {
			return r.refusal(p)
		}
	}
	_, err := ops.Infer(m, ops.Options{Dims: r.box.At(r.box.Corner())})
	if err != nil && len(r.refused) > 0 { // of the points that are left, a dimension has one length: the step has it fixed
		return r.refusal(r.refused[0])
	}
	return err
}

// refusal is why no step can be made for a point.
func (r *ranger) refusal(p int) error {
	_, err := r.at(r.source, p)
	return graph.Errorf("training with ranges of dimensions: no step can be made for %s: %w", graph.AtLengths(r.box.At(p)), err)
}

// shapeOf returns a constant for the new shape of a Reshape if one length of it is open:
// that length follows from the others.
func (r *ranger) shapeOf(e *emitter, n *graph.Node, input int, d *openData) (ID, bool) {
	if n.Op != "Reshape" || n.Domain != "" || input != 1 || d.corner.Type != graph.Int64 {
		return graph.None, false
	}
	shape, _ := numbersOf(d.corner)
	list, open := make([]int64, len(shape)), 0
	for i, p := range d.elements {
		switch list[i] = int64(shape[i]); {
		case !p.constant():
			list[i] = -1
			open++
		case list[i] <= 0:
			return graph.None, false
		}
	}
	if open != 1 {
		return graph.None, false
	}
	return e.list(list...), true
}

// constant reports whether a polynomial has the same value everywhere.
func (p *polynomial) constant() bool {
	return !slices.ContainsFunc(p.terms, func(t dimrange.Term) bool { return slices.Max(t.Powers) > 0 })
}

// emit emits the nodes that compute a constant.
func (r *ranger) emit(e *emitter, d *openData) ID {
	key := fmt.Sprint(d.corner.Type, d.corner.Dims, d.elements, d.reciprocal)
	if id, known := r.made[key]; known {
		return id
	}
	var parts []ID
	var fixed []int64
	flush := func() {
		if len(fixed) > 0 {
			parts = append(parts, e.list(fixed...))
			fixed = nil
		}
	}
	for i := range d.elements {
		if p := &d.elements[i]; p.constant() {
			fixed = append(fixed, p.at(r.box, nil))
		} else {
			flush()
			parts = append(parts, r.value(e, p))
		}
	}
	flush()
	t := e.joined(parts, 0)
	if d.reciprocal {
		one := e.reals(graph.Float64, nil, []float64{1})
		t = e.div(one, e.castTo(t, graph.Float64))
	}
	t = e.castTo(t, d.corner.Type)
	switch {
	case len(d.corner.Dims) == 0:
		t = e.op("Squeeze", t)
	case len(d.corner.Dims) > 1:
		t = e.reshape(t, d.corner.Dims)
	}
	r.made[key] = t
	return t
}

// value emits the nodes that compute a polynomial: a list of one int64.
func (r *ranger) value(e *emitter, p *polynomial) ID {
	key := fmt.Sprint(p.terms)
	if id, known := r.made[key]; known {
		return id
	}
	sum := ID(graph.None)
	for _, t := range p.terms {
		product := ID(graph.None)
		times := func(x ID) {
			if product == graph.None {
				product = x
			} else {
				product = e.mul(product, x)
			}
		}
		for k, power := range t.Powers {
			for range power {
				times(r.size(e, r.box.Names[k]))
			}
		}
		if t.Factor != 1 || product == graph.None {
			times(e.list(t.Factor))
		}
		if sum == graph.None {
			sum = product
		} else {
			sum = e.add(sum, product)
		}
	}
	r.made[key] = sum
	return sum
}

// size emits the length of a dimension, from the shape of an input that has it.
func (r *ranger) size(e *emitter, name string) ID {
	if id, known := r.sizes[name]; known {
		return id
	}
	g := e.g
	for i, id := range g.Inputs {
		for k := range g.Tensors[id].Type.Shape {
			if p := r.axes[axis{i, k}]; p != nil && p.text(r.box) == name {
				r.sizes[name] = e.with("Shape", attrs{"start": k, "end": k + 1}, id)
				return r.sizes[name]
			}
		}
	}
	e.fail(graph.Errorf("training with ranges of dimensions: no input of the step has a dimension of length %q: expected one", graph.Short(name)))
	return graph.None
}

// text writes a polynomial as the name of a dimension.
func (p *polynomial) text(box *dimrange.Box) string {
	text := ""
	for _, t := range p.terms {
		term := ""
		for k, power := range t.Powers {
			for range power {
				if term != "" {
					term += "*"
				}
				term += box.Names[k]
			}
		}
		factor := t.Factor
		switch {
		case text == "":
			if factor < 0 {
				text = "0 - "
			}
		case factor < 0:
			text += " - "
		default:
			text += " + "
		}
		factor = max(factor, -factor)
		switch {
		case term == "":
			text += fmt.Sprint(factor)
		case factor == 1:
			text += term
		default:
			text += fmt.Sprintf("%d*%s", factor, term)
		}
	}
	return text
}

// declare opens the dimensions of the graph inputs. Those of the model keep their names.
func (r *ranger) declare() error {
	g := r.step.Model.Graph
	named := map[string]*graph.Declared{}
	for _, id := range r.source.Graph.Inputs {
		named[r.source.Graph.Tensors[id].Name] = r.source.Graph.Tensors[id].Declared
	}
	for i, id := range g.Inputs {
		t := g.Tensors[id]
		d := &graph.Declared{Type: t.Type, Symbols: make([]string, len(t.Type.Shape))}
		d.Type.Shape = slices.Clone(t.Type.Shape)
		for k := range d.Type.Shape {
			p := r.axes[axis{i, k}]
			if p == nil {
				continue
			}
			d.Type.Shape[k], d.Symbols[k] = graph.Unknown, p.text(r.box)
			if own := named[t.Name]; own != nil && own.Symbols[k] != "" && own.Symbols[k] != "?" {
				d.Symbols[k] = own.Symbols[k]
			}
		}
		t.Declared = d
	}
	for _, id := range g.Outputs {
		if t := g.Tensors[id]; t.Declared != nil && t.Type.Exact() && !t.Input {
			t.Declared.Type.Shape = slices.Clone(t.Type.Shape)
		}
	}
	for t, axes := range r.varying {
		d := &graph.Declared{Type: t.Declared.Type, Symbols: slices.Clone(t.Declared.Symbols)}
		d.Type.Shape = slices.Clone(t.Declared.Type.Shape)
		for _, a := range axes {
			d.Type.Shape[a] = graph.Unknown
		}
		t.Declared = d
	}
	return nil
}
