package solvers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/ilptest"
)

// TestMain lets the test serve solvers, as a program does that calls Process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ProcessArg {
		for name, do := range fakes {
			open[name] = func() (ilp.Solver, error) { return fake{name, do}, nil }
		}
		open["absent"] = func() (ilp.Solver, error) { return nil, fmt.Errorf("Absent %w: install it", ErrMissing) }
		os.Exit(Serve(os.Stdin, os.Args[2:]))
	}
	os.Exit(m.Run())
}

type fake struct {
	name string
	do   func(context.Context, *ilp.Program, ilp.Options) (ilp.Answer, error)
}

func (f fake) Identity() (name, version string) { return f.name, "1.0" }

func (f fake) Solve(ctx context.Context, p *ilp.Program, opt ilp.Options) (ilp.Answer, error) {
	return f.do(ctx, p, opt)
}

var fakes = map[string]func(context.Context, *ilp.Program, ilp.Options) (ilp.Answer, error){
	"honest": func(_ context.Context, p *ilp.Program, opt ilp.Options) (ilp.Answer, error) {
		value, x, _ := ilptest.Minimum(p, 1<<20)
		if opt.Progress != nil {
			zero := int64(0)
			opt.Progress(ilp.Progress{Value: &value, Bound: &zero})
		}
		a := ilp.Answer{Status: ilp.Optimal, Value: float64(value), Bound: float64(value)}
		for _, v := range x {
			a.Values = append(a.Values, float64(v))
		}
		return a, nil
	},
	"refuses": func(context.Context, *ilp.Program, ilp.Options) (ilp.Answer, error) {
		return ilp.Answer{}, errors.New("the program is refused")
	},
	"patient": func(ctx context.Context, _ *ilp.Program, _ ilp.Options) (ilp.Answer, error) {
		<-ctx.Done()
		return ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1), Ended: true}, nil
	},
	"deaf": func(context.Context, *ilp.Program, ilp.Options) (ilp.Answer, error) { select {} },
	"crashes": func(context.Context, *ilp.Program, ilp.Options) (ilp.Answer, error) {
		fmt.Fprintln(os.Stderr, "SIGSEGV: segmentation violation\nmore")
		os.Exit(2)
		return ilp.Answer{}, nil
	},
}

// inProcess starts this test as the process of a solver.
func inProcess(t *testing.T, name string) ilp.Solver {
	t.Helper()
	if !opensLibraries {
		t.Skip(errBuild)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Process(self, name)
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestProcess(t *testing.T) {
	s := inProcess(t, "honest")
	for range 2 { // it answers more than one question
		var told []ilp.Progress
		r, err := ilp.Solve(t.Context(), s, knapsack(), ilp.Options{Progress: func(x ilp.Progress) { told = append(told, x) }})
		if err != nil || r.Status != ilp.Optimal || r.Value != 17 {
			t.Fatalf("expected the optimum 17, found %+v, %v", r, err)
		}
		if len(told) != 1 || told[0].Value == nil || *told[0].Value != 17 || told[0].Bound == nil || *told[0].Bound != 0 {
			t.Fatalf("expected the value 17 and the bound 0, found %+v", told)
		}
	}
	if name, version := s.Identity(); name != "honest" || version != "1.0" {
		t.Errorf("found %s %s", name, version)
	}
	if _, err := ilp.Solve(t.Context(), inProcess(t, "refuses"), knapsack(), ilp.Options{}); err == nil || !strings.Contains(err.Error(), "refuses 1.0: the program is refused") {
		t.Errorf("found %v", err)
	}
}

// TestProcessEnds: a process ends with the context, or is killed; then another is started.
func TestProcessEnds(t *testing.T) {
	for _, name := range []string{"patient", "deaf"} {
		s := inProcess(t, name)
		s.(*process).grace = time.Millisecond
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r, err := ilp.Solve(ctx, s, knapsack(), ilp.Options{Start: []int64{0, 0, 9}})
			if err != nil || r.Status != ilp.Feasible || !r.Ended {
				t.Errorf("%s: expected the start, found %+v, %v", name, r, err)
			}
		}
	}
}

// TestProcessCrashes: the error of a process that ends tells its first message.
func TestProcessCrashes(t *testing.T) {
	_, err := ilp.Solve(t.Context(), inProcess(t, "crashes"), knapsack(), ilp.Options{})
	if !errors.Is(err, ilp.ErrLost) || !strings.Contains(err.Error(), "crashes 1.0: its process ended without an answer (exit status 2: SIGSEGV: segmentation violation)") {
		t.Errorf("found %v", err)
	}
	self, _ := os.Executable()
	if _, err := Process(self, "absent"); !errors.Is(err, ErrMissing) || err.Error() != "Absent not found: install it" {
		t.Errorf("found %v", err)
	}
	if _, err := Process(self, "gurobi"); err == nil || errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), `solver "gurobi": unknown`) {
		t.Errorf("found %v", err)
	}
}

// TestProcessTells: each solver tells its bounds while it works.
func TestProcessTells(t *testing.T) {
	for _, name := range Names {
		t.Run(name, func(t *testing.T) {
			s := inProcess(t, name)
			var told struct {
				sync.Mutex
				value, bound bool
			}
			r, err := ilp.Solve(t.Context(), s, market(), ilp.Options{Threads: 1, Progress: func(x ilp.Progress) {
				told.Lock()
				defer told.Unlock()
				told.value, told.bound = told.value || x.Value != nil, told.bound || x.Bound != nil
			}})
			if err != nil || r.Status != ilp.Optimal {
				t.Fatalf("found %+v, %v", r, err)
			}
			told.Lock()
			defer told.Unlock()
			if !told.value || !told.bound {
				t.Errorf("expected a value and a bound, found %v and %v", told.value, told.bound)
			}
		})
	}
}

// market is a program that no presolve decides: three rows split at random, as closely as
// possible.
func market() *ilp.Program {
	p := &ilp.Program{Name: "market"}
	x := uint32(7)
	rows := make([]ilp.Row, 3)
	for i := range 18 {
		p.Add(ilp.Column{Name: fmt.Sprintf("x%d", i), Upper: 1, Integer: true})
		for k := range rows {
			x = x*1664525 + 1013904223
			rows[k].Terms = append(rows[k].Terms, ilp.Term{Column: i, Coefficient: int64(x >> 25)})
			rows[k].Lower += int64(x >> 26)
		}
	}
	for k := range rows {
		rows[k].Name, rows[k].Upper = fmt.Sprintf("row%d", k), rows[k].Lower
		for _, sign := range []int64{1, -1} {
			over := p.Add(ilp.Column{Name: fmt.Sprintf("over%d_%d", k, sign+1), Upper: 1 << 20, Integer: true, Objective: 1})
			rows[k].Terms = append(rows[k].Terms, ilp.Term{Column: over, Coefficient: sign})
		}
	}
	p.Rows = rows
	return p
}

func TestCPLog(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for _, c := range []struct {
		line         string
		value, bound *int64
	}{
		{"#Bound   0.01s best:inf   next:[46209,226591] default_lp", nil, n(46209)},
		{"#2       0.01s best:52649 next:[46288,52648] rnd_var_lns (d=5.00e-01 s=2)", n(52649), n(46288)},
		{"#11   1.2e+02s best:-7 next:[-9,-8] x", n(-7), n(-9)},
		{"#3 0.01s best:5.05134347e+10 next:[4.62889807e+10,5.05134347e+10] x", n(50513435206), n(46288980237)},
		{"#Done    0.02s default_lp", nil, nil},
		{"#Model   0.02s var:32/40 constraints:12/19", nil, nil},
		{"#1 0.01s best: next:[", nil, nil},
	} {
		x := cpProgress(c.line)
		for _, v := range []struct {
			what      string
			got, want *int64
		}{{"value", x.Value, c.value}, {"bound", x.Bound, c.bound}} {
			if (v.got == nil) != (v.want == nil) || v.got != nil && *v.got != *v.want {
				t.Errorf("%s: %s: found %s, expected %s", c.line, v.what, text(v.got), text(v.want))
			}
		}
	}
}

func text(v *int64) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}
