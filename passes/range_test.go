package passes_test

import (
	"context"
	"maps"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes"
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

// TestSolveRange: the arena of each network is the bound that each point has by itself,
// and the corner needs what a plan of its own does.
func TestSolveRange(t *testing.T) {
	for _, c := range rangeCases {
		t.Run(c.network, func(t *testing.T) {
			r, err := passes.SolveRange(context.Background(), rangeModel(t, c.network, c.set), passes.Options{}, c.ranges)
			if err != nil {
				t.Fatal(err)
			}
			if r.Points != c.points || r.OptimalPoints != c.points || r.Worst.Ratio() != 1 {
				t.Errorf("expected the bound at all %d points, found %d of %d, worst %+v", c.points, r.OptimalPoints, r.Points, r.Worst)
			}
			alone, err := passes.Optimize(context.Background(), rangeModel(t, c.network, c.set), passes.Options{Dims: maps.Clone(r.Corner.Dims)})
			if err != nil {
				t.Fatal(err)
			}
			if s := alone.Plan.Summary; r.Corner.ArenaBytes != s.ArenaBytes || r.Corner.LowerBound != s.LowerBoundBytes || r.ArenaBytes != s.ArenaBytes {
				t.Errorf("corner: expected %d bytes and the bound %d of a plan of its own, found %+v, %d at most", s.ArenaBytes, s.LowerBoundBytes, r.Corner, r.ArenaBytes)
			}
		})
	}
}

// TestSolveRangeOnAnyCores: the result is the same on one core and on several.
func TestSolveRangeOnAnyCores(t *testing.T) {
	var first *passes.RangeResult
	for _, cores := range []int{1, 4} {
		before := runtime.GOMAXPROCS(cores)
		c := rangeCases[0]
		r, err := passes.SolveRange(context.Background(), rangeModel(t, c.network, c.set), passes.Options{}, c.ranges)
		runtime.GOMAXPROCS(before)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = r
		} else if !reflect.DeepEqual(first, r) {
			t.Errorf("expected %+v as on one core, found %+v", first, r)
		}
	}
}

// TestSolveRangeHoles: a length that the model refuses is counted, with the reason, unless
// it is the largest.
func TestSolveRangeHoles(t *testing.T) {
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
	r, err := passes.SolveRange(context.Background(), pairs(), passes.Options{}, map[string]string{"n": "1..40"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Points != 40 || r.Refused != 20 || r.OptimalPoints != 20 || r.FirstRefusal == "" {
		t.Errorf("expected 20 of 40 points and the reason why the others are refused, found %+v", r)
	}
	// A length of 0 is a point like others, though the plan may then share less.
	if r, err = passes.SolveRange(context.Background(), pairs(), passes.Options{}, map[string]string{"n": "0..40"}); err != nil || r.Points-r.Refused != 21 {
		t.Errorf("from 0: expected 21 of 41 points, found %+v, %v", r, err)
	}
	if _, err := passes.SolveRange(context.Background(), pairs(), passes.Options{}, map[string]string{"n": "1..41"}); err == nil || !strings.Contains(err.Error(), "pairs") {
		t.Errorf("odd corner: expected the error of the node, found %v", err)
	}
}

func TestSolveRangeErrors(t *testing.T) {
	for _, c := range []struct {
		opt    passes.Options
		ranges map[string]string
		want   string
	}{
		{passes.Options{}, map[string]string{"batch": "4..1"}, `dimension "batch": "4..1": expected a last length of 4 or more`},
		{passes.Options{}, map[string]string{"batch": "1..70000"}, "have more than 65536 points"},
		{passes.Options{}, map[string]string{"steps": "1..2"}, "steps"},
		{passes.Options{Dims: map[string]int64{"batch": 1}}, map[string]string{"batch": "1..2"}, "expected a length or a range, found both"},
		{passes.Options{Train: &autodiff.Options{}}, map[string]string{"batch": "1..2"}, "expected no training"},
		{passes.Options{Limit: &passes.Limit{Percent: 50}}, map[string]string{"batch": "1..2"}, "expected no training, limit"},
	} {
		if _, err := passes.SolveRange(context.Background(), rangeModel(t, "resnet18", nil), c.opt, c.ranges); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: expected an error with %q, found %v", c.ranges, c.want, err)
		}
	}
}
