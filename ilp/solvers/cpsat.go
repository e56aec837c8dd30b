package solvers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/ilp"
)

// cpsat has the functions of OR-tools' C interface to CP-SAT: messages go in and out as
// bytes.
type cpsat struct {
	newEnvironment     func() uintptr
	destroyEnvironment func(uintptr)
	stop               func(environment uintptr)
	solve              func(environment uintptr, model unsafe.Pointer, modelBytes int32, parameters unsafe.Pointer, parametersBytes int32, response, responseBytes unsafe.Pointer)
	free               func(uintptr)

	major, minor, patch func() int32
	version             string

	log bool // its log goes to standard output, which is its own (see Process)
}

func openCPSAT() (ilp.Solver, error) {
	c := &cpsat{}
	_, err := placeOfORTools.open(map[string]any{
		"SolveCpNewEnv": &c.newEnvironment, "SolveCpDestroyEnv": &c.destroyEnvironment,
		"SolveCpStopSearch": &c.stop, "SolveCpInterruptible": &c.solve, "free": &c.free,
		// C++ functions without arguments: there are none in C that tell the version.
		"_ZN19operations_research19OrToolsMajorVersionEv": &c.major,
		"_ZN19operations_research19OrToolsMinorVersionEv": &c.minor,
		"_ZN19operations_research19OrToolsPatchVersionEv": &c.patch,
	})
	if err != nil {
		return nil, err
	}
	c.version = fmt.Sprintf("%d.%d.%d", c.major(), c.minor(), c.patch())
	return c, nil
}

func (c *cpsat) Identity() (name, version string) { return "cp-sat", c.version }

func (c *cpsat) Solve(ctx context.Context, p *ilp.Program, opt ilp.Options) (ilp.Answer, error) {
	var model bytes.Buffer
	if err := p.WriteCPSAT(&model, opt.Start); err != nil {
		return ilp.Answer{}, err
	}
	return c.run(ctx, model.Bytes(), opt)
}

// SolvePacking returns offsets, which are variables in units of their alignments; the last
// variable is the arena.
func (c *cpsat) SolvePacking(ctx context.Context, p *ilp.Packing, opt ilp.Options) (ilp.Answer, error) {
	var model bytes.Buffer
	if err := p.WriteCPSAT(&model, opt.Start); err != nil {
		return ilp.Answer{}, err
	}
	a, err := c.run(ctx, model.Bytes(), opt)
	if a.Values != nil {
		a.Values = a.Values[:len(p.Rectangles)]
		for i, r := range p.Rectangles {
			a.Values[i] *= float64(r.Align)
		}
	}
	return a, err
}

// run solves a serialized model.
func (c *cpsat) run(ctx context.Context, model []byte, opt ilp.Options) (ilp.Answer, error) {
	answer := ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1)}
	threads := opt.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	parameters := cpParameters(threads, untilDeadline(ctx), c.log && opt.Progress != nil)
	environment := c.newEnvironment()
	defer c.destroyEnvironment(environment)
	defer atEnd(ctx, func() { c.stop(environment) })()
	var response uintptr
	var length int32
	if len(model) > math.MaxInt32 {
		return answer, errors.New("the program exceeds 2 GiB")
	}
	c.solve(environment, first(model), int32(len(model)), first(parameters), int32(len(parameters)), unsafe.Pointer(&response), unsafe.Pointer(&length))
	runtime.KeepAlive(model)
	runtime.KeepAlive(parameters)
	if response == 0 {
		return answer, errors.New("no answer")
	}
	defer c.free(response)
	return cpAnswer(unsafe.Slice((*byte)(pointer(response)), length))
}

// cpParameters is a SatParameters. The limit is in seconds; below 0: none. The log goes to
// standard output.
//
// MIPs that OR-tools itself turns into its model cut columns to mip_max_bound, 1e7 by
// default, and are then infeasible where bytes are larger. The model here is CP-SAT's own:
// its columns keep their bounds.
func cpParameters(threads int, limit float64, log bool) (b []byte) {
	b = number(b, 206, int64(threads)) // num_workers
	if log {
		b = number(b, 41, 1) // log_search_progress
	}
	b = number(b, 135, 0) // catch_sigint_signal: signals are ours
	if limit >= 0 {
		b = protowire.AppendTag(b, 36, protowire.Fixed64Type) // max_time_in_seconds
		b = protowire.AppendFixed64(b, math.Float64bits(limit))
	}
	return b
}

// number appends a field that is an integer.
func number(b []byte, field protowire.Number, x int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(x))
}

// cpAnswer reads a CpSolverResponse.
func cpAnswer(b []byte) (ilp.Answer, error) {
	a := ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1)}
	status, message := uint64(0), ""
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return a, protowire.ParseError(n)
		}
		b = b[n:]
		switch {
		case field == 1 && kind == protowire.VarintType:
			status, n = protowire.ConsumeVarint(b)
		case field == 2 && kind == protowire.BytesType: // solution
			var list []byte
			list, n = protowire.ConsumeBytes(b)
			for len(list) > 0 {
				v, n := protowire.ConsumeVarint(list)
				if n < 0 {
					return a, protowire.ParseError(n)
				}
				a.Values = append(a.Values, float64(int64(v)))
				list = list[n:]
			}
		case (field == 3 || field == 4) && kind == protowire.Fixed64Type: // objective_value, best_objective_bound
			var v uint64
			v, n = protowire.ConsumeFixed64(b)
			if field == 3 {
				a.Value = math.Float64frombits(v)
			} else {
				a.Bound = math.Float64frombits(v)
			}
		case field == 20 && kind == protowire.BytesType: // solution_info: also what is wrong with a model
			message, n = protowire.ConsumeString(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return a, protowire.ParseError(n)
		}
		b = b[n:]
	}
	switch status {
	case 0:
		a.Ended = true
	case 1:
		return a, fmt.Errorf("the program is refused: %s", message)
	case 2:
		a.Status, a.Ended = ilp.Feasible, true
	case 3:
		a.Status, a.Values = ilp.Infeasible, nil
	case 4:
		a.Status = ilp.Optimal
	}
	return a, nil
}
