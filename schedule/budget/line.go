package budget

import (
	"math/bits"
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule"
)

// line is a problem in one order. Nodes are numbered by their step: node i runs at
// step i, and slot i is the gap just before it. The tensors that can change the load
// are numbered densely and called buffers.
type line struct {
	index     int32 // among the lines of a solver
	order     []int32
	plain     int64 // nanoseconds of a step without repeated runs
	cost      []int64
	workspace []int64
	reads     lists // step -> buffers
	makes     lists
	pairs     [][]match.Pair // step -> its in-place pairs, of buffers

	size     []int64 // buffer -> bytes, more than 0; the next six are indexed by buffer, too
	maker    []int32 // the step of the producer, or -1
	output   []bool
	tensor   []int32
	writers  [][]int32 // the steps that overwrite it, ascending
	until    []int32   // the last slot in which it may be recomputed, or -1
	over     []bool    // whether some in-place pair writes over it
	swapsOut []bool    // step -> it swaps its input out, for which nothing is recomputed; nil: no step does

	alike *alike // which recomputes are the same in several copies; nil: there are no copies

	sizes []int64 // the different sizes of buffers, ascending; see classify
	class []int32 // buffer -> its place in sizes
}

func newLine(p *schedule.Problem, order []int32, costs []int64, r *rules, index int32) *line {
	n := len(order)
	l := &line{
		index: index, order: order,
		cost: make([]int64, n), workspace: make([]int64, n),
		pairs: make([][]match.Pair, n),
	}
	reads, makes := make([][]int32, n), make([][]int32, n)
	step := make([]int32, n) // node -> its step
	for i, v := range order {
		step[v] = int32(i)
		l.cost[i], l.workspace[i] = costs[v], p.Nodes[v].Workspace
		l.plain += costs[v]
	}
	writers := make([][]int32, len(p.Tensors))
	for t, list := range r.writers {
		for _, v := range list {
			writers[t] = append(writers[t], step[v])
		}
		slices.Sort(writers[t])
	}
	buffer := make([]int32, len(p.Tensors))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Resident || t.Bytes == 0 {
			continue
		}
		b := int32(len(l.size))
		buffer[i] = b
		l.size = append(l.size, t.Bytes)
		l.output = append(l.output, t.Output)
		l.tensor = append(l.tensor, int32(i))
		l.writers = append(l.writers, writers[i])
		maker := int32(-1)
		if t.Producer >= 0 {
			maker = step[t.Producer]
			makes[maker] = append(makes[maker], b)
		}
		l.maker = append(l.maker, maker)
		readers := slices.Clone(t.Consumers)
		slices.Sort(readers)
		for _, v := range slices.Compact(readers) {
			if v != t.Producer {
				reads[step[v]] = append(reads[step[v]], b)
			}
		}
	}
	l.reads, l.makes = newLists(reads), newLists(makes)
	l.over = make([]bool, len(l.size))
	for _, pair := range p.Pairs() {
		i := step[pair.Node]
		o, t := buffer[pair.Result], buffer[pair.Over]
		l.pairs[i] = append(l.pairs[i], match.Pair{Node: i, Result: o, Over: t})
		l.over[t] = true
	}
	l.limitUnits(p, r, writers, step)
	l.classify()
	return l
}

// unit calls f for each node that it takes to recompute a buffer in its version
// before a slot: its maker and the writers that stand before the slot.
func (l *line) unit(t, slot int32, f func(i int32)) {
	f(l.maker[t])
	for _, w := range l.writers[t] {
		if w >= slot {
			return
		}
		f(w)
	}
}

// overwritten reports whether a writer of a buffer stands before a slot.
func (l *line) overwritten(t, slot int32) bool {
	return len(l.writers[t]) > 0 && l.writers[t][0] < slot
}

// limitUnits finds the last slot in which each buffer may be recomputed.
//
// Once an input of a node is overwritten, the node must not run again: it would read
// another version. We call it dead from that step on. The unit's own tensor is
// exempt, since the unit recomputes it from its first version. After a dead writer of
// a buffer, the whole unit of the buffer is dead. Nothing but final nodes runs again after
// the first of them.
func (l *line) limitUnits(p *schedule.Problem, r *rules, writers [][]int32, step []int32) {
	read := make([][]int32, len(l.order)) // step -> its inputs that some node overwrites
	for t := range p.Tensors {
		if len(writers[t]) > 0 {
			for _, v := range p.Tensors[t].Consumers {
				read[step[v]] = append(read[step[v]], int32(t))
			}
		}
	}
	// dead returns the first step that overwrites an input of i other than but.
	dead := func(i, but int32) int32 {
		if r.once[l.order[i]] {
			return -1
		}
		first := int32(len(l.order))
		for _, t := range read[i] {
			if t == but {
				continue
			}
			if k, _ := slices.BinarySearch(writers[t], i+1); k < len(writers[t]) {
				first = min(first, writers[t][k])
			}
		}
		return first
	}
	final := int32(slices.IndexFunc(l.order, r.isFinal))
	if final < 0 {
		final = int32(len(l.order))
	}
	l.until = make([]int32, len(l.size))
	for b, t := range l.tensor {
		if l.maker[b] < 0 || r.fixed[t] {
			l.until[b] = -1
			continue
		}
		until := dead(l.maker[b], t)
		for _, w := range l.writers[b] {
			if w < until {
				until = max(w, min(until, dead(w, t)))
			}
		}
		if !r.isFinal(l.order[l.maker[b]]) {
			until = min(until, final)
		}
		l.until[b] = until
	}
}

// maxClasses bounds the number of size classes; networks have few different sizes.
const maxClasses = 256

// classify puts buffers of equal size into one class. If there are too many sizes, a
// class holds the sizes that share their three leading bits.
func (l *line) classify() {
	key := func(size int64) int64 { return size }
	for range 2 {
		l.sizes = l.sizes[:0]
		for _, size := range l.size {
			l.sizes = append(l.sizes, key(size))
		}
		slices.Sort(l.sizes)
		if l.sizes = slices.Compact(l.sizes); len(l.sizes) <= maxClasses {
			break
		}
		key = func(size int64) int64 {
			low := max(0, bits.Len64(uint64(size))-3)
			return size >> low << low
		}
	}
	l.class = make([]int32, len(l.size))
	for b, size := range l.size {
		c, _ := slices.BinarySearch(l.sizes, key(size))
		l.class[b] = int32(c)
	}
}

// lists holds many short lists in one slice, because a sweep reads them all in order.
type lists struct {
	start []int32
	items []int32
}

func newLists(of [][]int32) (l lists) {
	l.start = make([]int32, 1, len(of)+1)
	for _, list := range of {
		l.items = append(l.items, list...)
		l.start = append(l.start, int32(len(l.items)))
	}
	return l
}

func (l *lists) of(i int32) []int32 { return l.items[l.start[i]:l.start[i+1]] }
