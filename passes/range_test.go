package passes_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// rangeCases are small networks with ranges of their dimensions.
var rangeCases = []struct {
	network string
	set     map[string]string
	ranges  map[string]string
	points  int
}{
	{"bert", map[string]string{"layers": "1"}, map[string]string{"batch": "1..2", "sequence": "1,2,3,5,16,511,512"}, 14},
	{"resnet18", nil, map[string]string{"batch": "1..6"}, 6},
}

func rangeModel(t *testing.T, network string, set map[string]string) *graph.Model {
	t.Helper()
	m, err := models.Build(network, models.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// planRange plans a model for ranges of dimensions.
func planRange(m *graph.Model, ranges map[string]string, opt passes.Options) (*plan.Plan, error) {
	opt.Ranges, opt.Check = ranges, true
	r, err := passes.Optimize(context.Background(), m, opt)
	if err != nil {
		return nil, err
	}
	return r.Plan, r.Plan.Check()
}

// TestRange: the arena of each network is the bound that each point has by itself, and the
// corner needs what a plan of its own does.
func TestRange(t *testing.T) {
	for _, c := range rangeCases {
		t.Run(c.network, func(t *testing.T) {
			p, err := planRange(rangeModel(t, c.network, c.set), c.ranges, passes.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := p.Ranges
			if r.Points != c.points || r.OptimalPoints != c.points || r.Worst.Ratio() != 1 {
				t.Errorf("expected the bound at all %d points, found %d of %d, worst %+v", c.points, r.OptimalPoints, r.Points, r.Worst)
			}
			corner := r.Table[len(r.Table)-1]
			alone, err := passes.Optimize(context.Background(), rangeModel(t, c.network, c.set), passes.Options{Dims: maps.Clone(corner.Dims)})
			if err != nil {
				t.Fatal(err)
			}
			if own, found := alone.Plan.Summary, p.Summary; corner.ArenaBytes != own.ArenaBytes || corner.LowerBoundBytes != own.LowerBoundBytes || found.ArenaBytes != own.ArenaBytes {
				t.Errorf("corner: expected %d bytes and the bound %d of a plan of its own, found %+v, %d bytes", own.ArenaBytes, own.LowerBoundBytes, corner, found.ArenaBytes)
			}
			for _, b := range r.Stacking {
				if len(p.Buffers[b].Tensors) > 0 && r.SizeOf[b] < 0 {
					t.Errorf("buffer %q: expected its size as a polynomial", p.Buffers[b].Tensors[0])
				}
			}
		})
	}
}

// TestBoxOfOnePoint: a range of one length has the plan of that length, also beside other ranges, in a
// training step, by a strategy, for the smallest area, and with a default order.
func TestBoxOfOnePoint(t *testing.T) {
	for _, c := range []struct {
		network string
		opt     passes.Options
	}{
		{"resnet18", passes.Options{}},
		{"googlenet", passes.Options{Goal: schedule.GoalArea}},
		{"mobilenet_v2", passes.Options{Schedule: "reverse-dfs"}},
		{"resnet18", passes.Options{Runtime: ops.ONNXRuntime, RuntimeOrder: true}},
		{"tiny_resnet8", passes.Options{KeepRandomOrder: true}},
		{"tiny_resnet8", passes.Options{Train: &autodiff.Options{}}},
		{"bert", passes.Options{Ranges: map[string]string{"sequence": "2..3"}}},
		{"bert", passes.Options{Ranges: map[string]string{"sequence": "2..3"}, Train: &autodiff.Options{}}},
	} {
		var set map[string]string
		if c.network == "bert" {
			set = map[string]string{"layers": "1", "hidden": "16", "heads": "2", "ff": "32", "vocab": "20", "positions": "8"}
		}
		c.opt.Effort = schedule.EffortFast
		ranged := map[string]string{"batch": "2"}
		maps.Copy(ranged, c.opt.Ranges)
		box, err := planRange(rangeModel(t, c.network, set), ranged, c.opt)
		if err != nil {
			t.Fatal(c.network, err)
		}
		fixed, err := planRange(rangeModel(t, c.network, set), c.opt.Ranges, with(c.opt, map[string]int64{"batch": 2}))
		if err != nil {
			t.Fatal(c.network, err)
		}
		if (box.Ranges == nil) != (c.opt.Ranges == nil) || !reflect.DeepEqual(box, fixed) {
			t.Errorf("%s, %+v: %+v, the length by itself %+v: expected the same plan", c.network, c.opt, box.Summary, fixed.Summary)
		}
	}
}

// with is options with lengths of dimensions.
func with(opt passes.Options, dims map[string]int64) passes.Options {
	opt.Dims = dims
	return opt
}

// TestRangeOfOneLengthIsNone: what several lengths exclude is permitted beside one, and a dimension
// has a length or a range.
func TestRangeOfOneLengthIsNone(t *testing.T) {
	for _, c := range []struct {
		opt  passes.Options
		want string
	}{
		{passes.Options{Ranges: map[string]string{"n": "2..2"}, Slices: passes.SlicesExact, ExtraPercent: 5, Compact: true}, ""},
		{passes.Options{Ranges: map[string]string{"n": "2..3"}, Slices: passes.SlicesExact, ExtraPercent: 5, Compact: true}, "Compact"},
		{passes.Options{Ranges: map[string]string{"n": "2"}, Dims: map[string]int64{"n": 2}}, `dimension "n": expected a length or a range, found both`},
		{passes.Options{Ranges: map[string]string{"n": "-2"}}, `expected a length`},
	} {
		err := c.opt.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, %v: %v: expected %q", c.opt.Ranges, c.opt.Dims, err, c.want)
		}
	}
}

// TestRangeByNameAndPlace: an axis has a length or a range by its name or by its place, and not by
// both. Two places of one name may have their own.
func TestRangeByNameAndPlace(t *testing.T) {
	for _, c := range []struct {
		dims   map[string]int64
		ranges map[string]string
		want   string
	}{
		{map[string]int64{"input_ids[0]": 2}, map[string]string{"batch": "2..3"}, `axis 0 of input "input_ids": expected --dim batch=2..3 or --dim input_ids[0]=2, found both`},
		{map[string]int64{"batch": 2}, map[string]string{"input_ids[0]": "2..3"}, `axis 0 of input "input_ids": expected --dim batch=2 or --dim input_ids[0]=2..3, found both`},
		{nil, map[string]string{"batch": "2..3", "input_ids[0]": "2,4"}, `axis 0 of input "input_ids": expected --dim batch=2..3 or --dim input_ids[0]=2,4, found both`},
		{map[string]int64{"input_ids[0]": 2}, map[string]string{"batch": "2"}, ""},
		{map[string]int64{"input_ids[0]": 2}, map[string]string{"sequence": "2..3"}, ""},
		{map[string]int64{"input_ids[0]": 2}, map[string]string{"attention_mask[0]": "2"}, ""},
	} {
		set := map[string]string{"layers": "1", "hidden": "16", "heads": "2", "ff": "32", "vocab": "20", "positions": "8"}
		_, err := planRange(rangeModel(t, "bert", set), c.ranges, passes.Options{Dims: c.dims, Effort: schedule.EffortFast})
		var refused *graph.Error
		if (c.want == "") != (err == nil) || err != nil && (!errors.As(err, &refused) || !strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("%v, %v: %v: expected %q", c.dims, c.ranges, err, c.want)
		}
	}
}

// TestRangeBounded: with more points than are inferred one by one, bounded lengths prove a
// plan that needs no more than the one that was proven at each point, but for what they do
// not know of lengths.
func TestRangeBounded(t *testing.T) {
	ranges := map[string]string{"batch": "1..64"}
	each, err := planRange(rangeModel(t, "resnet18", nil), ranges, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := planRange(rangeModel(t, "resnet18", nil), ranges, passes.Options{RangePoints: 10})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Ranges
	if r.Proof != plan.ProofBounded || r.Points != 64 || r.Inferred != len(r.Table) || r.Inferred > 12 || r.OptimalPoints != r.Inferred {
		t.Errorf("expected the bound at a few points, found %+v", r)
	}
	if p.Summary.ArenaBytes != each.Summary.ArenaBytes {
		t.Errorf("expected the arena of the plan that was proven at each point, %d bytes, found %d", each.Summary.ArenaBytes, p.Summary.ArenaBytes)
	}
}

// TestRangeOnAnyCores: the result is the same on one core and on several.
func TestRangeOnAnyCores(t *testing.T) {
	var first *plan.Plan
	for _, cores := range []int{1, 4} {
		before := runtime.GOMAXPROCS(cores)
		c := rangeCases[0]
		p, err := planRange(rangeModel(t, c.network, c.set), c.ranges, passes.Options{})
		runtime.GOMAXPROCS(before)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = p
		} else if !reflect.DeepEqual(first, p) {
			t.Error("expected the plan that one core makes")
		}
	}
}

// TestRangeHoles: a length that the model refuses is counted, with the reason, unless it is
// the largest.
func TestRangeHoles(t *testing.T) {
	pairs := func() *graph.Model {
		b := graph.NewBuilder("pairs", 17)
		x := b.Input("x", graph.Type{Kind: graph.KindTensor, Elem: graph.Float32, Ranked: true, Shape: []graph.Dim{graph.Unknown}}, "n")
		y := b.Node("Reshape", "pairs", x, b.Ints("shape", []int64{2}, []int64{-1, 2}))
		b.Output(b.Node("Relu", "relu", y))
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	p, err := planRange(pairs(), map[string]string{"n": "1..40"}, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Ranges
	if r.Points != 40 || r.Refused != 20 || r.OptimalPoints != 20 || r.Refusal == "" || r.Accepted["n"] != (plan.AcceptedLengths{Low: 2, High: 40, Step: 2}) {
		t.Errorf("expected 20 of 40 points, the even ones, and the reason why the others are refused, found %+v", r)
	}
	if err := p.CheckPoint(map[string]int64{"n": 7}); err == nil || err.Error() != `dimension "n": the model takes multiples of 2 from 2 to 40, found 7` {
		t.Errorf("7: expected the rule, found %v", err)
	}
	// A length of 0 is a point like others, though the plan may then share less.
	if p, err = planRange(pairs(), map[string]string{"n": "0..40"}, passes.Options{}); err != nil || p.Ranges.Points-p.Ranges.Refused != 21 {
		t.Errorf("from 0: expected 21 of 41 points, found %+v, %v", p, err)
	}
	if _, err := planRange(pairs(), map[string]string{"n": "1..41"}, passes.Options{}); err == nil || !strings.Contains(err.Error(), "pairs") || !strings.Contains(err.Error(), "at n=41") {
		t.Errorf("odd corner: expected the error of the node and its length, found %v", err)
	}
}

// TestRangeOfRuntime: with the sharing of ONNX Runtime, each point of the table has the
// arena and the bound of a plan for it alone.
func TestRangeOfRuntime(t *testing.T) {
	c := rangeCases[0]
	for _, r := range ops.Runtimes {
		p, err := planRange(rangeModel(t, c.network, c.set), c.ranges, passes.Options{Runtime: r.Name})
		if err != nil {
			t.Fatal(err)
		}
		if p.Sharing.Runtime != r.Name || p.Ranges.OptimalPoints != c.points {
			t.Errorf("%s: %d of %d points are optimal", p.Sharing.Runtime, p.Ranges.OptimalPoints, c.points)
		}
		for _, row := range []plan.RangePoint{p.Ranges.Table[0], p.Ranges.Table[len(p.Ranges.Table)/2], p.Ranges.Table[len(p.Ranges.Table)-1]} {
			alone, err := passes.Optimize(t.Context(), rangeModel(t, c.network, c.set), passes.Options{Dims: row.Dims, Runtime: r.Name})
			if err != nil {
				t.Fatal(err)
			}
			if own := alone.Plan.Summary; own.ArenaBytes != row.ArenaBytes || own.LowerBoundBytes != row.LowerBoundBytes {
				t.Errorf("%s, %v: arena %d, bound %d; of a plan for it alone %d, %d", r.Name, row.Dims, row.ArenaBytes, row.LowerBoundBytes, own.ArenaBytes, own.LowerBoundBytes)
			}
		}
	}
}

func TestRangeErrors(t *testing.T) {
	for _, c := range []struct {
		opt    passes.Options
		ranges map[string]string
		want   string
	}{
		{passes.Options{}, map[string]string{"batch": "4..1"}, `dimension "batch": "4..1": expected a last length of 4 or more`},
		{passes.Options{}, map[string]string{"batch": "1..4000000000000"}, "have more than 1099511627776 points"},
		{passes.Options{}, map[string]string{"steps": "1..2"}, "steps"},
		{passes.Options{SpareDims: true}, map[string]string{"steps": "1..2"}, `range of dimension "steps": expected the name of an open dimension`},
		{passes.Options{Dims: map[string]int64{"batch": 1}}, map[string]string{"batch": "1..2"}, "expected a length or a range, found both"},
		{passes.Options{Train: &autodiff.Options{FusedGradients: autodiff.FuseAll}}, map[string]string{"batch": "2..3"}, "options Ranges and Train: FuseAll cannot be used together"},
		{passes.Options{Train: &autodiff.Options{}, RangePoints: 2}, map[string]string{"batch": "2..5"}, "4 points are too many to make the step of each"},
	} {
		if _, err := planRange(rangeModel(t, "resnet18", nil), c.ranges, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: expected an error with %q, found %v", c.ranges, c.want, err)
		}
	}
}
