package limits

import (
	"container/heap"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/passes/internal/costs"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// TestBoundsOfSlicesByBruteForce: on small graphs, whatever the regions, the numbers of their
// slices and the regions inside of them, no order has a peak below a bound. All regions of
// all windows, and pairs of them, run in all numbers of slices, and in these all regions of
// all windows once more (a few, without make sweeps). The project's own rewrite makes each
// graph, and all orders of it are tried.
func TestBoundsOfSlicesByBruteForce(t *testing.T) {
	anySlicesMet := 0
	for _, kind := range []struct {
		name  string
		sums  bool
		model func(uint64) *graph.Model
	}{
		{"images", false, smallImages},
		{"matrices", false, smallMatrices},
		{"sums", true, smallMatrices},
	} {
		t.Run(kind.name, func(t *testing.T) {
			seeds, all := uint64(6), &boundCheck{sums: kind.sums, nodes: 20, every: 3, pairs: 2, some: 2}
			if sweep.On() {
				seeds, all = 16, &boundCheck{sums: kind.sums, nodes: 26, every: 1, pairs: 8, some: 3}
			}
			for seed := range seeds {
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { all.model(t, kind.model(seed)) })
			}
			t.Logf("%+v", all.counts)
			if c := all.counts; c.graphs < 20*int(seeds) || c.nested < c.graphs/4 || c.anyMet < c.regions/4 || c.met < c.graphs/2 || c.pairs < int(seeds) {
				t.Error("too few cases are tested")
			}
			anySlicesMet += all.counts.anySlicesMet
		})
	}
	if anySlicesMet == 0 {
		t.Error("no slices meet the bound for any: expected some")
	}
}

// TestBoundsOfAttentionInPieces: the same for slices of the keys of attention. They have so
// many nodes, Exp among them, that no regions inside of them are tried.
func TestBoundsOfAttentionInPieces(t *testing.T) {
	seeds, all := uint64(3), &boundCheck{sums: true, nodes: 50, every: 1, only: "Exp"}
	if sweep.On() {
		seeds = 12
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { all.model(t, smallAttention(seed)) })
	}
	t.Logf("%+v", all.counts)
	if c := all.counts; c.graphs < 8*int(seeds) || c.met < c.graphs/2 {
		t.Error("too few cases are tested")
	}
}

// TestBoundOfRowsInside: slices of output channels read an image whole, so does the bound for
// any number of slices if no region lies inside. But slices of rows inside of them take, of a
// convolution with strides, the rows alone that they need, and the rest of the image is dead
// before the weights are computed.
func TestBoundOfRowsInside(t *testing.T) {
	const rows, stride, in, out = 24, 8, 64, 24
	b := graph.NewBuilder("strides", 17)
	conv := func(name string, x, w graph.TensorID, strides ...int64) graph.TensorID {
		return b.Add(&graph.Node{Name: "n" + name, Op: "Conv", Inputs: []graph.TensorID{x, w}, Attrs: []*graph.Attr{{Name: "strides", Type: graph.AttrInts, Ints: strides}}}, name)[0]
	}
	wide := b.Floats("wide", []int64{in, 1, 1, 1}, make([]float32, in))
	image := conv("image", b.Input("x", graph.TensorOf(graph.Float32, 1, 1, rows, 1)), wide, 1, 1)
	weights := conv("weights", b.Input("w", graph.TensorOf(graph.Float32, out, 1, 1, 1)), wide, 1, 1)
	b.Output(conv("y", image, weights, stride, 1), weights)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	x := slicerOf(t, m, false)
	find := func(x *slicer, name string, axis int) (list []*slicing.Choice) {
		g := x.base.Main.G
		for v, n := range g.Nodes {
			if strings.HasPrefix(g.Tensors[n.Outputs[0]].Name, name) && len(n.Inputs) > 1 {
				if r := x.search.Find(v, v, v, axis); r != nil {
					list = append(list, r.In(3))
				}
			}
		}
		return list
	}
	outer := &slicedModel{choices: find(x, "y", 1), from: x}
	inside, err := x.newWithin(t.Context(), outer, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	nested := &slicedModel{choices: find(inside, "y/s", 2), from: inside}
	if len(outer.choices) != 1 || len(nested.choices) != 3 {
		t.Fatalf("%d regions, %d inside: expected 1 and 3", len(outer.choices), len(nested.choices))
	}
	bound := func(m *slicedModel) int64 {
		b, err := m.anyCount(t.Context(), plan.SliceBound{})
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes
	}
	state, err := inside.ordered(t.Context(), nested)
	if err != nil {
		t.Fatal(err)
	}
	peak := state.Main.Loads.Peak
	if whole, now := bound(outer), bound(nested); whole <= peak || now > peak {
		t.Errorf("a peak of %d bytes: expected a bound of more without the regions inside, and of no more with them: %d and %d", peak, whole, now)
	}
}

// TestBoundWithUnreadInput: an input that nothing reads lives at the first step, and this may
// be a node that only slices have: one that makes room for their output.
func TestBoundWithUnreadInput(t *testing.T) {
	b := graph.NewBuilder("unread", 17)
	b.Input("unread", graph.TensorOf(graph.Float32, 64))
	conv := func(name string, x graph.TensorID, in, out int64) graph.TensorID {
		w := b.Floats(name+".weight", []int64{out, in, 1, 1}, make([]float32, in*out))
		return b.Add(&graph.Node{Name: "n" + name, Op: "Conv", Inputs: []graph.TensorID{x, w}}, name)[0]
	}
	wide := b.Node("Relu", "wide.relu", conv("wide", b.Input("x", graph.TensorOf(graph.Float32, 1, 2, 8, 8)), 2, 8))
	narrow := conv("narrow", wide, 8, 4)
	b.Output(b.Node("GlobalAveragePool", "y", narrow))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	x := slicerOf(t, m, false)
	sliced := &slicedModel{from: x}
	for v, n := range x.base.Main.G.Nodes {
		if n.Op == "GlobalAveragePool" {
			sliced.choices = append(sliced.choices, x.search.Find(v-1, v, v, 1).In(4))
		}
	}
	state, err := x.ordered(t.Context(), sliced)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := sliced.anyCount(t.Context(), plan.SliceBound{})
	if err != nil {
		t.Fatal(err)
	}
	if peak := state.Main.Loads.Peak; bound.Bytes > peak || bound.Bytes < peak*9/10 {
		t.Errorf("a peak of %d bytes: expected a bound that is nearly so high, found %d", peak, bound.Bytes)
	}
}

// boundCheck compares bounds with the peaks of all orders.
type boundCheck struct {
	sums   bool
	nodes  int    // of the largest graph that is tried
	every  int    // of so many regions one is tried
	pairs  int    // of a model's regions that are tried together
	some   int    // regions that are tried inside of a region
	only   string // an operator: graphs without it are not tried; "": all are
	counts struct {
		graphs, nested, large int // that were tried, those of them with regions inside of slices, and those with too many orders
		pairs                 int // graphs with two regions, neither inside of the other
		regions, anyMet       int // with the number of slices at which the bound for any number is met
		met                   int // graphs whose own bound is met
		anySlicesMet          int // models in which slices meet the bound for any slices
	}
}

// model checks the bounds of a model.
func (c *boundCheck) model(t *testing.T, m *graph.Model) {
	x := slicerOf(t, m, c.sums)
	any := x.anySlices()
	whole, known := leastPeak(x.base.Main.Problem())
	if !known {
		return
	}
	if bound := x.base.Main.Solved.Bound; bound > whole || any.Bytes > whole {
		t.Errorf("%d bytes in the best order: the bounds are %d, and %d for any slices", whole, bound, any.Bytes)
	}
	lowest := whole
	list := regionsOf(x.search.Program, windowsOf(x))
	for i, r := range list {
		if i%c.every == 0 {
			lowest = min(lowest, c.regions(t, x, []*slicing.Region{r}, any, whole))
		}
	}
	var pairs [][]*slicing.Region
	for _, a := range list {
		for _, b := range list {
			if a.End < b.Start {
				pairs = append(pairs, []*slicing.Region{a, b})
			}
		}
	}
	for i := range min(len(pairs), c.pairs) { // from all over the list
		lowest = min(lowest, c.regions(t, x, pairs[i*len(pairs)/min(len(pairs), c.pairs)], any, whole))
	}
	if lowest == any.Bytes {
		c.counts.anySlicesMet++
	}
}

// slicerOf prepares the search for regions of a model; with sums, they may divide sums.
func slicerOf(t *testing.T, m *graph.Model, sums bool) *slicer {
	t.Helper()
	bind := planner.Binding{}
	found, err := bind.Infer(m)
	if err != nil {
		t.Fatal(err)
	}
	s := &Task{
		Trial: planner.Trial{Bind: bind, Model: m, Inference: found}, Rules: &planner.Rules{Align: 64}, How: planner.Search{Log: &planner.SearchLog{}},
		Costs:   costs.Model{Device: costs.Device{FLOPS: 15e12, Bandwidth: 700e9, Kind: costs.GPU}},
		Permits: Permits{Slices: true, Sums: sums},
	}
	x, err := s.newSlicer(t.Context(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// regions checks regions in all numbers of slices, and with all regions inside of them, and
// returns the least peak.
func (c *boundCheck) regions(t *testing.T, x *slicer, list []*slicing.Region, any plan.SliceBound, whole int64) int64 {
	type claim struct {
		bound int64 // for any number of slices
		least int64 // the least peak of them
	}
	claims := map[string]*claim{} // by the region inside, over all slices and numbers of slices
	// try checks a model, and reports whether it is small enough.
	try := func(key string, m *slicedModel) bool {
		made, err := m.from.rewrite(m)
		if err != nil || len(made.Graph.Nodes) > c.nodes {
			c.counts.large++
			return false
		}
		if c.only != "" && !slices.ContainsFunc(made.Graph.Nodes, func(n *graph.Node) bool { return n.Op == c.only }) {
			return false
		}
		state, err := m.from.ordered(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		p := state.Main.Problem()
		peak, known := leastPeak(p)
		if !known {
			c.counts.large++
			return false
		}
		c.counts.graphs++
		bound, err := m.anyCount(t.Context(), any)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			if c.counts.nested++; c.counts.nested%8 == 0 {
				followed(t, m, state.Main.G)
			}
		}
		if of := claims[key]; of == nil {
			claims[key] = &claim{bound.Bytes, min(peak, whole)}
		} else {
			of.bound, of.least = max(of.bound, bound.Bytes), min(of.least, peak)
		}
		if found := state.Main.Solved; found.Bound == peak {
			c.counts.met++
		} else if found.Bound > peak || found.Evaluation.Peak < peak {
			t.Errorf("%s: the best order takes %d bytes: expected a bound of at most that, found %d and an order of %d", described(m), peak, found.Bound, found.Evaluation.Peak)
		}
		if any.Bytes > peak {
			t.Errorf("%s: the best order takes %d bytes: expected a bound for any slices of at most that, found %d by %s", described(m), peak, any.Bytes, any.Why)
		}
		if bound.Bytes > peak {
			t.Errorf("%s: the best order takes %d bytes: expected a bound for any number of slices of at most that, found %d by %v with %v", described(m), peak, bound.Bytes, bound.Nodes, bound.Tensors)
		}
		return true
	}
	for _, choices := range c.countsOf(list) {
		outer := &slicedModel{choices: choices, from: x}
		if !try("", outer) {
			continue // with regions inside, it is larger
		}
		if len(choices) > 1 {
			c.counts.pairs++
		}
		if c.some == 0 {
			continue
		}
		in, err := x.newWithin(t.Context(), outer, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		// The regions inside of all slices that have the same nodes of the model.
		alike := map[string][]*slicing.Region{}
		var keys []string
		for _, r := range regionsOf(in.search.Program, windowsOf(in)) {
			key := fmt.Sprint(r.Axis)
			for _, v := range r.Nodes {
				tag, _ := slicing.TagOf(in.base.Main.G.Nodes[v])
				key += " " + strings.TrimSpace(tag.Tensor)
			}
			if alike[key] == nil {
				keys = append(keys, key)
			}
			alike[key] = append(alike[key], r)
		}
		for _, key := range keys[:min(len(keys), c.some)] {
			for inner := 2; ; inner++ {
				var choices, uneven []*slicing.Choice
				for _, r := range alike[key] {
					choice := r.In(inner)
					if choice == nil || slices.ContainsFunc(choices, func(x *slicing.Choice) bool { return x.Start <= r.End && r.Start <= x.End }) {
						continue
					}
					choices = append(choices, choice)
					if more := r.In(inner + 1); more != nil && len(choices)%2 == 0 {
						choice = more
					}
					uneven = append(uneven, choice)
				}
				if len(choices) == 0 {
					break
				}
				small := try(key, &slicedModel{choices: choices, from: in})
				if len(choices) > 1 {
					small = try(key, &slicedModel{choices: choices[:1], from: in}) || small
				}
				if small && !slices.Equal(choices, uneven) {
					try(key, &slicedModel{choices: uneven, from: in})
				}
				if !small {
					break
				}
			}
		}
	}
	lowest := whole
	for key, of := range claims {
		c.counts.regions++
		lowest = min(lowest, of.least)
		switch {
		case of.bound > of.least:
			t.Errorf("%v, inside %q: some number of slices takes %d bytes: expected a bound for any number of at most that, found %d", nodesOf(list), key, of.least, of.bound)
		case of.bound == of.least:
			c.counts.anyMet++
		}
	}
	return lowest
}

// countsOf returns choices of regions in all numbers of slices of which the graphs are not
// too large.
func (c *boundCheck) countsOf(list []*slicing.Region) (all [][]*slicing.Choice) {
	all = [][]*slicing.Choice{nil}
	for _, r := range list {
		var longer [][]*slicing.Choice
		for k := 2; k*len(r.Nodes) <= c.nodes; k++ {
			choice := r.In(k)
			if choice == nil {
				break
			}
			for _, choices := range all {
				longer = append(longer, append(slices.Clip(choices), choice))
			}
		}
		all = longer
	}
	return all
}

// nodesOf returns the nodes of regions.
func nodesOf(list []*slicing.Region) (nodes [][]int) {
	for _, r := range list {
		nodes = append(nodes, r.Nodes)
	}
	return nodes
}

// followed checks that the slices of a model run in the order of one with regions inside of
// them: each node where its last copy runs. An order in which a node runs before what it reads
// is an error.
func followed(t *testing.T, m *slicedModel, like *graph.Graph) {
	outer := m.outermost()
	x, err := outer.from.newWithin(t.Context(), outer, like, m.from)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]int{} // by what is made, or of what a copy makes rows
	for i, n := range like.Nodes {
		name := like.Tensors[n.Outputs[0]].Name
		if tag, sliced := slicing.TagOf(n); sliced && tag.Region >= len(outer.choices) {
			if !tag.Copy() {
				continue
			}
			name = tag.Tensor
		}
		last[name] = i
	}
	before := -1
	for _, n := range x.base.Main.G.Nodes {
		name := x.base.Main.G.Tensors[n.Outputs[0]].Name
		i, known := last[name]
		if !known || i < before {
			t.Errorf("%s: %s does not run where its last copy does", described(m), name)
		}
		before = max(before, i)
	}
}

// described names the regions of a model.
func described(m *slicedModel) string {
	var list []string
	for _, c := range m.regions() {
		d := c.Describe()
		list = append(list, fmt.Sprintf("%v along axis %d in %d slices", d.Nodes, c.Axis, c.Slices))
	}
	return strings.Join(list, "; ")
}

// windowsOf returns all windows of the base.
func windowsOf(x *slicer) (list [][2]int) {
	n := len(x.base.Main.G.Nodes)
	for from := range n {
		for to := from; to < n; to++ {
			list = append(list, [2]int{from, to})
		}
	}
	return list
}

// regionsOf returns the regions of windows that differ in their nodes or their axes. Where
// slices may sum, what they sum need not be what the last node makes.
func regionsOf(p *slicing.Program, windows [][2]int) (list []*slicing.Region) {
	seen := map[string]bool{}
	g := p.Model.Graph
	for _, w := range windows {
		seed := w[1]
		if p.Sums {
			seed = w[0]
		}
		for ; seed <= w[1]; seed++ {
			for axis := range g.Tensors[g.Nodes[seed].Outputs[0]].Type.Shape {
				r := p.Find(w[0], w[1], seed, axis)
				if r == nil {
					continue
				}
				if key := fmt.Sprint(r.Nodes, r.Seed, axis); !seen[key] {
					seen[key] = true
					list = append(list, r)
				}
			}
		}
	}
	return list
}

// smallImages makes a model of three or four nodes on images of few rows: convolutions,
// pools and elementwise operators, one after the other or beside each other.
func smallImages(seed uint64) *graph.Model {
	r := rand.New(rand.NewPCG(seed, 3))
	b := graph.NewBuilder("images", 17)
	batch, height := 1+r.Int64N(2), 2+r.Int64N(3)
	type image struct {
		id            graph.TensorID
		channels, row int64
	}
	list := []image{{b.Input("x", graph.TensorOf(graph.Float32, graph.Dim(batch), 1, graph.Dim(height), 16)), 1, height}}
	for i := range 3 + r.IntN(2) {
		in := list[len(list)-1]
		if r.IntN(4) == 0 {
			in = list[r.IntN(len(list))]
		}
		name, out := fmt.Sprint("t", i), in
		ints := func(name string, v ...int64) *graph.Attr {
			return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
		}
		switch kind := r.IntN(6); {
		case kind < 2: // rows of neighbours, or of every other row alone
			out.channels = 1 + r.Int64N(3)
			kernel, stride, pad := int64(3), int64(1), int64(1)
			if r.IntN(3) == 0 {
				kernel, stride, pad = 1, 1+r.Int64N(2), 0
			}
			out.row = (in.row-1)/stride + 1
			w := b.Floats(name+".weight", []int64{out.channels, in.channels, kernel, 1}, make([]float32, out.channels*in.channels*kernel))
			out.id = b.Add(&graph.Node{Name: "n" + name, Op: "Conv", Inputs: []graph.TensorID{in.id, w}, Attrs: []*graph.Attr{ints("strides", stride, 1), ints("pads", pad, 0, pad, 0)}}, name)[0]
		case kind == 2 && in.row > 1:
			out.row = in.row - 1
			out.id = b.Add(&graph.Node{Name: "n" + name, Op: "MaxPool", Inputs: []graph.TensorID{in.id}, Attrs: []*graph.Attr{ints("kernel_shape", 2, 1)}}, name)[0]
		case kind == 3:
			with := slices.IndexFunc(list, func(x image) bool { return x.channels == in.channels && x.row == in.row })
			out.id = b.Node("Add", name, in.id, list[with].id)
		default:
			out.id = b.Node("Relu", name, in.id)
		}
		list = append(list, out)
	}
	return built(b)
}

// smallMatrices makes a model of a few nodes on matrices of few rows: products with weights
// and with each other, attention, gradients of weights, sums, views, and what lies side by
// side.
func smallMatrices(seed uint64) *graph.Model {
	r := rand.New(rand.NewPCG(seed, 4))
	b := graph.NewBuilder("matrices", 17)
	type matrix struct {
		id            graph.TensorID
		rows, columns int64
	}
	rows := 2 + r.Int64N(2)
	list := []matrix{{b.Input("x", graph.TensorOf(graph.Float32, graph.Dim(rows), 32)), rows, 32}}
	for range 2 + r.IntN(2) {
		in := list[len(list)-1]
		if r.IntN(3) == 0 {
			in = list[r.IntN(len(list))]
		}
		name, out := fmt.Sprint("t", len(list)), in
		like := func(same func(x matrix) bool) matrix {
			for i := r.IntN(len(list)); ; i = (i + 1) % len(list) { // in is one
				if same(list[i]) {
					return list[i]
				}
			}
		}
		switch r.IntN(9) {
		case 0, 1: // with weights
			out.columns = 16 << r.IntN(3)
			out.id = b.Node("MatMul", name, in.id, b.Floats(name+".weight", []int64{in.columns, out.columns}, make([]float32, in.columns*out.columns)))
		case 2: // attention
			keys := like(func(x matrix) bool { return x.columns == in.columns })
			values := like(func(x matrix) bool { return x.rows == keys.rows })
			scores := b.Node("MatMul", name+".scores", in.id, b.Node("Transpose", name+".keys", keys.id))
			out.columns = values.columns
			out.id = b.Node("MatMul", name, b.Node("Softmax", name+".softmax", scores), values.id)
		case 3: // a sum over rows
			other := like(func(x matrix) bool { return x.rows == in.rows })
			out.rows, out.columns = in.columns, other.columns
			out.id = b.Node("MatMul", name, b.Node("Transpose", name+".transposed", in.id), other.id)
		case 4:
			out.rows = 1
			out.id = b.Node("ReduceSum", name, in.id, b.Ints(name+".axes", []int64{1}, []int64{0}))
		case 5:
			if in.columns > 16 {
				out.rows, out.columns = 2*in.rows, in.columns/2
				out.id = b.Node("Reshape", name, in.id, b.Ints(name+".shape", []int64{2}, []int64{out.rows, out.columns}))
				break
			}
			fallthrough
		case 6:
			other := like(func(x matrix) bool { return x.columns == in.columns && x.rows == in.rows })
			out.id = b.Node("Add", name, in.id, other.id)
		case 7:
			other := like(func(x matrix) bool { return x.rows == in.rows })
			out.columns += other.columns
			out.id = b.Add(&graph.Node{Op: "Concat", Inputs: []graph.TensorID{in.id, other.id}, Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 1}}}, name)[0]
		default:
			out.id = b.Node("Relu", name, in.id)
		}
		list = append(list, out)
	}
	return built(b)
}

// smallAttention makes a model of one query, or two, and few rows of keys and values. Slices
// of keys, of which there are several nodes each, keep sums and the largest score so far.
func smallAttention(seed uint64) *graph.Model {
	r := rand.New(rand.NewPCG(seed, 5))
	b := graph.NewBuilder("attention", 17)
	keys := 32 << r.IntN(2)
	input := func(name string, rows int) graph.TensorID {
		return b.Input(name, graph.TensorOf(graph.Float32, graph.Dim(rows), 16))
	}
	k := input("k", keys)
	if r.IntN(2) == 0 {
		k = b.Node("Relu", "keys", k)
	}
	v := k
	if r.IntN(2) == 0 {
		v = input("v", keys)
	}
	scores := b.Node("MatMul", "scores", input("q", 1+r.IntN(2)), b.Node("Transpose", "transposed", k))
	y := b.Node("MatMul", "y", b.Node("Softmax", "softmax", scores), v)
	if r.IntN(2) == 0 {
		b.Node("Relu", "last", y)
	}
	return built(b)
}

// built returns the model of which whatever nothing reads is an output.
func built(b *graph.Builder) *graph.Model {
	m, err := b.Model()
	if err != nil {
		panic(err)
	}
	for id, t := range m.Graph.Tensors {
		if len(t.Readers) == 0 {
			b.Output(graph.TensorID(id))
		}
	}
	if m, err = b.Model(); err != nil {
		panic(err)
	}
	return m
}

// mostStates is the largest number of sets of nodes that have run, of the orders of a graph.
const mostStates = 4000

// leastPeak returns the least peak of all orders of a problem of up to 64 nodes, by the
// definition of the load; false if that takes too many states.
func leastPeak(p *schedule.Problem) (int64, bool) {
	n := len(p.Nodes)
	if n > 64 {
		return 0, false
	}
	before, readers := make([]uint64, n), make([]uint64, len(p.Tensors))
	for t := range p.Tensors {
		x := &p.Tensors[t]
		for _, v := range x.Consumers {
			readers[t] |= 1 << v
			if x.Producer >= 0 && v != x.Producer {
				before[v] |= 1 << x.Producer
			}
		}
	}
	// saved is the largest sum of the outputs of v, from tensor o on, that overwrite operands
	// which nobody else reads any more.
	var saved func(ran uint64, v int32, o int, used []int32) int64
	saved = func(ran uint64, v int32, o int, used []int32) int64 {
		for ; o < len(p.Tensors) && (p.Tensors[o].Producer != v || p.Tensors[o].Resident || len(p.Tensors[o].Reuses) == 0); o++ {
		}
		if o == len(p.Tensors) {
			return 0
		}
		best := saved(ran, v, o+1, used)
		for _, over := range p.Tensors[o].Reuses {
			if x := &p.Tensors[over]; readers[over]&^ran == 1<<v && !x.Resident && !x.Output && x.Bytes == p.Tensors[o].Bytes && !slices.Contains(used, over) {
				best = max(best, x.Bytes+saved(ran, v, o+1, append(slices.Clip(used), over)))
			}
		}
		return best
	}
	load := func(ran uint64, v int32) int64 {
		bytes := p.Nodes[v].Workspace
		for t := range p.Tensors {
			x := &p.Tensors[t]
			made := x.Producer < 0 || ran>>x.Producer&1 > 0
			if !x.Resident && (x.Producer == v || made && (x.Output || readers[t]&^ran != 0 || x.Producer < 0 && readers[t] == 0 && ran == 0)) {
				bytes += x.Bytes
			}
		}
		return bytes - saved(ran, v, 0, nil)
	}
	end := uint64(1)<<n - 1
	done, next := map[uint64]bool{}, &peakHeap{{}}
	for next.Len() > 0 {
		s := heap.Pop(next).(peakState)
		if s.ran == end {
			return s.peak, true
		}
		if done[s.ran] {
			continue
		}
		if done[s.ran] = true; len(done) > mostStates {
			return 0, false
		}
		for left := end &^ s.ran; left != 0; left &= left - 1 {
			if v := int32(bits.TrailingZeros64(left)); before[v]&^s.ran == 0 && !done[s.ran|1<<v] {
				heap.Push(next, peakState{max(s.peak, load(s.ran, v)), s.ran | 1<<v})
			}
		}
	}
	return 0, false // a cycle
}

// peakState is the set of nodes that have run, with the least peak so far.
type peakState struct {
	peak int64
	ran  uint64
}

// peakHeap has the smallest peak first, and of these the most nodes.
type peakHeap []peakState

func (h peakHeap) Len() int { return len(h) }

func (h peakHeap) Less(i, j int) bool {
	if h[i].peak != h[j].peak {
		return h[i].peak < h[j].peak
	}
	return bits.OnesCount64(h[i].ran) > bits.OnesCount64(h[j].ran)
}

func (h peakHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *peakHeap) Push(x any) { *h = append(*h, x.(peakState)) }

func (h *peakHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
