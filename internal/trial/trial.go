// Package trial plans random networks with random options, verifies the plans with the
// source, runs them, and compares the runs with those of the network without options. A
// trial depends only on its number.
//
//	options.go  options of the command optimize, drawn and read
//	trial.go    one trial
//	shrink.go   the smallest network and options with the same finding
package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// Trial is a network, as bytes of a file, and the options of its plan.
type Trial struct {
	Name    string
	Model   []byte
	Options []string
	Set     func(*passes.Options) // of what no option says; nil: nothing
}

// New makes the trial of a number.
func New(number uint64) (*Trial, error) {
	n := randmodel.Draw(number)
	model, err := encoded(n.Model)
	if err != nil {
		return nil, err
	}
	t := &Trial{Name: fmt.Sprintf("trial%d", number), Model: model}
	peak := int64(0)
	for k := uint64(0); ; k++ { // until some may stand together
		t.Options = draw(number<<8+k, n)
		if slices.ContainsFunc(t.Options, share.MatchString) {
			if peak == 0 {
				peak = t.peak(n)
			}
			t.Options = settle(t.Options, peak)
		}
		if _, _, err = parse(t.Options); !errors.Is(err, errUsage) || k == 100 {
			return t, nil
		}
	}
}

// peak is that of the plan without options, 1024 if there is none.
func (t *Trial) peak(n *randmodel.Network) int64 {
	m, err := onnx.Parse(t.Name, t.Model)
	if err != nil {
		return 1024
	}
	r, err := passes.Optimize(context.Background(), m, passes.Options{Dims: n.Dims, Effort: schedule.EffortFast, NoVerify: true})
	if err != nil {
		return 1024
	}
	return r.Plan.Summary.PeakBytes
}

func encoded(m *graph.Model) ([]byte, error) {
	im, err := onnx.Encode(m)
	if err != nil {
		return nil, err
	}
	return im.Bytes()
}

// The kinds of results. Those of the first group are no findings.
const (
	Ran     = "ran"      // and agrees
	NoPlan  = "no plan"  // within a limit or in the pools
	Usage   = "usage"    // options that may not stand together
	NoTrain = "no train" // no training step: an operator without a gradient, or nothing to train

	Refused = "refused" // the planner fails
	Invalid = "invalid" // the verifier refuses the plan
	Fault   = "fault"   // the run fails
	Bits    = "bits"    // the planned run differs from a run of the plan in separate storage
	Differs = "differs" // the planned run differs from that of the network without options
	Panic   = "panic"
)

// Result is what came of a trial.
type Result struct {
	Kind    string
	Says    string
	Runs    []Run // with Ran: at each point
	Plan    *plan.Plan
	Planned []byte // the planned file
	Trained bool
	Exact   bool // the results have the bits of the network without options
}

// Finding reports whether something is wrong.
func (r *Result) Finding() bool {
	return r.Kind != Ran && r.Kind != NoPlan && r.Kind != Usage && r.Kind != NoTrain
}

// Run is one run of a planned network.
type Run struct {
	Inputs, Outputs map[string]vm.Value
	// Params are the initial values of a training step.
	Params map[string]vm.Value
}

// Try plans, verifies and runs.
func (t *Trial) Try(ctx context.Context) (r *Result) {
	r = &Result{}
	defer func() {
		if p := recover(); p != nil {
			r.Kind, r.Says = Panic, fmt.Sprintf("%v at %s", p, site(debug.Stack()))
		}
	}()
	set := func(kind string, err error) *Result {
		r.Kind, r.Says = kind, err.Error()
		return r
	}
	f, opt, err := parse(t.Options)
	if err != nil {
		return set(Usage, err)
	}
	if t.Set != nil {
		t.Set(&opt)
	}
	source, err := onnx.Parse(t.Name+".onnx", t.Model)
	if err != nil {
		return set(Refused, err)
	}
	opt.NoVerify = true // else a faulty plan is replaced by one of fewer features
	made, err := passes.Optimize(ctx, source, opt)
	if err != nil {
		kind := refusal(err)
		if kind == Refused && t.beyond(opt) {
			kind = NoPlan
		}
		return set(kind, err)
	}
	r.Trained = f.Train
	planned, err := onnx.Encode(made.Model)
	if err != nil {
		return set(Refused, err)
	}
	name := t.Name + ".planned.onnx"
	made.Plan.Model = plan.ImageOf(name, planned)
	file, err := planned.Bytes()
	if err != nil {
		return set(Refused, err)
	}
	r.Planned = file
	text, err := made.Plan.Marshal()
	if err != nil {
		return set(Refused, err)
	}
	if r.Plan, err = plan.Read(bytes.NewReader(text)); err != nil {
		return set(Invalid, err)
	}
	target, err := onnx.Parse(name, file)
	if err != nil {
		return set(Invalid, err)
	}
	if source, err = onnx.Parse(t.Name+".onnx", t.Model); err != nil {
		return set(Refused, err)
	}
	report, err := verify.Plan(target, r.Plan, verify.Options{Source: source})
	if err != nil {
		return set(Invalid, err)
	}
	if !report.Valid {
		v := report.Violations[0]
		return set(Invalid, fmt.Errorf("%s: %s", v.Code, v.Message))
	}
	if target, err = onnx.Parse(name, file); err != nil {
		return set(Invalid, err)
	}
	p, err := vm.New(target, r.Plan)
	if err != nil {
		return set(Fault, err)
	}
	defer p.Close()
	params := map[string]vm.Value{}
	if made.Step != nil {
		first, err := vm.OpenInitializers(made.Step.Params)
		if err != nil {
			return set(Fault, err)
		}
		for name, v := range first.Values {
			params[name] = v.Clone() // the result is read after the file is closed
		}
		if err := first.Close(); err != nil {
			return set(Fault, err)
		}
	}
	for _, at := range points(r.Plan, f) {
		if err := t.at(ctx, r, p, f, opt, at, params); err != nil {
			return r
		}
	}
	r.Kind = Ran
	return r
}

// beyond reports whether the network has no shapes at the largest lengths of the ranges of opt, as
// a plan needs: it was drawn for other ones, and these may fit no broadcast.
func (t *Trial) beyond(opt passes.Options) bool {
	dims := maps.Clone(opt.Dims)
	for name, text := range opt.Ranges {
		l, err := dimrange.Parse(text)
		if err != nil {
			return false
		}
		if dims == nil {
			dims = map[string]int64{}
		}
		dims[name] = l.High()
	}
	m, err := onnx.Parse(t.Name+".onnx", t.Model)
	if err != nil || len(opt.Ranges) == 0 {
		return false
	}
	_, err = ops.Infer(m, ops.Options{Dims: dims})
	return err != nil
}

// points are the lengths at which a plan runs: nil for one without ranges, else the least
// and the largest of each, and some between.
func points(p *plan.Plan, f *flags) []map[string]int64 {
	if p.Ranges == nil {
		return []map[string]int64{nil}
	}
	_, ranges := f.Dim.Split()
	low, middle, high := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for name, text := range ranges {
		l, err := dimrange.Parse(text)
		if err != nil {
			continue
		}
		low[name], middle[name], high[name] = l.At(0), l.At(l.Count/2), l.High()
	}
	return []map[string]int64{low, middle, high}
}

// at runs a planned network at a point, and the network without options; nil if they agree.
func (t *Trial) at(ctx context.Context, r *Result, p *vm.Program, f *flags, opt passes.Options, at map[string]int64, params map[string]vm.Value) error {
	set := func(kind string, err error) error {
		r.Kind, r.Says = kind, err.Error()
		if at != nil {
			r.Says += fmt.Sprintf(" (at %v)", at)
		}
		return err
	}
	var err error
	if at != nil {
		if p, err = p.At(at); err != nil && r.Plan.Ranges.Refused > 0 {
			return nil
		} else if err != nil {
			return set(Fault, err)
		}
	}
	inputs, err := values(p)
	if err != nil {
		return set(Fault, err)
	}
	given := maps.Clone(inputs)
	for _, s := range p.States() {
		if v, ok := params[s.Name]; ok {
			given[s.Name] = v
		}
	}
	runs := []map[string]vm.Value{given, inputs} // a second run begins with the states of the first
	check, err := p.CheckRun(ctx, runs, vm.Options{Workers: 1, Poison: true})
	if err != nil {
		return set(Fault, err)
	}
	if !check.Identical() {
		return set(Bits, fmt.Errorf("%v", check.First))
	}
	got, err := results(ctx, p, runs, vm.Options{Workers: 1})
	if err != nil {
		return set(Fault, err)
	}
	if opt.KVCapacity > 0 || opt.StatesAuto || len(opt.States) > 0 {
		return nil // the network without options has no states: it takes other inputs
	}
	want, exact, err := t.plain(ctx, f, opt, at, runs)
	if err != nil {
		return set(Fault, fmt.Errorf("without options: %w", err))
	}
	for i := range got {
		for _, name := range slices.Sorted(maps.Keys(want[i])) {
			v, ok := got[i][name]
			if !ok {
				return set(Differs, fmt.Errorf("run %d: no output %q", i, name))
			}
			if what := differ(v, want[i][name], exact, slack(got[i], name)); what != "" {
				return set(Differs, fmt.Errorf("run %d: output %q: %s", i, name, what))
			}
		}
	}
	r.Exact = exact
	r.Runs = append(r.Runs, Run{inputs, got[0], params})
	return nil
}

// plain runs the network without options but for those that say what is computed, every tensor in its own storage. exact: it must
// have the same bits.
func (t *Trial) plain(ctx context.Context, f *flags, opt passes.Options, at map[string]int64, runs []map[string]vm.Value) (out []map[string]vm.Value, exact bool, err error) {
	m, err := onnx.Parse(t.Name+".onnx", t.Model)
	if err != nil {
		return nil, false, err
	}
	plain := passes.Options{Dims: maps.Clone(opt.Dims), Train: opt.Train, Precision: opt.Precision, LoRA: opt.LoRA, Fold: passes.FoldOff, Aliases: passes.AliasesOff, Effort: schedule.EffortFast, NoInplace: true, NoViews: true, NoVerify: true}
	if plain.Dims == nil {
		plain.Dims = map[string]int64{}
	}
	maps.Copy(plain.Dims, at)
	made, err := passes.Optimize(ctx, m, plain)
	if err != nil {
		return nil, false, err
	}
	p, err := vm.New(made.Model, made.Plan)
	if err != nil {
		return nil, false, err
	}
	defer p.Close()
	exact = opt.Fold != passes.FoldAny && (opt.Slices != passes.SlicesAny) && at == nil
	if f.InlineFunctions && opt.LoRA != nil {
		exact = false // the gradient of an adapter's convolution adds up in another order than its function's body
	}
	out, err = results(ctx, p, runs, vm.Options{Workers: 1, Separate: true})
	return out, exact, err
}

// results runs a program and returns what each run returns.
func results(ctx context.Context, p *vm.Program, runs []map[string]vm.Value, opt vm.Options) ([]map[string]vm.Value, error) {
	s, err := p.NewSession(opt)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var list []map[string]vm.Value
	for _, inputs := range runs {
		out, err := s.Run(ctx, inputs)
		if err != nil {
			return nil, err
		}
		for name, v := range out {
			out[name] = v.Clone()
		}
		list = append(list, maps.Clone(out))
	}
	return list, nil
}

// values draws the inputs of a program that are no states.
func values(p *vm.Program) (map[string]vm.Value, error) {
	list := map[string]vm.Value{}
	for i, in := range p.Inputs() {
		if strings.HasPrefix(in.Name, "learning_rate") {
			v, err := vm.Filled(in, learningRate)
			if err != nil {
				return nil, err
			}
			list[in.Name] = v
			continue
		}
		v, err := vm.Random(in, uint64(i)+1)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		r := rand.New(rand.NewPCG(uint64(i), 4))
		switch {
		case v.Type == graph.Bool:
			for k := range v.Data {
				v.Data[k] = byte(r.IntN(2))
			}
		case strings.HasPrefix(in.Name, "trip"):
			v.Data[0] = byte(r.IntN(4))
		case p.KV() != nil && in.Name == p.KV().Index:
			v = vm.Int64s([]int64{1}, v.Shape...)
		case strings.HasPrefix(in.Name, "w"): // weights of recurrent nodes
			reals, _ := v.Reals()
			list := make([]float32, len(reals))
			for k, x := range reals {
				list[k] = float32(x / math.Sqrt(float64(max(v.Shape[len(v.Shape)-1], 1))))
			}
			v = vm.Float32s(list, v.Shape...)
		}
		list[in.Name] = v
	}
	return list, nil
}

// learningRate is that of steps.
const learningRate = 0.01

// tolerance of results that differ in the order of sums, as a part of the largest element.
const tolerance = 1e-4

// slack is how far an element of an output may be off in any case, where sums are in another order.
// Optimizers with moments divide a gradient by its own size, so of one that is nearly zero they make
// a step of the learning rate in whatever direction its rounding errors point. The moments are
// outputs, and show errors of gradients.
func slack(outputs map[string]vm.Value, name string) float64 {
	param, is := strings.CutSuffix(name, ".new")
	if !is {
		return 0
	}
	for other := range outputs {
		if other != name && strings.HasPrefix(other, param+".") && strings.HasSuffix(other, ".new") {
			return 2 * learningRate
		}
	}
	return 0
}

// differ compares two values; "" if they agree. slack is added to the tolerance.
func differ(got, want vm.Value, exact bool, slack float64) string {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("got %v%v, want %v%v", got.Type, got.Shape, want.Type, want.Shape)
	}
	if bytes.Equal(got.Data, want.Data) {
		return ""
	}
	a, _ := got.Reals()
	b, _ := want.Reals()
	largest, worst, at := 1e-4, 0.0, -1 // gradients may vanish but for rounding
	for i := range b {
		if x := math.Abs(b[i]); x > largest && !math.IsInf(x, 0) {
			largest = x
		}
		d := math.Abs(a[i] - b[i])
		if a[i] == b[i] || a[i] != a[i] && b[i] != b[i] {
			continue
		}
		if !(d <= worst) {
			worst, at = d, i
		}
	}
	switch {
	case exact:
		return fmt.Sprintf("other bits, by at most %g of %g", worst, largest)
	case !(worst <= tolerance*largest+slack):
		return fmt.Sprintf("element %d: got %g, want %g", at, a[at], b[at])
	}
	return ""
}

// refusal is the kind of an error of the planner.
func refusal(err error) string {
	var limit *passes.LimitError
	var slow *passes.ExtraError
	var pool *passes.PoolError
	var option *passes.OptionError
	switch {
	case errors.As(err, &limit), errors.As(err, &slow), errors.As(err, &pool):
		return NoPlan
	case errors.As(err, &option):
		return Usage
	}
	text := err.Error()
	if strings.Contains(text, "ONNX Runtime replaces this operator") { // --order default
		return Usage
	}
	if strings.Contains(text, "plan these lengths apart") { // a range within which a body changes
		return NoPlan
	}
	for _, part := range noTrain {
		if strings.Contains(text, part) {
			return NoTrain
		}
	}
	return Refused
}

// noTrain are parts of the messages that say that a network has no training step.
var noTrain = []string{
	"no gradient", "no parameter to train", "training with ranges of dimensions", "cross-entropy over one class", "expected a class axis",
	"expected a fixed shape on a path to the loss", "(sequence_lens) is given",
}

// site is the place of the first frame after a panic that belongs to this module.
func site(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	last := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic(") })
	for i := max(last, 0); i+1 < len(lines); i++ {
		if strings.HasPrefix(lines[i], "github.com/onnxmem/onnxmem/") {
			at, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +0x")
			if k := strings.LastIndex(at, "/"); k >= 0 {
				at = at[k+1:]
			}
			return at
		}
	}
	return "?"
}
