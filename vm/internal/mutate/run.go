package mutate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// Stage says how far a mutant got.
type Stage string

// The stages. A mutant can be refused at each of the first four.
const (
	Read     Stage = "read"     // the model as a file
	Planned  Stage = "planned"  // its plan
	Prepared Stage = "prepared" // a session
	Started  Stage = "started"  // its run
	Ran      Stage = "ran"
)

// Result is the result of a mutant.
type Result struct {
	Stage   Stage // the stage at which it was refused, or Ran
	Refusal error
	Finding string // the fault, as "class: details"; "" if there is none
	Outputs map[string]vm.Value
	OnHost  int // nodes of a session on a device that run on the host
	// Work is the floating-point operations of a step's products and convolutions, as far as
	// shapes are known before it runs. A device cannot end a kernel that takes long. Pools are
	// not counted, for they pass over padding.
	Work float64
}

// patience is how long a mutant may take. Mutants are small, so one that takes
// longer causes work out of proportion to its size. On a busy machine a single try
// may take that long; the shortest of three tries counts.
const (
	patience = 10 * time.Second
	tries    = 3
)

// A mutant that needs more memory or time is refused.
const (
	mostBytes = 1 << 29
	mostTime  = 2 * time.Second
)

// options returns the options of a mutant's session. Half of the mutants have the
// inaccessible page before each tensor, which catches accesses below its start; the
// others have it after.
func options(c *Case) vm.Options {
	return vm.Options{Workers: 1, MemoryLimit: mostBytes, Guard: vm.GuardEnd + vm.Guard(hash(c.Name)%2)}
}

// Run plans a mutant and runs it.
func Run(c *Case) *Result {
	var r *Result
	for range tries {
		done := make(chan *Result, 1)
		began := time.Now()
		go func() { done <- RunWith(c, options(c), 1) }()
		select {
		case r = <-done:
		case <-time.After(4 * patience):
			return &Result{Stage: Started, Finding: "hang: gave up waiting"}
		}
		took := time.Since(began)
		if took <= patience || r.Finding != "" {
			return r
		}
		r.Finding = fmt.Sprintf("slow: %v", took.Round(time.Second))
	}
	return r
}

// RunWith plans a mutant and runs some steps in a session with the given options. It does
// not give up waiting.
func RunWith(c *Case, opt vm.Options, steps int) (r *Result) {
	r = &Result{Stage: Read}
	defer func() {
		if p := recover(); p != nil {
			r.Finding = fmt.Sprintf("panic: %v at %s", p, site(debug.Stack()))
		}
	}()
	refused := func(err error) *Result {
		r.Refusal = err
		if text := err.Error(); strings.Contains(text, "internal error") || strings.Contains(text, "runtime error") {
			r.Finding = "internal error: " + text
		} else if errors.Is(err, vm.ErrStray) || errors.Is(err, vm.ErrFault) {
			r.Finding = "fault: " + text
		}
		return r
	}
	p, err := c.program(r)
	if errors.Is(err, errOwnPlan) {
		r.Finding = err.Error()
		return r
	}
	if err != nil {
		return refused(err)
	}
	defer p.Close()
	r.Stage = Prepared
	s, err := p.NewSession(opt)
	if err != nil {
		return refused(err)
	}
	defer s.Close()
	if opt.Device != nil {
		r.OnHost = s.DeviceUse().FallbackNodes
	}
	r.Stage = Started
	ctx, end := context.WithTimeout(context.Background(), mostTime)
	defer end()
	out, err := s.Run(ctx, c.Inputs)
	for n := 1; err == nil && n < steps; n++ {
		out, err = s.Run(ctx, c.Inputs)
	}
	if err != nil {
		return refused(err)
	}
	r.Stage, r.Outputs = Ran, map[string]vm.Value{}
	for name, v := range out {
		r.Outputs[name] = v.Clone()
	}
	return r
}

// errOwnPlan is wrapped by the error of a plan that is refused after we made it.
var errOwnPlan = errors.New("plan: its own plan is refused")

// program reads and plans a mutant. r gets how far it got, and its work.
func (c *Case) program(r *Result) (*vm.Program, error) {
	r.Stage = Read
	m, err := onnx.Parse(c.Name, c.Model)
	if err != nil {
		return nil, err
	}
	r.Stage = Planned
	o, err := passes.Optimize(context.Background(), m, passes.Options{Effort: schedule.EffortFast})
	if err != nil {
		return nil, err
	}
	p, err := vm.New(o.Model, o.Plan)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOwnPlan, err)
	}
	for _, n := range o.Model.Graph.Nodes {
		if w := cost.Whole(o.Model.Graph, n); w.Rows > 0 {
			r.Work += w.FLOPs
		}
	}
	return p, nil
}

// Wrong runs a mutant in a session with the given options and holds its nodes against the
// plain evaluator. It returns what is wrong; "" if nothing is, or nothing can be compared.
func Wrong(c *Case, opt vm.Options) string {
	p, err := c.program(new(Result))
	if err != nil {
		return err.Error()
	}
	defer p.Close()
	r, err := p.CheckReference(context.Background(), []map[string]vm.Value{c.Inputs}, opt)
	switch {
	case err != nil:
		return err.Error()
	case r.First != nil:
		return r.First.Error()
	case len(r.Uncompared) > 0:
		return fmt.Sprintf("not compared: %v", r.Reasons)
	}
	return ""
}

// site returns the place of the first frame after the panic in a stack that
// belongs to this module.
func site(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	last := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic(") })
	for i := max(last, 0); i+1 < len(lines); i++ {
		if strings.HasPrefix(lines[i], "github.com/onnxmem/onnxmem/") && !strings.Contains(lines[i], "Prepare.func") {
			at, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +0x")
			if k := strings.LastIndex(at, "/"); k >= 0 {
				at = at[k+1:]
			}
			return at
		}
	}
	return "?"
}

// Summary counts results.
type Summary struct {
	Total    int
	Stages   map[Stage]int
	Findings map[string][]string // by class: the names of mutants
	Texts    map[string]string   // by class: the first finding
}

// Add counts one result.
func (s *Summary) Add(c *Case, r *Result) {
	if s.Stages == nil {
		s.Stages, s.Findings, s.Texts = map[Stage]int{}, map[string][]string{}, map[string]string{}
	}
	s.Total++
	s.Stages[r.Stage]++
	if r.Finding == "" {
		return
	}
	key := class(r)
	if s.Findings[key] = append(s.Findings[key], c.Name); len(s.Findings[key]) == 1 {
		s.Texts[key] = fmt.Sprintf("%s: %s (%s)", c.Name, r.Finding, strings.Join(c.Edits, "; "))
	}
}

// class returns the text that findings with the same cause share: the operator and
// the site, without numbers.
func class(r *Result) string {
	text := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return '#'
		}
		return c
	}, r.Finding)
	for strings.Contains(text, "##") {
		text = strings.ReplaceAll(text, "##", "#")
	}
	if i := strings.Index(text, "("); i >= 0 && strings.Contains(text, "internal error") {
		text = text[i:] // from the operator on
	}
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	if strings.HasPrefix(r.Finding, "panic") {
		text = r.Finding
	}
	return text[:min(len(text), 160)]
}

// Merge adds the counts of another summary.
func (s *Summary) Merge(o *Summary) {
	if s.Stages == nil {
		s.Stages, s.Findings, s.Texts = map[Stage]int{}, map[string][]string{}, map[string]string{}
	}
	s.Total += o.Total
	for k, n := range o.Stages {
		s.Stages[k] += n
	}
	for k, names := range o.Findings {
		if len(s.Findings[k]) == 0 {
			s.Texts[k] = o.Texts[k]
		}
		s.Findings[k] = append(s.Findings[k], names...)
	}
}

// String returns a table: the stages, then the classes of findings, the most
// frequent first.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d mutants:", s.Total)
	for _, st := range []Stage{Read, Planned, Prepared, Started, Ran} {
		what := "refused when"
		if st == Ran {
			what = ""
		}
		fmt.Fprintf(&b, " %s %s %d", what, st, s.Stages[st])
	}
	b.WriteByte('\n')
	keys := slices.SortedFunc(maps.Keys(s.Findings), func(x, y string) int {
		if d := len(s.Findings[y]) - len(s.Findings[x]); d != 0 {
			return d
		}
		return strings.Compare(x, y)
	})
	for _, k := range keys {
		fmt.Fprintf(&b, "%6d  %s\n        first: %s\n", len(s.Findings[k]), k, s.Texts[k])
	}
	return b.String()
}
