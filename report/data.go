package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// mostBytes is the largest number of bytes that the page's script counts exactly,
// 2^53 - 1.
const mostBytes = 1<<53 - 1

// pageData is a plan in the form of its page's script: columns instead of
// objects, small numbers instead of large ones. For 50,000 buffers it takes about
// a tenth of the plan's bytes.
type pageData struct {
	Unit     int64       `json:"unit"` // divides all bytes, which are given as multiples of it
	Steps    pageSteps   `json:"steps"`
	Program  pageProgram `json:"program"`
	Pools    []pagePool  `json:"pools"`
	Kinds    []string    `json:"kinds"`
	Buffers  pageBuffers `json:"buffers"`
	Peak     int64       `json:"peak"`
	PeakStep int         `json:"peakStep"`
	Bound    int64       `json:"bound"`
}

type pageSteps struct {
	Name names    `json:"name"`
	Op   []int    `json:"op"` // index into Ops
	Ops  []string `json:"ops"`
	Load []int64  `json:"load"` // differences
}

type pageProgram struct {
	Steps []int   `json:"steps"` // differences
	Load  []int64 `json:"load"`  // differences
}

type pagePool struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// pageBuffers are the buffers by their first step.
type pageBuffers struct {
	Pool    []int   `json:"pool"`
	Kind    []int   `json:"kind"`
	First   []int   `json:"first"` // differences
	Span    []int   `json:"span"`  // last - first
	Offset  []int64 `json:"offset"`
	Bytes   []int64 `json:"bytes"`
	Node    []int   `json:"node"`    // of a workspace: 1 + the step of its node
	Count   []int   `json:"count"`   // number of tensors
	Tensor  names   `json:"tensor"`  // of all buffers, concatenated
	Bounded []int   `json:"bounded"` // indices of bounded buffers
}

// names are texts that often share a prefix with the preceding one: the length of
// that prefix in bytes, and the rest.
type names struct {
	Same []int    `json:"same"`
	Rest []string `json:"rest"`
	last string
}

// add adds a name as it is shown. The shared prefix is ASCII, so that its bytes
// are the units in which scripts count.
func (n *names) add(name string) {
	name = units.Name(name)
	same := 0
	for same < min(len(name), len(n.last)) && name[same] == n.last[same] && name[same] < 0x80 {
		same++
	}
	n.Same = append(n.Same, same)
	n.Rest = append(n.Rest, name[same:])
	n.last = name
}

// dataOf returns the data of a consistent plan (plan.Check). It fails if figures
// exceed the integers of scripts.
func dataOf(p *plan.Plan) (*pageData, error) {
	s := &p.Summary
	if most := max(s.TotalBytes, s.NaiveBytes, s.ProgramPeakBytes); most > mostBytes {
		return nil, fmt.Errorf("%s: a page shows at most %s", units.Bytes(most), units.Bytes(mostBytes))
	}
	for _, pool := range p.Pools {
		if pool.Bytes > mostBytes {
			return nil, fmt.Errorf("pool %q: %s: a page shows at most %s", units.Name(pool.Name), units.Bytes(pool.Bytes), units.Bytes(mostBytes))
		}
	}
	d := &pageData{Unit: unitOf(p), PeakStep: s.PeakStep}
	d.Peak, d.Bound = s.PeakBytes/d.Unit, s.LowerBoundBytes/d.Unit
	d.steps(p)
	d.buffers(p)
	return d, nil
}

// unitOf is the greatest common divisor of all bytes of a plan.
func unitOf(p *plan.Plan) int64 {
	unit := int64(0)
	add := func(n int64) {
		for n != 0 {
			unit, n = n, unit%n
		}
	}
	for i := range p.Buffers {
		add(p.Buffers[i].Bytes)
		add(p.Buffers[i].Offset)
	}
	for _, load := range p.ProgramOrder.LoadBytes {
		add(load)
	}
	for _, pool := range p.Pools {
		add(pool.Bytes)
	}
	add(p.Summary.LowerBoundBytes)
	return max(unit, 1)
}

func (d *pageData) steps(p *plan.Plan) {
	ops := index{}
	for i := range p.Steps {
		d.Steps.Name.add(p.Steps[i].Name)
		d.Steps.Op = append(d.Steps.Op, ops.of(units.Name(p.Steps[i].Op)))
		d.Steps.Load = append(d.Steps.Load, p.Steps[i].LoadBytes/d.Unit)
	}
	d.Steps.Ops = ops.list
	differences(d.Steps.Load)
	d.Program.Steps = slices.Clone(p.ProgramOrder.Steps)
	differences(d.Program.Steps)
	for _, load := range p.ProgramOrder.LoadBytes {
		d.Program.Load = append(d.Program.Load, load/d.Unit)
	}
	differences(d.Program.Load)
}

func (d *pageData) buffers(p *plan.Plan) {
	pools, kinds := index{}, index{}
	for _, pool := range p.Pools {
		pools.of(pool.Name)
		d.Pools = append(d.Pools, pagePool{units.Name(pool.Name), pool.Bytes / d.Unit})
	}
	sorted := make([]*plan.Buffer, len(p.Buffers))
	for i := range p.Buffers {
		sorted[i] = &p.Buffers[i]
	}
	slices.SortStableFunc(sorted, func(a, b *plan.Buffer) int { return cmp.Compare(a.First, b.First) })
	out := &d.Buffers
	for i, b := range sorted {
		node := 0
		if b.Node != nil {
			node = 1 + *b.Node
		}
		if b.Bounded {
			out.Bounded = append(out.Bounded, i)
		}
		out.Pool = append(out.Pool, pools.of(b.Pool))
		out.Kind = append(out.Kind, kinds.of(b.Kind))
		out.First = append(out.First, b.First)
		out.Span = append(out.Span, b.Last-b.First)
		out.Offset = append(out.Offset, b.Offset/d.Unit)
		out.Bytes = append(out.Bytes, b.Bytes/d.Unit)
		out.Node = append(out.Node, node)
		names := b.Tensors
		if len(names) == 0 && b.Node == nil {
			names = []string{bufferLabel(p, b)}
		}
		out.Count = append(out.Count, len(names))
		for _, t := range names {
			out.Tensor.add(t)
		}
	}
	d.Kinds = kinds.list
	differences(out.First)
}

// differences replaces each number by its difference from the preceding one.
func differences[T int | int64](list []T) {
	for i := len(list) - 1; i > 0; i-- {
		list[i] -= list[i-1]
	}
}

// index numbers texts in the order of their first occurrence.
type index struct {
	list []string
	at   map[string]int
}

func (x *index) of(text string) int {
	i, known := x.at[text]
	if !known {
		if x.at == nil {
			x.at = map[string]int{}
		}
		i = len(x.list)
		x.at[text] = i
		x.list = append(x.list, text)
	}
	return i
}

// marshal returns the data as JSON without "<", ">" or "&", whatever the names
// contain, so it cannot end an HTML element. Empty columns are null.
func (d *pageData) marshal() (string, error) {
	b, err := json.Marshal(d)
	return string(b), err
}
