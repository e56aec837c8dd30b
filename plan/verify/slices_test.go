package verify_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	zoo "github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// network is a built-in network, planned in slices.
type network struct {
	name string
	set  map[string]string
	dims map[string]int64
	opt  passes.Options
	// every: one of so many corruptions is tried.
	every int
	long  bool // to plan it takes seconds
}

// depth is the number of layers of the Transformer: the search for slices of two takes
// seconds.
var depth = func() string {
	if sweep.On() {
		return "2"
	}
	return "1"
}()

var (
	layers   = map[string]string{"layers": "1", "hidden": "32", "heads": "4", "ff": "64", "vocab": "50", "positions": "16"}
	networks = []network{
		{name: "transformer", set: map[string]string{"vocab": "50", "positions": "64", "layers": depth, "hidden": "32", "heads": "4", "ff": "128"}, dims: map[string]int64{"batch": 2, "source": 48, "target": 40}, opt: passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, every: 37},
		{name: "vit_b_16", set: map[string]string{"size": "64", "patch": "8", "classes": "10", "layers": "2", "hidden": "32", "heads": "4", "ff": "128"}, dims: map[string]int64{"batch": 2}, opt: passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, every: 23},
		{name: "googlenet", set: map[string]string{"width": "0.25", "size": "32", "classes": "10"}, dims: map[string]int64{"batch": 2}, opt: passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, every: 53, long: true},
		{name: "mobilenet_v2", set: map[string]string{"width": "0.25", "size": "32", "classes": "10"}, dims: map[string]int64{"batch": 2}, opt: passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, every: 37, long: true},
		// Slices of images lie inside of slices of images.
		{name: "efficientnet_b0", dims: map[string]int64{"batch": 8}, opt: passes.Options{Slices: passes.SlicesExact, ExtraPercent: 5}, every: 397, long: true},
		{name: "resnet18", set: map[string]string{"width": "0.25", "size": "32", "classes": "10"}, dims: map[string]int64{"batch": 2}, opt: passes.Options{Slices: passes.SlicesAny, ExtraPercent: 1000}, every: 31},
		{name: "vit_b_16", set: map[string]string{"size": "64", "patch": "8", "classes": "10", "layers": "2", "hidden": "32", "heads": "4", "ff": "128"}, dims: map[string]int64{"batch": 2}, opt: passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000, Compact: true}, every: 11},
		{name: "resnet18", set: map[string]string{"width": "0.25", "size": "32", "classes": "10"}, dims: map[string]int64{"batch": 4}, opt: passes.Options{Slices: passes.SlicesAny, ExtraPercent: 1000, Compact: true}, every: 11},
		{name: "bert", set: layers, dims: map[string]int64{"batch": 2, "sequence": 16}, opt: passes.Options{Slices: passes.SlicesAny, ExtraPercent: 1000}, every: 31},
	}
)

// sliced plans a network in slices, and returns both files.
func (n *network) sliced(t testing.TB) slicedModel {
	t.Helper()
	m, err := zoo.Build(n.name, zoo.Options{Set: n.set, Dims: n.dims})
	if err != nil {
		t.Fatal(err)
	}
	source := encode(t, m)
	found, err := passes.Optimize(t.Context(), parse(t, source), n.opt)
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(found.Model)
	if err != nil {
		t.Fatal(err)
	}
	if found.Plan.Slices == nil {
		t.Fatalf("%s: no slices", n.name)
	}
	found.Plan.Model = plan.ImageOf("out.onnx", im)
	return slicedModel{source, encode(t, found.Model), found.Plan}
}

// Networks in slices are valid, and with the source nothing about the slices is claimed.
func TestSlicedNetworks(t *testing.T) {
	for i := range networks {
		n := &networks[i]
		t.Run(n.name, func(t *testing.T) {
			if n.long {
				sweep.Only(t)
			}
			x := n.sliced(t)
			p := x.p
			calls := slices.ContainsFunc(parse(t, x.file).Functions, func(f *graph.Function) bool { return !f.IsPutRows() })
			if calls != n.opt.Compact || calls != slices.ContainsFunc(p.Slices.Regions, func(r plan.SlicedRegion) bool { return r.Names != nil }) {
				t.Errorf("functions with nodes of slices: expected %t, found %t", n.opt.Compact, calls)
			}
			r, err := verify.Plan(parse(t, x.file), p, verify.Options{Source: parse(t, x.source)})
			if err != nil || !r.Valid {
				t.Fatal(err, r)
			}
			if slices.Contains(r.Claimed, "slices") {
				t.Errorf("with the source, claimed: %v", r.Claimed)
			}
			r, err = verify.Plan(parse(t, x.file), p, verify.Options{})
			if err != nil || !r.Valid || !slices.Contains(r.Claimed, "slices") {
				t.Errorf("without the source: %v, %v", err, r)
			}
			t.Logf("%d nodes, %d regions, %d weights, %d copies", len(p.Steps), len(p.Slices.Regions), len(p.Slices.Weights), len(p.Slices.Copies))
			every := n.every
			if !sweep.On() {
				every *= 3
			}
			mutate(t, x, every)
		})
	}
}

// TestSumsBehindSamples: what slices add up of an image that is sampled is compared with the source,
// whatever adds, and not only claimed.
func TestSumsBehindSamples(t *testing.T) {
	const x = `
		in x float32[1,16,8,8]
		in grid float32[1,16,16,2]
		a = GridSample(x, grid)
		b = Relu(a)
	`
	for name, more := range map[string]string{
		"a product": "init w float32[2,16,16,16] = ...\ny = Conv(b, w)\nout y",
		"a sum":     "y = ReduceSum(b) keepdims=0\nout y",
		"a mean":    "y = ReduceMean(b) keepdims=1\nout y",
		"a maximum": "y = ReduceMax(b) keepdims=0\nout y",
	} {
		t.Run(name, func(t *testing.T) {
			m := text{main: x + more}.build(t)
			source := encode(t, m)
			found, err := passes.Optimize(t.Context(), m, passes.Options{Slices: passes.SlicesAny, ExtraPercent: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range found.GivenUp {
				t.Errorf("given up: %+v", x)
			}
			if found.Plan.Slices == nil || !slices.ContainsFunc(found.Plan.Slices.Regions, func(r plan.SlicedRegion) bool { return !r.Exact }) {
				t.Fatalf("expected slices that add up, found %+v", found.Plan.Slices)
			}
			im, err := onnx.Encode(found.Model)
			if err != nil {
				t.Fatal(err)
			}
			found.Plan.Model = plan.ImageOf("out.onnx", im)
			r, err := verify.Plan(parse(t, encode(t, found.Model)), found.Plan, verify.Options{Source: parse(t, source)})
			if err != nil || !r.Valid || slices.Contains(r.Claimed, "slices") {
				t.Errorf("expected a valid plan that does not only claim its slices, found %v, %+v", err, r)
			}
		})
	}
}
