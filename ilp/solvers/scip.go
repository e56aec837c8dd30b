package solvers

import (
	"context"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/onnxmem/onnxmem/ilp"
)

// scip has the functions of SCIP's C interface that we call. Those that return an int32 say
// by 1 that all is well. It works on one thread.
type scip struct {
	create     func(scip unsafe.Pointer) int32
	free       func(scip unsafe.Pointer) int32
	plugins    func(scip uintptr) int32
	quiet      func(scip uintptr, quiet uint32)
	major      func() int32
	minor      func() int32
	patch      func() int32
	infinity   func(scip uintptr) float64
	problem    func(scip uintptr, name string) int32
	newVar     func(scip uintptr, variable unsafe.Pointer, name string, lower, upper, objective float64, kind int32) int32
	addVar     func(scip, variable uintptr) int32
	releaseVar func(scip uintptr, variable unsafe.Pointer) int32
	newRow     func(scip uintptr, row unsafe.Pointer, name string, n int32, variables, values unsafe.Pointer, lower, upper float64) int32
	addRow     func(scip, row uintptr) int32
	releaseRow func(scip uintptr, row unsafe.Pointer) int32
	setReal    func(scip uintptr, name string, value float64) int32
	setBool    func(scip uintptr, name string, value uint32) int32
	newStart   func(scip uintptr, solution unsafe.Pointer, heuristic uintptr) int32
	setValues  func(scip, solution uintptr, n int32, variables, values unsafe.Pointer) int32
	addStart   func(scip uintptr, solution, stored unsafe.Pointer) int32
	solve      func(scip uintptr) int32
	interrupt  func(scip uintptr) int32
	best       func(scip uintptr) uintptr
	values     func(scip, solution uintptr, n int32, variables, values unsafe.Pointer) int32
	primal     func(scip uintptr) float64
	dual       func(scip uintptr) float64

	transform func(scip uintptr) int32
	newEvents func(scip uintptr, handler unsafe.Pointer, name, description string, do, data uintptr) int32
	catch     func(scip uintptr, kind uint64, handler, data uintptr, position unsafe.Pointer) int32

	function uintptr // called by SCIP
}

// scipGapUpdated is the events of a better solution and of a better bound, as SCIP 10 numbers
// them. The numbers of earlier versions differ: those tell nothing while they work.
const (
	scipGapUpdated      = 1<<28 | 1<<24
	scipGapUpdatedSince = 10
)

// scipRun is a run that SCIP calls.
type scipRun struct {
	s        *scip
	progress func(ilp.Progress)
}

// scipRuns has the runs under way, by their addresses.
var scipRuns sync.Map

// scipCalls is called by SCIP when a bound is better.
func scipCalls(x, _, _, _ uintptr) int32 {
	if v, ok := scipRuns.Load(x); ok {
		r := v.(scipRun)
		r.progress(ilp.Progress{Value: integer(r.s.primal(x), math.Round), Bound: integer(r.s.dual(x), math.Ceil)})
	}
	return 1
}

// follow has SCIP call when a bound is better.
func (s *scip) follow(x uintptr, progress func(ilp.Progress)) error {
	if s.major() < scipGapUpdatedSince {
		return nil
	}
	var handler uintptr
	for _, code := range []int32{
		s.newEvents(x, unsafe.Pointer(&handler), "onnxmem", "tells of better bounds", s.function, 0),
		s.transform(x), // events can be caught from here on
		s.catch(x, scipGapUpdated, handler, 0, nil),
	} {
		if code != 1 {
			return fmt.Errorf("events failed with code %d", code)
		}
	}
	scipRuns.Store(x, scipRun{s, progress})
	return nil
}

func openSCIP() (ilp.Solver, error) {
	s := &scip{}
	_, err := placeOfSCIP.open(map[string]any{
		"SCIPcreate": &s.create, "SCIPfree": &s.free, "SCIPincludeDefaultPlugins": &s.plugins, "SCIPsetMessagehdlrQuiet": &s.quiet,
		"SCIPmajorVersion": &s.major, "SCIPminorVersion": &s.minor, "SCIPtechVersion": &s.patch, "SCIPinfinity": &s.infinity,
		"SCIPcreateProbBasic": &s.problem, "SCIPcreateVarBasic": &s.newVar, "SCIPaddVar": &s.addVar, "SCIPreleaseVar": &s.releaseVar,
		"SCIPcreateConsBasicLinear": &s.newRow, "SCIPaddCons": &s.addRow, "SCIPreleaseCons": &s.releaseRow,
		"SCIPsetRealParam": &s.setReal, "SCIPsetBoolParam": &s.setBool,
		"SCIPcreateSol": &s.newStart, "SCIPsetSolVals": &s.setValues, "SCIPaddSolFree": &s.addStart,
		"SCIPsolve": &s.solve, "SCIPinterruptSolve": &s.interrupt, "SCIPgetBestSol": &s.best, "SCIPgetSolVals": &s.values,
		"SCIPgetPrimalbound": &s.primal, "SCIPgetDualbound": &s.dual,
		"SCIPtransformProb": &s.transform, "SCIPincludeEventhdlrBasic": &s.newEvents, "SCIPcatchEvent": &s.catch,
	})
	if err != nil {
		return nil, err
	}
	s.function = callback(scipCalls)
	return s, nil
}

func (s *scip) Identity() (name, version string) {
	return "scip", fmt.Sprintf("%d.%d.%d", s.major(), s.minor(), s.patch())
}

// The kinds of variables.
const (
	scipInteger    = 1
	scipContinuous = 3
)

// Solve passes the program column by column and row by row.
func (s *scip) Solve(ctx context.Context, p *ilp.Program, opt ilp.Options) (answer ilp.Answer, err error) {
	answer = ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1)}
	var x uintptr
	ok := func(what string, code int32) {
		if code != 1 && err == nil {
			err = fmt.Errorf("%s failed with code %d", what, code)
		}
	}
	ok("create", s.create(unsafe.Pointer(&x)))
	if err != nil {
		return answer, err
	}
	defer func() { s.free(unsafe.Pointer(&x)) }()
	s.quiet(x, 1)
	ok("plugins", s.plugins(x))
	ok("problem", s.problem(x, p.Name))
	ok("misc/catchctrlc", s.setBool(x, "misc/catchctrlc", 0)) // signals are ours
	if limit := untilDeadline(ctx); limit >= 0 {
		ok("limits/time", s.setReal(x, "limits/time", limit))
	}
	m, err2 := newMatrix(p, s.infinity(x))
	if err2 != nil {
		return answer, err2
	}
	variables := make([]uintptr, len(p.Columns))
	defer func() {
		for i := range variables {
			if variables[i] != 0 {
				s.releaseVar(x, unsafe.Pointer(&variables[i]))
			}
		}
	}()
	for i, c := range p.Columns {
		kind := int32(scipContinuous)
		if c.Integer {
			kind = scipInteger
		}
		ok("column "+c.Name, s.newVar(x, unsafe.Pointer(&variables[i]), c.Name, m.lower[i], m.upper[i], m.cost[i], kind))
		ok("column "+c.Name, s.addVar(x, variables[i]))
	}
	for i, r := range p.Rows {
		from, to := m.start[i], m.start[i+1]
		of := make([]uintptr, to-from)
		for k, column := range m.index[from:to] {
			of[k] = variables[column]
		}
		var row uintptr
		ok("row "+r.Name, s.newRow(x, unsafe.Pointer(&row), r.Name, to-from, first(of), first(m.value[from:to]), m.rowLower[i], m.rowUpper[i]))
		ok("row "+r.Name, s.addRow(x, row))
		if row != 0 {
			s.releaseRow(x, unsafe.Pointer(&row))
		}
	}
	if opt.Start != nil {
		values := make([]float64, len(opt.Start))
		for i, v := range opt.Start {
			values[i] = float64(v)
		}
		var start uintptr
		var stored uint32
		ok("start", s.newStart(x, unsafe.Pointer(&start), 0))
		ok("start", s.setValues(x, start, int32(len(values)), first(variables), first(values)))
		ok("start", s.addStart(x, unsafe.Pointer(&start), unsafe.Pointer(&stored)))
	}
	if err != nil || ctx.Err() != nil {
		answer.Ended = true
		return answer, err
	}
	if opt.Progress != nil {
		if err := s.follow(x, opt.Progress); err != nil {
			return answer, err
		}
		defer scipRuns.Delete(x)
	}
	end := atEnd(ctx, func() { s.interrupt(x) })
	ok("solve", s.solve(x))
	answer.Ended = end()
	if err != nil {
		return answer, err
	}
	return s.answer(x, answer, variables)
}

// answer reads the result. The numbers of SCIP's statuses differ from version to version,
// so that the two bounds say what it found: they meet at the optimum, and both are
// infinite if there is no solution.
func (s *scip) answer(x uintptr, answer ilp.Answer, variables []uintptr) (ilp.Answer, error) {
	infinity := s.infinity(x)
	value, bound := s.primal(x), s.dual(x)
	if best := s.best(x); best != 0 {
		answer.Status, answer.Values, answer.Value = ilp.Feasible, make([]float64, len(variables)), value
		s.values(x, best, int32(len(variables)), first(variables), first(answer.Values))
	}
	switch {
	case answer.Values == nil && bound >= infinity:
		answer.Status = ilp.Infeasible
	case math.Abs(bound) < infinity:
		answer.Bound = bound
		if answer.Values != nil && bound >= value-1e-6 {
			answer.Status = ilp.Optimal
		}
	}
	answer.Ended = answer.Ended || answer.Status == ilp.Feasible || answer.Status == ilp.Unknown
	return answer, nil
}
