package passes_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// permission is a mean more, or a constraint less: give permits it, and reports whether the
// options did not.
type permission struct {
	name string
	give func(*passes.Options) bool
}

// lifted gives a permission by taking back an option that is a constraint.
func lifted(constraint func(*passes.Options) *bool) func(*passes.Options) bool {
	return func(o *passes.Options) bool {
		is := *constraint(o)
		*constraint(o) = false
		return is
	}
}

var permissions = []permission{
	{"a host", func(o *passes.Options) bool {
		has := o.Host != nil || o.NoRecompute || o.Limit == nil && o.ExtraPercent == 0
		if !has {
			o.Host = &passes.Host{Link: 1e8}
		}
		return !has
	}},
	{"recomputation beside a host", func(o *passes.Options) bool {
		swaps := o.Host != nil && o.Host.NoRecompute
		if swaps {
			o.Host = &passes.Host{Link: o.Host.Link}
		}
		return swaps
	}},
	{"recomputation beside slices", lifted(func(o *passes.Options) *bool { return &o.NoRecompute })},
	{"slices", func(o *passes.Options) bool {
		off := o.Slices == passes.SlicesOff && (o.Limit != nil || o.ExtraPercent > 0 || len(o.Pools) > 0)
		if off {
			o.Slices = passes.SlicesExact
		}
		return off
	}},
	{"sums in slices", func(o *passes.Options) bool {
		exact := o.Slices == passes.SlicesExact
		if exact {
			o.Slices = passes.SlicesAny
		}
		return exact
	}},
	{"aliases", func(o *passes.Options) bool {
		off := o.Aliases == passes.AliasesOff
		o.Aliases = passes.AliasesAuto
		return off && len(o.Pools) == 0
	}},
	{"aliases in changed graphs", func(o *passes.Options) bool {
		auto := o.Aliases == passes.AliasesAuto && len(o.Pools) == 0 && !o.NoViews && (o.Limit != nil || o.ExtraPercent > 0)
		if auto {
			o.Aliases = passes.AliasesOn
		}
		return auto
	}},
	{"views", lifted(func(o *passes.Options) *bool { return &o.NoViews })},
	{"results in place", lifted(func(o *passes.Options) *bool { return &o.NoInplace })},
	{"any order of updates", lifted(func(o *passes.Options) *bool { return &o.UpdatesLast })},
	{"any order of random nodes", lifted(func(o *passes.Options) *bool { return &o.KeepRandomOrder })},
	{"any order", func(o *passes.Options) bool {
		fixed := o.Schedule != ""
		o.Schedule = ""
		return fixed
	}},
	{"sharing as onnxmem does", func(o *passes.Options) bool {
		other := o.Runtime != ""
		o.Runtime = ""
		return other
	}},
	{"more effort", func(o *passes.Options) bool {
		fast := o.Effort == schedule.EffortFast
		o.Effort = schedule.EffortDefault
		return fast
	}},
	{"a larger arena", func(o *passes.Options) bool {
		arena := o.Limit != nil && o.Limit.Arena
		if arena {
			o.Limit = &passes.Limit{Bytes: o.Limit.Bytes}
		}
		return arena
	}},
	{"a larger limit", func(o *passes.Options) bool {
		if o.Limit == nil {
			return false
		}
		o.Limit = &passes.Limit{Bytes: o.Limit.Bytes + o.Limit.Bytes/16, Arena: o.Limit.Arena}
		return true
	}},
	{"a faster link", func(o *passes.Options) bool {
		if o.Host == nil {
			return false
		}
		o.Host = &passes.Host{Link: 2 * o.Host.Link, NoRecompute: o.Host.NoRecompute}
		return true
	}},
	{"one length", func(o *passes.Options) bool {
		dims := map[string]int64{}
		maps.Copy(dims, o.Dims)
		for name, lengths := range o.Ranges {
			dims[name] = corner(lengths)
		}
		several := len(o.Ranges) > 0
		o.Dims, o.Ranges = dims, nil
		return several
	}},
	{"kernels without scratch", func(o *passes.Options) bool {
		recorded := o.Workspaces != nil
		o.Workspaces = nil
		return recorded
	}},
	{"more time", func(o *passes.Options) bool {
		if o.ExtraPercent == 0 {
			return false
		}
		o.ExtraPercent *= 1.25
		return true
	}},
	{"a larger pool", func(o *passes.Options) bool {
		if len(o.Pools) == 0 {
			return false
		}
		pools := append([]passes.Pool{}, o.Pools...)
		pools[0].Capacity += pools[0].Capacity / 8
		o.Pools = pools
		return true
	}},
}

// worse says how a plan is worse than one with fewer permissions; "" if it is not. Slices that
// cost half a per cent end the search for something cheaper.
func worse(o *passes.Options, less, more *passes.Result, err error) string {
	half := 0.0
	if o.Slices != passes.SlicesOff {
		half = 0.5
	}
	if err != nil {
		return fmt.Sprintf("no plan: %v", err)
	}
	a, b := less.Plan.Summary, more.Plan.Summary
	switch {
	case len(o.Pools) > 0 && b.Tiered.SlowTrafficBytes > a.Tiered.SlowTrafficBytes:
		return fmt.Sprintf("slow traffic of %d bytes, and of %d with less", b.Tiered.SlowTrafficBytes, a.Tiered.SlowTrafficBytes)
	case len(o.Pools) > 0:
	case o.Limit == nil && b.PeakBytes > a.PeakBytes:
		return fmt.Sprintf("a peak of %d bytes, and of %d with less", b.PeakBytes, a.PeakBytes)
	case o.Limit != nil && b.Extra() > max(a.Extra(), half)+1e-9:
		return fmt.Sprintf("%v %% more time, and %v %% with less", b.Extra(), a.Extra())
	}
	return ""
}

// promises compares plans of random networks.
type promises struct {
	*testing.T
	compared map[string]int // by permission: pairs of plans
	worse    map[string]int // pairs of which the second is worse
	slices   bool           // whether slices are looked for, too: that takes longer
}

func (c *promises) plan(b []byte, o passes.Options) (*passes.Result, error) {
	m, err := onnx.Parse("in.onnx", b)
	if err != nil {
		return nil, err
	}
	r, err := passes.Optimize(c.Context(), m, o)
	var none *passes.LimitError
	var full *passes.PoolError
	if err != nil && !errors.As(err, &none) && !errors.As(err, &full) {
		c.Fatal(err)
	}
	if r != nil && len(r.GivenUp) > 0 {
		c.Errorf("given up: %v", r.GivenUp)
	}
	return r, err
}

func (c *promises) check(name string, b []byte, o passes.Options) {
	if excluded(&o) || o.Slices != passes.SlicesOff && !c.slices {
		return
	}
	less, err := c.plan(b, o)
	if err != nil {
		return
	}
	for _, p := range permissions {
		with := o
		if !p.give(&with) || excluded(&with) || with.Slices != passes.SlicesOff && !c.slices {
			continue
		}
		more, err := c.plan(b, with)
		if how := worse(&with, less, more, err); how != "" {
			c.worse[p.name]++
			c.Logf("%s, limit %v, %v %% extra, pools %v, slices %d, host %v, aliases %d, no views %v, no inplace %v, no recompute %v, effort %v: with %s: %s", name, o.Limit, o.ExtraPercent, o.Pools, o.Slices, o.Host, o.Aliases, o.NoViews, o.NoInplace, o.NoRecompute, o.Effort, p.name, how)
		}
		c.compared[p.name]++
	}
}

// excluded reports whether options ask for two features of which one excludes the other.
func excluded(o *passes.Options) bool {
	e := passes.CheckFeatures(func(f passes.Feature) bool { return f.Asked(o) }, func(passes.Feature) bool { return true })
	return e != nil && !e.Needs
}

// network compares plans of one random network, which starts with one constraint or another.
func (c *promises) network(seed uint64) {
	net := randmodel.Draw(seed)
	o := passes.Options{Device: slowDevice, Dims: net.Dims}
	b := file(c.T, net.Model)
	if seed%2 == 1 {
		o.Train = &autodiff.Options{Loss: "mse"}
		if m, err := onnx.Parse("in.onnx", b); err != nil {
			c.Fatal(err)
		} else if _, err := passes.Optimize(c.Context(), m, o); err != nil {
			o.Train = nil // it has no training step
		}
	}
	constraints[seed/2%uint64(len(constraints))](&o)
	c.memories(fmt.Sprint("network ", seed), b, o, 97-12*int64(seed/10%2))
}

// memories compares plans of one network with that share of the memory that its best plan takes, in
// per cent.
func (c *promises) memories(name string, b []byte, o passes.Options, percent int64) {
	whole, err := c.plan(b, o)
	if err != nil {
		c.Fatalf("%s: %v", name, err)
	}
	c.check(name, b, o)
	peak := whole.Plan.Summary.PeakBytes
	limit := &passes.Limit{Bytes: peak * percent / 100}
	host := &passes.Host{Link: 1e9, NoRecompute: true}
	pools := []passes.Pool{{Name: "fast", Capacity: peak * (percent - 40) / 100}, {Name: "slow", Capacity: math.MaxInt32, BytesPerSecond: 1e8}}
	extra := float64(100 - percent)
	for _, asks := range []func(*passes.Options){
		func(o *passes.Options) { o.Limit = limit },
		func(o *passes.Options) { o.Limit = &passes.Limit{Bytes: limit.Bytes, Arena: true} },
		func(o *passes.Options) { o.Limit, o.Host = limit, host },
		func(o *passes.Options) { o.Limit, o.Slices, o.NoRecompute = limit, passes.SlicesExact, true },
		func(o *passes.Options) { o.Limit, o.Slices, o.Aliases = limit, passes.SlicesExact, passes.AliasesOff },
		func(o *passes.Options) { o.ExtraPercent = extra },
		func(o *passes.Options) { o.ExtraPercent, o.Host = extra, host },
		func(o *passes.Options) { o.ExtraPercent, o.Slices, o.NoRecompute = extra, passes.SlicesExact, true },
		func(o *passes.Options) { o.Pools = pools },
		func(o *passes.Options) { o.Pools, o.Slices = pools, passes.SlicesExact },
		func(o *passes.Options) { o.Pools, o.Host = pools, host },
	} {
		o := o
		asks(&o)
		c.check(name, b, o)
	}
}

// special are networks with what random ones lack: ranges of dimensions, caches with room for more
// tokens, states, measured costs and recorded scratch.
var special = []struct {
	name string
	slow bool
	make func(testing.TB) ([]byte, passes.Options)
}{
	{"a range of batches", false, func(t testing.TB) ([]byte, passes.Options) {
		return smallImages(t), passes.Options{Ranges: map[string]string{"batch": "1..3"}}
	}},
	{"a range of batches of a training step, updates last", true, func(t testing.TB) ([]byte, passes.Options) {
		return smallImages(t), passes.Options{Ranges: map[string]string{"batch": "2..3"}, Train: &autodiff.Options{Loss: "mse"}, UpdatesLast: true, Effort: schedule.EffortFast}
	}},
	{"room for more tokens", true, func(t testing.TB) ([]byte, passes.Options) {
		b, err := os.ReadFile("../testdata/decoders/llama-any.onnx")
		if err != nil {
			t.Fatal(err)
		}
		return b, passes.Options{KVCapacity: 12, Dims: map[string]int64{}, Effort: schedule.EffortFast}
	}},
	{"states", false, func(t testing.TB) ([]byte, passes.Options) {
		return cell(t), passes.Options{StatesAuto: true, Dims: map[string]int64{"batch": 4}}
	}},
	{"measured costs", false, func(t testing.TB) ([]byte, passes.Options) {
		b, o := smallImages(t), passes.Options{Costs: map[string]int64{}, Dims: map[string]int64{"batch": 2}}
		for i, n := range parsed(t, b).Graph.Nodes {
			o.Costs[n.Name] = 1000 * int64(1+i*i%7)
		}
		return b, o
	}},
	{"recorded scratch", false, func(t testing.TB) ([]byte, passes.Options) {
		b := smallImages(t)
		m := parsed(t, b)
		w := &plan.Recording{Device: "a GPU", OfAnyModel: true}
		for i, n := range m.Graph.Nodes {
			if n.Op == "Conv" {
				w.Nodes = append(w.Nodes, plan.NodeScratch{Node: n.Name, Output: n.Name, Bytes: 512 * int64(1+i%5)})
			}
		}
		return b, passes.Options{Workspaces: w, Dims: map[string]int64{"batch": 2}}
	}},
}

func parsed(t testing.TB, b []byte) *graph.Model {
	m, err := onnx.Parse("in.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// corner is the largest length of a range LOW..HIGH.
func corner(lengths string) (high int64) {
	_, text, _ := strings.Cut(lengths, "..")
	high, _ = strconv.ParseInt(text, 10, 64)
	return high
}

// smallImages is a network with a tensor that is read early and late, convolutions that slices cut, a
// view and a Concat.
func smallImages(t testing.TB) []byte {
	b := graph.NewBuilder("images", 17)
	weights := func(n int64) []float32 { return make([]float32, n) }
	conv := func(name string, x graph.TensorID, from, to int64) graph.TensorID {
		w := b.Floats(name+".weight", []int64{to, from, 3, 3}, weights(to*from*9))
		return b.Add(&graph.Node{Name: name, Op: "Conv", Inputs: []graph.TensorID{x, w}, Attrs: []*graph.Attr{
			{Name: "pads", Type: graph.AttrInts, Ints: []int64{1, 1, 1, 1}},
		}}, name)[0]
	}
	early := b.Node("Relu", "early.relu", conv("early", b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 3, 8, 8), "batch"), 3, 4))
	y := b.Node("Relu", "wide.relu", conv("wide", early, 4, 16))
	y = b.Node("Relu", "back.relu", conv("back", y, 16, 4))
	y = b.Add(&graph.Node{Name: "cat", Op: "Concat", Inputs: []graph.TensorID{early, y}, Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 1}}}, "cat")[0]
	y = b.Node("Flatten", "flat", b.Node("GlobalAveragePool", "pooled", conv("late", y, 8, 4)))
	b.Output(b.Node("Gemm", "logits", y, b.Floats("head.weight", []int64{4, 3}, weights(12)), b.Floats("head.bias", []int64{3}, weights(3))))
	return built(t, b)
}

// cell keeps the last of several rows, its state, from run to run.
func cell(t testing.TB) []byte {
	b := graph.NewBuilder("cell", 17)
	mean := func(name string, x graph.TensorID, keep int64) graph.TensorID {
		return b.Add(&graph.Node{Name: name, Op: "ReduceMean", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{
			{Name: "axes", Type: graph.AttrInts, Ints: []int64{0}}, {Name: "keepdims", Type: graph.AttrInt, Int: keep},
		}}, name)[0]
	}
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 16), "batch")
	h := b.Input("h", graph.TensorOf(graph.Float32, 8, 16))
	y := b.Node("Tanh", "tanh", b.Node("MatMul", "product", x, b.Floats("w", []int64{16, 16}, make([]float32, 256))))
	next := b.Node("ScatterND", "h.next", h, b.Ints("row", []int64{1, 1}, []int64{3}), mean("last", y, 1))
	b.Output(b.Node("Softmax", "y", b.Node("Add", "both", b.Node("Relu", "relu", y), mean("state", next, 0))), next)
	return built(t, b)
}

func built(t testing.TB, b *graph.Builder) []byte {
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return file(t, m)
}

// constraints are what networks have beside a limit, extra time or pools.
var constraints = []func(*passes.Options){
	func(*passes.Options) {},
	func(o *passes.Options) { o.NoViews = true },
	func(o *passes.Options) { o.NoInplace = true },
	func(o *passes.Options) { o.Aliases = passes.AliasesOff },
	func(o *passes.Options) { o.Effort = schedule.EffortFast },
	func(o *passes.Options) { o.UpdatesLast = o.Train != nil },
	func(o *passes.Options) { o.KeepRandomOrder = true },
	func(o *passes.Options) { o.Schedule = "program" },
	func(o *passes.Options) {
		if o.Train == nil {
			o.Runtime = ops.ONNXRuntime
		}
	},
}

// TestMorePermissionsAreNoWorse: one more mean, or one less constraint, never loses a plan, nor
// makes one dearer or larger.
func TestMorePermissionsAreNoWorse(t *testing.T) {
	c := &promises{t, map[string]int{}, map[string]int{}, false}
	// These remain. With a larger pool, other moves are tried, and the order with the smallest peak may
	// move more. With more effort, no limit is planned by itself ([budget.Options]), so that a larger
	// one never costs more.
	seeds, known := []uint64{0, 2, 5, 9, 11, 12, 15, 24, 142, 202}, map[string]int{"a larger pool": 2}
	if sweep.On() {
		seeds = append(seeds, 3, 13, 14, 152, 283, 442, 937)
		known = map[string]int{"a larger pool": 5, "more effort": 2}
	}
	for _, seed := range seeds {
		c.slices = seed%8 == 5
		c.network(seed)
	}
	for i, x := range special {
		if x.slow && !sweep.On() {
			continue
		}
		b, o := x.make(t)
		o.Device = slowDevice
		c.slices = sweep.On()
		c.memories(x.name, b, o, 97-12*int64(i%2))
	}
	for _, p := range permissions {
		if n := c.worse[p.name]; n != known[p.name] {
			t.Errorf("with %s: %d of %d plans are worse: expected %d", p.name, n, c.compared[p.name], known[p.name])
		}
		if c.compared[p.name] == 0 {
			t.Errorf("%s: no pairs of plans were compared: expected some", p.name)
		}
	}
}
