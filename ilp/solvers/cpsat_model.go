package solvers

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/ilp"
)

// cpModel builds a CpModelProto. Numbers of fields are those of OR-tools' cp_model.proto.
type cpModel struct{ b []byte }

func (m *cpModel) message(field protowire.Number, body []byte) {
	m.b = protowire.AppendTag(m.b, field, protowire.BytesType)
	m.b = protowire.AppendBytes(m.b, body)
}

// variable appends an IntegerVariableProto.
func (m *cpModel) variable(lower, upper int64) { m.message(2, packed(nil, 2, lower, upper)) }

// linear appends a constraint: lower ≤ Σ coefficients · variables ≤ upper.
func (m *cpModel) linear(variables, coefficients []int64, lower, upper int64) {
	body := packed(packed(nil, 1, variables...), 2, coefficients...)
	body = packed(body, 3, lower, upper)
	m.message(3, nested(12, body))
}

// objective appends a CpObjectiveProto, to be made small.
func (m *cpModel) objective(variables, coefficients []int64) {
	m.message(4, packed(packed(nil, 1, variables...), 4, coefficients...))
}

// hint appends a solution to begin with.
func (m *cpModel) hint(values []int64) {
	variables := make([]int64, len(values))
	for i := range variables {
		variables[i] = int64(i)
	}
	m.message(6, packed(packed(nil, 1, variables...), 2, values...))
}

// packed appends a packed field of integers.
func packed(b []byte, field protowire.Number, list ...int64) []byte {
	var body []byte
	for _, x := range list {
		body = protowire.AppendVarint(body, uint64(x))
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, body)
}

// nested is a message with one field, a message.
func nested(field protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), body)
}

// number appends a field that is an integer.
func number(b []byte, field protowire.Number, x int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(x))
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
	b = number(b, 135, 0)              // catch_sigint_signal: signals are ours
	if limit >= 0 {
		b = protowire.AppendTag(b, 36, protowire.Fixed64Type) // max_time_in_seconds
		b = protowire.AppendFixed64(b, math.Float64bits(limit))
	}
	return b
}

// cpPacking is the problem as CP-SAT has it. The variables are the offsets, divided by the
// alignments, then the arena. Each rectangle is two intervals of a no-overlap constraint in
// two dimensions; the largest load is a redundant constraint that its search propagates
// better: cumulative, with the arena as the capacity.
func cpPacking(p *ilp.Packing, opt ilp.Options) []byte {
	m := &cpModel{}
	n := int64(len(p.Rectangles))
	for _, r := range p.Rectangles {
		m.variable((r.Lower+r.Align-1)/r.Align, min(r.Upper, p.Most-r.Size)/r.Align)
	}
	least := p.Least
	if opt.Bound != nil {
		least = max(least, *opt.Bound)
	}
	m.variable(min(least, p.Most), p.Most)
	constant := func(x int64) []byte { return number(nil, 3, x) }
	offset := func(i int64, r *ilp.Rectangle, add int64) []byte {
		return number(packed(packed(nil, 1, i), 2, r.Align), 3, add)
	}
	interval := func(begin, end, size []byte) {
		body := nested(4, begin)
		body = append(append(body, nested(5, end)...), nested(6, size)...)
		m.message(3, nested(19, body))
	}
	var steps, bytes []int64 // constraints
	var demands []byte
	for i := range p.Rectangles {
		r := &p.Rectangles[i]
		m.linear([]int64{int64(i), n}, []int64{-r.Align, 1}, r.Size, p.Most) // arena ≥ offset + size
		interval(constant(int64(r.First)), constant(int64(r.Last)+1), constant(int64(r.Last)+1-int64(r.First)))
		interval(offset(int64(i), r, 0), offset(int64(i), r, r.Size), constant(r.Size))
		k := int64(3 * i)
		steps, bytes = append(steps, k+1), append(bytes, k+2)
		demands = append(demands, nested(3, constant(r.Size))...)
	}
	m.message(3, nested(21, packed(packed(nil, 1, steps...), 2, bytes...)))
	capacity := nested(1, packed(packed(nil, 1, n), 2, 1))
	m.message(3, nested(22, append(append(capacity, packed(nil, 2, steps...)...), demands...)))
	m.objective([]int64{n}, []int64{1})
	if start := opt.Start; start != nil {
		var end int64
		hint := make([]int64, 0, n+1)
		for i, r := range p.Rectangles {
			hint = append(hint, start[i]/r.Align)
			end = max(end, start[i]+r.Size)
		}
		m.hint(append(hint, end))
	}
	return m.b
}
