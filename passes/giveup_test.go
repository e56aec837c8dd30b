package passes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/schedule"
)

// broken is a list of passes whose last one spoils the plan.
func broken(spoil func(*plan.Plan)) []passes.Pass {
	return append(passes.Default(), passes.Pass{Name: "broken", Run: func(_ context.Context, s *passes.State) error {
		spoil(s.Plan())
		return nil
	}})
}

// misplaced moves a buffer before the start of its pool.
func misplaced(p *plan.Plan) {
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Pool != plan.Resident {
			b.Offset = -p.Alignment
			return
		}
	}
}

// weights returns an initializer of that shape.
func weights(b *graph.Builder, name string, dims ...int64) graph.TensorID {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return b.Floats(name, dims, make([]float32, n))
}

// imageRows is a network whose images run one by one, and each of them in rows, if a limit
// asks for it.
func imageRows(t testing.TB) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("images", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 2, 4, 8, 8))
	conv := func(x, w graph.TensorID, pad, group int64) graph.TensorID {
		return b.Add(&graph.Node{Name: fmt.Sprint("conv", w), Op: "Conv", Inputs: []graph.TensorID{x, w}, Attrs: []*graph.Attr{
			{Name: "pads", Type: graph.AttrInts, Ints: []int64{pad, pad, pad, pad}}, {Name: "group", Type: graph.AttrInt, Int: group},
		}}, fmt.Sprint("c", w))[0]
	}
	p := b.Node("Relu", "p", conv(x, weights(b, "k", 32, 4, 1, 1), 0, 1))
	c := conv(p, weights(b, "d", 32, 1, 3, 3), 1, 32)
	f := conv(c, weights(b, "v", 4, 32, 1, 1), 0, 1)
	b.Output(conv(f, weights(b, "e", 4, 4, 3, 3), 1, 1))
	return model(t, b)
}

// joined has a Concat, whose operands lie in its result, and a constant that is folded.
func joined(t testing.TB) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("joined", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 1, 64))
	shift := b.Node("Neg", "shift", weights(b, "w", 128, 1))
	n := &graph.Node{Name: "both", Op: "Concat", Inputs: []graph.TensorID{b.Node("Exp", "left", x), b.Node("Tanh", "right", x)}, Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 1}}}
	both := b.Add(n, "both")[0]
	b.Output(b.Node("MatMul", "y", both, shift))
	return model(t, b)
}

// skipped reads its first tensor often, and then once more in the end.
func skipped(t testing.TB) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("skipped", 17)
	first := b.Node("Exp", "first", b.Input("x", graph.TensorOf(graph.Float32, 64, 64)))
	y := first
	for k := range 4 {
		y = b.Node("Add", fmt.Sprint("a", k), b.Node("MatMul", fmt.Sprint("m", k), y, weights(b, fmt.Sprint("w", k), 64, 64)), first)
	}
	for k := range 6 {
		y = b.Node("MatMul", fmt.Sprint("n", k), y, weights(b, fmt.Sprint("v", k), 64, 64))
	}
	b.Output(b.Node("Mul", "y", y, first))
	return model(t, b)
}

// swapped is a classifier that is trained with swaps.
func swapped(t testing.TB) *graph.Model { return read(t, long(t)) }

func read(t testing.TB, b []byte) *graph.Model {
	t.Helper()
	m, err := onnx.Parse("in.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func model(t testing.TB, b *graph.Builder) *graph.Model {
	t.Helper()
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// spoiled says which plans a pass spoils, and how.
type spoiled struct {
	has func(*plan.Plan) bool
	how func(*plan.Plan)
}

func (x spoiled) plan(p *plan.Plan) {
	if x.has(p) {
		x.how(p)
	}
}

func hasSlices(p *plan.Plan) bool { return p.Slices != nil }
func hasInside(p *plan.Plan) bool {
	return p.Slices != nil && slices.ContainsFunc(p.Slices.Regions, func(r plan.SlicedRegion) bool { return r.Within != nil })
}
func hasSums(p *plan.Plan) bool    { return p.Slices != nil && p.Slices.Mode == "any" }
func hasAliases(p *plan.Plan) bool { return p.Sharing.Aliases }
func isFolded(p *plan.Plan) bool   { return p.Folded != nil }
func hasProof(p *plan.Plan) bool   { return len(p.Certificates) > 0 }
func isInplace(p *plan.Plan) bool  { return p.Sharing.Inplace }
func hasViews(p *plan.Plan) bool   { return p.Sharing.Views }
func isMoved(p *plan.Plan) bool    { return p.Summary.Tiered != nil && p.Summary.MovedBuffers > 0 }
func hasSwaps(p *plan.Plan) bool   { return p.Summary.Limited != nil && p.Summary.SwappedBuffers > 0 }

func hasAgain(p *plan.Plan) bool  { return p.Summary.Limited != nil && p.Summary.RecomputedNodes > 0 }
func countedTwice(p *plan.Plan)   { p.Slices.Regions[0].Count++ }
func forged(p *plan.Plan)         { p.Certificates[0].ValueBytes += p.Alignment }
func foldedTwice(p *plan.Plan)    { p.Folded.Nodes++ }
func tooManyTensors(p *plan.Plan) { p.Summary.Tensors++ }
func either(a, b func(*plan.Plan) bool) func(*plan.Plan) bool {
	return func(p *plan.Plan) bool { return a(p) || b(p) }
}

// TestGivenUp: a plan that the verifier refuses is not handed out. The feature behind it is
// given up, which the violation points to, or else one after another, and the result says so.
func TestGivenUp(t *testing.T) {
	nested := passes.Options{Slices: passes.SlicesExact, ExtraPercent: 60, Device: slowDevice, Effort: schedule.EffortFast}
	summed := nested
	summed.Slices = passes.SlicesAny
	pools := passes.Options{Pools: []passes.Pool{{Name: "fast", Capacity: 40 << 10}, {Name: "slow", Capacity: 1 << 20, BytesPerSecond: 1e6}}}
	swaps := passes.Options{Limit: &passes.Limit{Percent: 80}, Host: &passes.Host{Link: 40e9}, Train: &autodiff.Options{}, Effort: schedule.EffortFast}
	again := passes.Options{ExtraPercent: 30, Train: &autodiff.Options{}, Effort: schedule.EffortFast}
	for _, c := range []struct {
		name  string
		model func(testing.TB) *graph.Model
		opt   passes.Options
		spoil []spoiled
		want  string // what is given up, with the codes of the violations
	}{
		{"regions inside of slices", imageRows, nested, []spoiled{{hasInside, misplaced}}, "regions inside of slices (offset)"},
		{"their slices", imageRows, nested, []spoiled{{hasInside, countedTwice}}, "regions inside of slices (slices)"},
		{"slices", imageRows, nested, []spoiled{{hasSlices, misplaced}}, "slices (offset)"},
		{"sums", imageRows, summed, []spoiled{{hasSums, countedTwice}}, "sums in slices (slices)"},
		{"moves", skipped, pools, []spoiled{{isMoved, misplaced}}, "copies between pools (offset)"},
		{"swaps", swapped, swaps, []spoiled{{hasSwaps, misplaced}}, "swaps (offset)"},
		{"extra time", swapped, again, []spoiled{{hasAgain, misplaced}}, "extra time (offset)"},
		{"aliases", joined, passes.Options{}, []spoiled{{hasAliases, misplaced}}, "aliases (alias)"},
		{"aliases behind a certificate", joined, passes.Options{}, []spoiled{{hasAliases, forged}}, "aliases (certificate)"},
		{"a certificate", imageRows, passes.Options{}, []spoiled{{hasProof, forged}}, "the proof of its bound (certificate)"},
		{"folds", joined, passes.Options{}, []spoiled{{isFolded, foldedTwice}}, "folded constants (folded)"},
		{"in place", imageRows, passes.Options{}, []spoiled{{isInplace, misplaced}}, "in-place results (offset)"},
		{"views", imageRows, passes.Options{}, []spoiled{{hasViews, misplaced}}, "views (offset)"},
		{"two of them", joined, passes.Options{}, []spoiled{{hasAliases, forged}, {isFolded, foldedTwice}}, "aliases (certificate), folded constants (folded)"},
		{"both together", joined, passes.Options{Aliases: passes.AliasesOff}, []spoiled{{either(isInplace, isFolded), tooManyTensors}}, "folded constants (summary), in-place results (summary), views (summary)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.Passes = broken(func(p *plan.Plan) {
				for _, x := range c.spoil {
					x.plan(p)
				}
			})
			r, err := passes.Optimize(t.Context(), c.model(t), c.opt)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, g := range r.GivenUp {
				got = append(got, fmt.Sprintf("%s (%s)", g.Feature, g.Code))
			}
			if got := strings.Join(got, ", "); got != c.want {
				t.Errorf("given up: %s, expected %s: %v", got, c.want, r.GivenUp)
			}
			verified(t, file(t, r.Model), r.Plan, verify.Options{Unwritten: true})
		})
	}
}

// TestRefused: where no plan is valid, or none without the feature that meets what was asked
// for, Optimize fails and says what it tried.
func TestRefused(t *testing.T) {
	limited := passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 40}, Device: slowDevice, Effort: schedule.EffortFast}
	alone := limited
	alone.NoRecompute = true
	swaps := passes.Options{Limit: &passes.Limit{Percent: 80}, Host: &passes.Host{Link: 40e9, NoRecompute: true}, Train: &autodiff.Options{}, Effort: schedule.EffortFast}
	for _, c := range []struct {
		name  string
		model func(testing.TB) *graph.Model
		opt   passes.Options
		spoil spoiled
		want  []string
	}{
		{"everything", joined, passes.Options{}, spoiled{func(*plan.Plan) bool { return true }, tooManyTensors}, []string{
			"no valid plan was found: summary: tensors: expected", "; without aliases: ", "; without folded constants: ", "; without in-place results: the same; without views: the same",
		}},
		{"a limit that slices alone meet", imageRows, limited, spoiled{hasSlices, misplaced}, []string{"; without slices: limit of ", "impossible: "}},
		{"slices alone", imageRows, alone, spoiled{hasSlices, misplaced}, []string{"; without slices: what was asked for needs them"}},
		{"swaps alone", swapped, swaps, spoiled{hasSwaps, misplaced}, []string{"; without swaps: what was asked for needs them"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.Passes = broken(c.spoil.plan)
			_, err := passes.Optimize(t.Context(), c.model(t), c.opt)
			var refused *passes.RefusedError
			if !errors.As(err, &refused) || len(refused.Violations) == 0 {
				t.Fatalf("got %v, expected a *RefusedError", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, expected %q", err, want)
				}
			}
		})
	}
}

// TestNotVerified: with NoVerify, and without a pass that makes a plan, nothing is verified.
func TestNotVerified(t *testing.T) {
	r, err := passes.Optimize(t.Context(), joined(t), passes.Options{NoVerify: true, Passes: broken(misplaced)})
	if err != nil {
		t.Fatal(err)
	}
	if _, did := r.Times["verify"]; did || r.GivenUp != nil || verifies(t, r) {
		t.Errorf("given up %v, times %v: expected the plan as it is, which is not valid", r.GivenUp, r.Times)
	}
	r, err = passes.Optimize(t.Context(), joined(t), passes.Options{Passes: passes.Default()[:4]})
	if err != nil || r.Plan != nil {
		t.Errorf("plan %v, %v: expected none", r.Plan, err)
	}
}

func verifies(t *testing.T, r *passes.Result) bool {
	t.Helper()
	report, err := verify.Plan(r.Model, r.Plan, verify.Options{Unwritten: true})
	if err != nil {
		t.Fatal(err)
	}
	return report.Valid
}

// TestVerificationEnds: what ends the context ends the verification, with its cause.
func TestVerificationEnds(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := passes.Optimize(ctx, imageRows(t), passes.Options{Passes: broken(func(*plan.Plan) { cancel(cause) })})
	if !errors.Is(err, cause) {
		t.Errorf("got %v, expected %v", err, cause)
	}
}

// TestVerifiedAgainstOwnPasses: a pass of the caller changes the graph before or after the
// others begin to plan: the plan is compared with what it made, or with nothing.
func TestVerifiedAgainstOwnPasses(t *testing.T) {
	for _, at := range []string{"train", "fold", "share", "order"} {
		r, err := passes.Optimize(t.Context(), twoBranches(t), passes.Options{Passes: before(at, passes.Pass{Name: "own", Run: dropExp})})
		if err != nil || len(r.GivenUp) > 0 || r.Plan.Summary.Nodes != 3 {
			t.Errorf("before %s: %v, given up %v", at, err, r.GivenUp)
		}
	}
}

// TestFoldedElements: elements that are only made when the file is written are compared with
// those of the source, too.
func TestFoldedElements(t *testing.T) {
	const rows, columns = 512, 1024 // larger than what is kept
	transposed := func() *graph.Model {
		b := graph.NewBuilder("transposed", 17)
		x := b.Input("x", graph.TensorOf(graph.Float32, 1, columns))
		b.Output(b.Node("MatMul", "y", x, b.Node("Transpose", "t", weights(b, "w", rows, columns))))
		return model(t, b)
	}
	for _, c := range []struct {
		name string
		made func(elements []byte) []byte
		want int // features given up
	}{
		{"as they are", func(b []byte) []byte { return b }, 0},
		{"another", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, 1},
		{"one less", func(b []byte) []byte { return b[:len(b)-1] }, 1},
		{"one more", func(b []byte) []byte { return append(b, 0) }, 1},
	} {
		changed := false
		change := passes.Pass{Name: "change", Run: func(_ context.Context, s *passes.State) error {
			for _, x := range s.Model().Graph.Tensors {
				if x.Data == nil || x.Data.Generate == nil {
					continue
				}
				d, generate := *x.Data, x.Data.Generate
				d.Generate = func(w io.Writer) error {
					var b bytes.Buffer
					if err := generate(&b); err != nil {
						return err
					}
					_, err := w.Write(c.made(b.Bytes()))
					return err
				}
				x.Data, changed = &d, true
			}
			return nil
		}}
		r, err := passes.Optimize(t.Context(), transposed(), passes.Options{Passes: append(passes.Default(), change)})
		if err != nil {
			t.Fatal(c.name, err)
		}
		if !changed || len(r.GivenUp) != c.want || c.want > 0 && r.GivenUp[0].Code != verify.CodeFolded {
			t.Errorf("%s: changed: %t, given up %v", c.name, changed, r.GivenUp)
		}
	}
}
