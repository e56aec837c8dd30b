package solvers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"github.com/onnxmem/onnxmem/ilp"
)

// highs has the functions of HiGHS's C interface that we call. Indices are 32 bits: builds
// of HiGHS with 64 bits are refused by sizeofHighsInt.
type highs struct {
	create      func() uintptr
	destroy     func(uintptr)
	version     func() string
	intSize     func(uintptr) int32
	infinity    func(uintptr) float64
	setBool     func(uintptr, string, int32) int32
	setInt      func(uintptr, string, int32) int32
	setDouble   func(uintptr, string, float64) int32
	passMip     func(h uintptr, columns, rows, nonzeros, format, sense int32, offset float64, cost, lower, upper, rowLower, rowUpper, start, index, value, integrality unsafe.Pointer) int32
	setSolution func(h uintptr, columns, rows, columnDual, rowDual unsafe.Pointer) int32
	solution    func(h uintptr, columns, columnDual, rows, rowDual unsafe.Pointer) int32
	run         func(uintptr) int32
	status      func(uintptr) int32
	getInt      func(uintptr, string, unsafe.Pointer) int32
	getDouble   func(uintptr, string, unsafe.Pointer) int32
	setCallback func(h, function, user uintptr) int32
	start       func(h uintptr, kind int32) int32
	item        func(out uintptr, name string) unsafe.Pointer
	reset       func(blocking int32)

	function uintptr // called back by HiGHS
}

// The kinds of callback.
const (
	highsSimplexInterrupt = 1
	highsIPMInterrupt     = 2
	highsMipLogging       = 5
	highsMipInterrupt     = 6
)

func openHiGHS() (ilp.Solver, error) {
	h := &highs{}
	l, err := placeOfHiGHS.open(map[string]any{
		"Highs_create": &h.create, "Highs_destroy": &h.destroy, "Highs_version": &h.version,
		"Highs_getSizeofHighsInt": &h.intSize, "Highs_getInfinity": &h.infinity,
		"Highs_setBoolOptionValue": &h.setBool, "Highs_setIntOptionValue": &h.setInt, "Highs_setDoubleOptionValue": &h.setDouble,
		"Highs_passMip": &h.passMip, "Highs_setSolution": &h.setSolution, "Highs_getSolution": &h.solution,
		"Highs_run": &h.run, "Highs_getModelStatus": &h.status,
		"Highs_getIntInfoValue": &h.getInt, "Highs_getDoubleInfoValue": &h.getDouble,
		"Highs_setCallback": &h.setCallback, "Highs_startCallback": &h.start, "Highs_getCallbackDataOutItem": &h.item,
		"Highs_resetGlobalScheduler": &h.reset,
	})
	if err != nil {
		return nil, err
	}
	h.function = callback(highsCalls)
	x := h.create()
	size := h.intSize(x)
	h.destroy(x)
	if size != 4 {
		return nil, fmt.Errorf("HiGHS %w: %s has integers of %d bytes, expected 4", ErrMissing, l.path, size)
	}
	return h, nil
}

// highsRun is a run that HiGHS calls back.
type highsRun struct {
	h        *highs
	ctx      context.Context
	progress func(ilp.Progress)
	last     [2]float64 // the bounds told last
}

// highsRuns has the present run, by its number. There is one: HiGHS's threads are shared by
// all of a process.
var highsRuns struct {
	running sync.Mutex
	sync.Mutex
	now *highsRun
}

// highsCalls is called by HiGHS: to tell its bounds, and to ask whether it shall end.
func highsCalls(kind int32, _, out, in, _ uintptr) {
	highsRuns.Lock()
	r := highsRuns.now
	highsRuns.Unlock()
	if r == nil {
		return
	}
	if r.ctx.Err() != nil && in != 0 {
		*(*int32)(pointer(in)) = 1 // user_interrupt, its first field
	}
	if kind != highsMipLogging && kind != highsMipInterrupt || r.progress == nil || out == 0 {
		return
	}
	value, bound := r.h.item(out, "mip_primal_bound"), r.h.item(out, "mip_dual_bound")
	if value == nil || bound == nil {
		return
	}
	now := [2]float64{*(*float64)(value), *(*float64)(bound)}
	if now == r.last {
		return
	}
	r.last = now
	r.progress(ilp.Progress{Value: integer(now[0], math.Round), Bound: integer(now[1], math.Ceil)})
}

// pointer makes a pointer of an address in C's memory.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// integer rounds a bound; nil if it is infinite.
func integer(x float64, round func(float64) float64) *int64 {
	if !(math.Abs(x) < 1e18) {
		return nil
	}
	v := int64(round(x - 1e-6))
	return &v
}

var errTooLarge = errors.New("expected numbers of at most 2^53 for a solver in floating point")

func (h *highs) Identity() (name, version string) { return "highs", h.version() }

// Solve passes the program in memory, row by row.
func (h *highs) Solve(ctx context.Context, p *ilp.Program, opt ilp.Options) (ilp.Answer, error) {
	highsRuns.running.Lock()
	defer highsRuns.running.Unlock()
	x := h.create()
	defer h.destroy(x)
	answer := ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1)}
	threads := opt.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	h.reset(1) // else the number of threads of the first run is kept
	for _, failed := range []int32{
		h.setBool(x, "output_flag", 0),
		h.setInt(x, "threads", int32(threads)),
		h.setDouble(x, "mip_rel_gap", 0), // it is 0.0001 by default
		h.setDouble(x, "mip_abs_gap", 1e-6),
	} {
		if failed < 0 {
			return answer, errors.New("an option is refused")
		}
	}
	m, err := newMatrix(p, h.infinity(x))
	if err != nil {
		return answer, err
	}
	if h.passMip(x, int32(len(p.Columns)), int32(len(p.Rows)), int32(len(m.index)), 2, 1, 0, // rows, smallest
		first(m.cost), first(m.lower), first(m.upper), first(m.rowLower), first(m.rowUpper),
		first(m.start), first(m.index), first(m.value), first(m.integer)) < 0 {
		return answer, errors.New("the program is refused")
	}
	if opt.Start != nil {
		start := make([]float64, len(opt.Start))
		for i, v := range opt.Start {
			start[i] = float64(v)
		}
		if h.setSolution(x, first(start), nil, nil, nil) < 0 {
			return answer, errors.New("the solution to start with is refused")
		}
	}
	setNow := func(r *highsRun) {
		highsRuns.Lock()
		highsRuns.now = r
		highsRuns.Unlock()
	}
	setNow(&highsRun{h: h, ctx: ctx, progress: opt.Progress})
	defer setNow(nil)
	h.setCallback(x, h.function, 0)
	for _, kind := range []int32{highsSimplexInterrupt, highsIPMInterrupt, highsMipLogging, highsMipInterrupt} {
		h.start(x, kind)
	}
	if limit := untilDeadline(ctx); limit >= 0 {
		h.setDouble(x, "time_limit", limit)
	}
	if h.run(x) < 0 && ctx.Err() == nil {
		return answer, fmt.Errorf("the run failed with status %d", h.status(x))
	}
	return h.answer(x, answer, len(p.Columns))
}

// The statuses of a model that we tell apart.
const (
	highsOptimal    = 7
	highsInfeasible = 8
)

func (h *highs) answer(x uintptr, answer ilp.Answer, columns int) (ilp.Answer, error) {
	var found int32
	if h.getInt(x, "primal_solution_status", unsafe.Pointer(&found)) == 0 && found == 2 { // feasible
		answer.Status, answer.Values = ilp.Feasible, make([]float64, columns)
		h.solution(x, first(answer.Values), nil, nil, nil)
		h.getDouble(x, "objective_function_value", unsafe.Pointer(&answer.Value))
	}
	var bound float64
	if h.getDouble(x, "mip_dual_bound", unsafe.Pointer(&bound)) == 0 && !math.IsInf(bound, 0) {
		answer.Bound = bound
	}
	switch h.status(x) {
	case highsOptimal:
		answer.Status = ilp.Optimal
	case highsInfeasible:
		answer.Status, answer.Values = ilp.Infeasible, nil
	default:
		answer.Ended = true
	}
	return answer, nil
}

// first is the address of a slice's elements; nil if it has none.
func first[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }
