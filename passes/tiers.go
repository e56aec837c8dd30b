package passes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// fullError says which buffers do not fit into the pools; see PoolError.
type fullError struct {
	Step     int
	Node     string
	Load     int64
	Capacity int64
	Tensors  []string
}

// Error names the node, the bytes and the largest buffers.
func (e *fullError) Error() string {
	return fmt.Sprintf("pools of %d bytes in all: %d bytes are live at step %d, %s, the largest in %s: expected pools in which they fit", e.Capacity, e.Load, e.Step, e.Node, strings.Join(e.Tensors, ", "))
}

// poolProblem makes the buffers of the main graph, with some in-place pairs, and the problem of
// dividing them among the pools. placed are those that it divides.
func (r *region) poolProblem(taken []schedule.Pair) (p *tiers.Problem, placed []int, err error) {
	if r.buffers, err = r.chains(taken); err != nil {
		return nil, nil, err
	}
	r.resident, r.tierNames = 0, nil
	p = &tiers.Problem{Alignment: r.align}
	for _, pool := range r.pools {
		p.Capacities = append(p.Capacities, pool.Capacity)
		r.tierNames = append(r.tierNames, pool.Name)
	}
	traffic, reads := r.traffic()
	r.residentReads = reads
	for k := range r.buffers {
		b := &r.buffers[k]
		if r.putResident(b) {
			continue
		}
		used := traffic[k]
		used.Size, used.First, used.Last = b.bytes, b.first, b.last
		if len(b.storages) > 0 {
			used.Given = r.storages[b.storages[0]].input
			used.Kept = slices.ContainsFunc(b.storages, func(i int32) bool { return r.storages[i].output })
		}
		p.Buffers = append(p.Buffers, used)
		placed = append(placed, k)
	}
	return p, placed, nil
}

// dividePools divides the buffers among the pools, and returns the problem.
func (r *region) dividePools(ctx context.Context, x *search) (*tiers.Problem, error) {
	if c := r.stack(); c != nil {
		return r.placeStackInPools(c)
	}
	p, placed, err := r.poolProblem(r.loads.Taken)
	if err != nil {
		return nil, err
	}
	capacities := p.Capacities
	if r.room != nil {
		p.Capacities = r.room
	}
	search, end := x.Context(ctx)
	defer end()
	found, err := tiers.Solve(search, p)
	var full *tiers.FullError
	switch {
	case errors.As(err, &full):
		return nil, r.poolError(full, placed)
	case errors.Is(err, context.DeadlineExceeded) && x.TimeIsUp():
		x.log.timedOut = true
		if found, err = tiers.Solve(context.WithoutCancel(ctx), p); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	p.Capacities = capacities // a bound on the traffic is one of the pools as they are
	r.divided(p, placed, found)
	return p, nil
}

// divided puts the buffers of a problem where a division has them, and adds up what nodes read and
// write in each pool.
func (r *region) divided(p *tiers.Problem, placed []int, found *tiers.Division) {
	r.tiers = make([]plan.Tier, len(p.Capacities))
	r.arena = 0
	for m, pool := range r.pools {
		r.tiers[m] = plan.Tier{Capacity: pool.Capacity, BytesPerSecond: pool.BytesPerSecond}
		r.arena += found.Bytes[m]
	}
	r.poolBytes = found.Bytes
	for i, k := range placed {
		b := &r.buffers[k]
		b.pool, b.offset = found.Memory[i], found.Offsets[i]
		for _, u := range p.Buffers[i].Uses {
			r.tiers[b.pool].ReadBytes += u.Read
			r.tiers[b.pool].WrittenBytes += u.Written
		}
	}
	r.optimal = r.arena == r.loads.Peak
}

// placeStackInPools is placeStack with several pools. It returns the problem of the buffers in
// them.
func (r *region) placeStackInPools(c *box.Stack) (*tiers.Problem, error) {
	p, placed, err := r.poolProblem(c.Taken)
	if err != nil {
		return nil, err
	}
	at := r.stacked(c)
	sizes, offsets := make([]int64, len(at)), make([]int64, len(at))
	for i, k := range at {
		sizes[i] = r.buffers[k].bytes
	}
	if r.arena, err = c.Stack.Place(sizes, offsets); err != nil {
		return nil, err
	}
	memory, offset := make([]int, len(r.buffers)), make([]int64, len(r.buffers))
	for i, k := range at {
		memory[k], offset[k] = c.Memory[i], offsets[i]
	}
	d := &tiers.Division{Bytes: c.Ends(sizes, offsets)}
	for _, k := range placed {
		d.Memory, d.Offsets = append(d.Memory, memory[k]), append(d.Offsets, offset[k])
	}
	r.divided(p, placed, d)
	return p, nil
}

func (r *region) poolError(full *tiers.FullError, placed []int) error {
	e := &fullError{Step: full.Step, Load: full.Load, Capacity: full.Capacity}
	if full.Step < len(r.g.Nodes) {
		e.Node = r.g.Label(graph.NodeID(full.Step))
	}
	const most = 4
	for _, i := range full.Buffers[:min(most, len(full.Buffers))] {
		b := &r.buffers[placed[i]]
		if list := r.tensorsOf(b); len(list) > 0 {
			e.Tensors = append(e.Tensors, fmt.Sprintf("%q (%d)", graph.Short(r.g.Tensors[list[0]].Name), b.bytes))
		} else {
			e.Tensors = append(e.Tensors, fmt.Sprintf("workspace of %s (%d)", r.g.Label(b.node), b.bytes))
		}
	}
	return e
}

// traffic returns buffers with what nodes read and write of each, by step, and what they
// read of resident ones. A node reads each of its inputs once and writes each of its
// outputs once. But a view moves nothing; what takes elements reads as many bytes as it
// writes; PutRows that writes over its base reads and writes the part alone; and what only
// makes room for it writes nothing. A workspace is written and read once.
func (r *region) traffic() (list []tiers.Buffer, resident int64) {
	at := make([]int, len(r.storages))
	for i := range at {
		at[i] = -1
	}
	list = make([]tiers.Buffer, len(r.buffers))
	for k := range r.buffers {
		b := &r.buffers[k]
		if b.node >= 0 {
			list[k].Uses = []tiers.Use{{Step: int(b.node), Read: b.bytes, Written: b.bytes}}
		}
		for _, i := range b.storages {
			if !b.resident {
				at[i] = k
			}
		}
	}
	grids := make([]grid, len(r.buffers)) // of the rows that uses speak of
	use := func(t graph.TensorID, step int, read, written int64, of rows) {
		i := r.storageOf[t]
		if i == noStorage || at[i] < 0 || read+written == 0 {
			return
		}
		k := at[i]
		uses := &list[k].Uses
		now := tiers.Use{Step: step}
		if of.t == t {
			now.From, now.To = of.from, of.to
			if g := (grid{of.outer, of.length, r.g.Tensors[t].Bytes}); grids[k] == (grid{}) {
				grids[k] = g
			} else if grids[k] != g {
				grids[k] = mixed
			}
		}
		if n := len(*uses); n == 0 || (*uses)[n-1].Step < step {
			*uses = append(*uses, now)
		} else if u := &(*uses)[n-1]; u.From != now.From || u.To != now.To {
			grids[k] = mixed
		}
		u := &(*uses)[len(*uses)-1]
		u.Read += read
		u.Written += written
	}
	for v, n := range r.g.Nodes {
		reads, writes := r.moves(n, at)
		of := r.rowsOf(n)
		for _, t := range slices.Sorted(maps.Keys(reads)) {
			use(t, v, reads[t], 0, of)
			if i := r.storageOf[t]; i != noStorage && r.storages[i].resident && !ops.IsConstant(n) {
				resident += reads[t]
			}
		}
		for _, t := range slices.Sorted(maps.Keys(writes)) {
			use(t, v, 0, writes[t], of)
		}
	}
	for k := range list {
		for _, i := range r.buffers[k].storages {
			for _, t := range r.storages[i].tensors {
				list[k].Content = max(list[k].Content, r.g.Tensors[t].Bytes)
			}
		}
		if g := grids[k]; g != mixed && g.bytes == list[k].Content {
			list[k].Rows = g.length
			continue
		}
		for j := range list[k].Uses {
			list[k].Uses[j].From, list[k].Uses[j].To = 0, 0
		}
	}
	return list, resident
}

// rows are those of an axis that a node takes from a tensor or writes into it.
type rows struct {
	t             graph.TensorID
	from, to      int64
	outer, length int64 // elements before the axis; of the axis
}

// grid says how the rows of a buffer lie in it. Tensors of a buffer with another grid have
// other rows.
type grid struct{ outer, length, bytes int64 }

// mixed is the grid of a buffer with several.
var mixed = grid{-1, -1, -1}

// rowsOf returns the rows that a Slice takes of its data or that a PutRows writes; of
// other nodes, and if they are not known, those of no tensor.
func (r *region) rowsOf(n *graph.Node) rows {
	none := rows{t: graph.None}
	number := func(k int) (int64, bool) {
		if k >= len(n.Inputs) || n.Inputs[k] < 0 || r.g.Tensors[n.Inputs[k]].Data == nil {
			return 0, false
		}
		v, ok := r.g.Tensors[n.Inputs[k]].Data.Integers(1)
		if !ok || len(v) != 1 {
			return 0, false
		}
		return v[0], true
	}
	var x rows
	var axis int64
	var known [3]bool
	switch {
	case n.IsPutRows():
		x.t = n.Outputs[0]
		x.from, known[0] = number(2)
		axis, known[2] = number(3)
		if part := r.g.Tensors[n.Inputs[1]].Type; part.Exact() && axis >= 0 && axis < int64(len(part.Shape)) {
			x.to, known[1] = x.from+int64(part.Shape[axis]), true
		}
	case n.Domain == "" && n.Op == "Slice" && len(n.Inputs) == 4:
		x.t = n.Inputs[0]
		x.from, known[0] = number(1)
		x.to, known[1] = number(2)
		axis, known[2] = number(3)
	default:
		return none
	}
	if !known[0] || !known[1] || !known[2] || x.t < 0 {
		return none
	}
	typ := r.g.Tensors[x.t].Type
	if !typ.Exact() || axis < 0 || axis >= int64(len(typ.Shape)) {
		return none
	}
	x.outer, x.length = 1, int64(typ.Shape[axis])
	for _, d := range typ.Shape[:axis] {
		x.outer *= int64(d)
	}
	if x.from < 0 || x.to <= x.from || x.to > x.length {
		return none
	}
	return x
}

// moves returns the bytes that a node reads and writes of each tensor. at is the buffer
// of each storage, -1: none.
func (r *region) moves(n *graph.Node, at []int) (reads, writes map[graph.TensorID]int64) {
	reads, writes = map[graph.TensorID]int64{}, map[graph.TensorID]int64{}
	if n.IsPutRows() && r.inPlace(n.Inputs[0], n.Outputs[0], at) {
		part := r.g.Tensors[n.Inputs[1]].Bytes
		reads[n.Inputs[1]], writes[n.Outputs[0]] = part, part
		return reads, writes
	}
	if r.g.MakesRoom(n) {
		return reads, writes
	}
	made, views, known := int64(0), 0, true
	for k, t := range n.Outputs {
		switch {
		case t < 0:
		case r.isView(n, k):
			views++
		default:
			made += r.g.Tensors[t].Bytes
			writes[t] = r.g.Tensors[t].Bytes
			known = known && r.storageOf[t] != noStorage
		}
	}
	if views > 0 && len(writes) == 0 {
		return reads, writes
	}
	n.Reads(func(t graph.TensorID) { reads[t] = r.g.Tensors[t].Bytes })
	if known && len(n.Inputs) > 0 && n.Inputs[0] >= 0 && ops.ReadsOutput(n) {
		reads[n.Inputs[0]] = min(reads[n.Inputs[0]], made)
	}
	return reads, writes
}

// isView reports whether output k of a node shares the storage of an input of which it
// is a view.
func (r *region) isView(n *graph.Node, k int) bool {
	return slices.ContainsFunc(n.Semantics.Views, func(a graph.Alias) bool {
		return a.Out == k && n.Inputs[a.In] >= 0 && r.storageOf[n.Inputs[a.In]] == r.storageOf[n.Outputs[k]]
	})
}

// inPlace reports whether two tensors lie in one buffer.
func (r *region) inPlace(a, b graph.TensorID, at []int) bool {
	i, j := r.storageOf[a], r.storageOf[b]
	return i != noStorage && j != noStorage && at[i] >= 0 && at[i] == at[j]
}

// tiered returns the figures of the plan's traffic; nil without pools.
func (r *region) tiered() *plan.Tiered {
	if r.tierNames == nil {
		return nil
	}
	x := &plan.Tiered{SlowTrafficBoundBytes: r.trafficBound, ResidentReadBytes: r.residentReads}
	for _, c := range r.copies {
		x.MovedBuffers++
		x.MovedBytes += r.g.Tensors[r.g.Nodes[c].Outputs[0]].Bytes
	}
	for _, t := range r.tiers[1:] {
		x.SlowTrafficBytes += t.ReadBytes + t.WrittenBytes
	}
	return x
}
