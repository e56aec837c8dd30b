package planner

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

// FullError says which buffers do not fit into the pools; see PoolError.
type FullError struct {
	Step     int
	Node     string
	Load     int64
	Capacity int64
	Tensors  []string
}

// Error names the node, the bytes and the largest buffers.
func (e *FullError) Error() string {
	return fmt.Sprintf("pools of %d bytes in all: %d bytes are live at step %d, %s, the largest in %s: expected pools in which they fit", e.Capacity, e.Load, e.Step, e.Node, strings.Join(e.Tensors, ", "))
}

// PoolProblem makes the buffers of the main graph, with some in-place pairs, and the problem of
// dividing them among the pools. placed are those that it divides.
func (r *Region) PoolProblem(taken []schedule.Pair) (p *tiers.Problem, placed []int, err error) {
	if r.Buffers, err = r.Chains(taken); err != nil {
		return nil, nil, err
	}
	r.resident, r.TierNames = 0, nil
	p = &tiers.Problem{Alignment: r.Align}
	for _, pool := range r.Pools {
		p.Capacities = append(p.Capacities, pool.Capacity)
		r.TierNames = append(r.TierNames, pool.Name)
	}
	traffic, reads := r.traffic()
	r.residentReads = reads
	for k := range r.Buffers {
		b := &r.Buffers[k]
		if r.putResident(b) {
			continue
		}
		used := traffic[k]
		used.Size, used.First, used.Last = b.Bytes, b.First, b.Last
		if len(b.Storages) > 0 {
			used.Given = r.Storages[b.Storages[0]].Input
			used.Kept = slices.ContainsFunc(b.Storages, func(i int32) bool { return r.Storages[i].Output })
		}
		p.Buffers = append(p.Buffers, used)
		placed = append(placed, k)
	}
	return p, placed, nil
}

// DividePools divides the buffers among the pools, and returns the problem.
func (r *Region) DividePools(ctx context.Context, x *Search) (*tiers.Problem, error) {
	if c := r.stack(); c != nil {
		return r.placeStackInPools(c)
	}
	p, placed, err := r.PoolProblem(r.Loads.Taken)
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
		x.Log.TimedOut = true
		if found, err = tiers.Solve(context.WithoutCancel(ctx), p); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	p.Capacities = capacities // a bound on the traffic is one of the pools as they are
	r.Divided(p, placed, found)
	return p, nil
}

// DividePart is DividePools where the fastest pool is that small; 0: as it is.
func (r *Region) DividePart(ctx context.Context, x *Search, room int64) (*tiers.Problem, error) {
	if room > 0 {
		r.room = nil
		for _, pool := range r.Pools {
			r.room = append(r.room, pool.Capacity)
		}
		r.room[0] = room
		defer func() { r.room = nil }()
	}
	return r.DividePools(ctx, x)
}

// Divided puts the buffers of a problem where a division has them, and adds up what nodes read and
// write in each pool.
func (r *Region) Divided(p *tiers.Problem, placed []int, found *tiers.Division) {
	r.Tiers = make([]plan.Tier, len(p.Capacities))
	r.Arena = 0
	for m, pool := range r.Pools {
		r.Tiers[m] = plan.Tier{Capacity: pool.Capacity, BytesPerSecond: pool.BytesPerSecond}
		r.Arena += found.Bytes[m]
	}
	r.PoolBytes = found.Bytes
	for i, k := range placed {
		b := &r.Buffers[k]
		b.Pool, b.Offset = found.Memory[i], found.Offsets[i]
		for _, u := range p.Buffers[i].Uses {
			r.Tiers[b.Pool].ReadBytes += u.Read
			r.Tiers[b.Pool].WrittenBytes += u.Written
		}
	}
	r.Optimal = r.Arena == r.Loads.Peak
}

// placeStackInPools is placeStack with several pools. It returns the problem of the buffers in
// them.
func (r *Region) placeStackInPools(c *box.Stack) (*tiers.Problem, error) {
	p, placed, err := r.PoolProblem(c.Taken)
	if err != nil {
		return nil, err
	}
	at := r.stacked(c)
	sizes, offsets := make([]int64, len(at)), make([]int64, len(at))
	for i, k := range at {
		sizes[i] = r.Buffers[k].Bytes
	}
	if r.Arena, err = c.Stack.Place(sizes, offsets); err != nil {
		return nil, err
	}
	memory, offset := make([]int, len(r.Buffers)), make([]int64, len(r.Buffers))
	for i, k := range at {
		memory[k], offset[k] = c.Memory[i], offsets[i]
	}
	d := &tiers.Division{Bytes: c.Ends(sizes, offsets)}
	for _, k := range placed {
		d.Memory, d.Offsets = append(d.Memory, memory[k]), append(d.Offsets, offset[k])
	}
	r.Divided(p, placed, d)
	return p, nil
}

func (r *Region) poolError(full *tiers.FullError, placed []int) error {
	e := &FullError{Step: full.Step, Load: full.Load, Capacity: full.Capacity}
	if full.Step < len(r.G.Nodes) {
		e.Node = r.G.Label(graph.NodeID(full.Step))
	}
	const most = 4
	for _, i := range full.Buffers[:min(most, len(full.Buffers))] {
		b := &r.Buffers[placed[i]]
		if list := r.TensorsOf(b); len(list) > 0 {
			e.Tensors = append(e.Tensors, fmt.Sprintf("%q (%d)", graph.Short(r.G.Tensors[list[0]].Name), b.Bytes))
		} else {
			e.Tensors = append(e.Tensors, fmt.Sprintf("workspace of %s (%d)", r.G.Label(b.Node), b.Bytes))
		}
	}
	return e
}

// traffic returns buffers with what nodes read and write of each, by step, and what they
// read of resident ones. A node reads each of its inputs once and writes each of its
// outputs once. But a view moves nothing; what takes elements reads as many bytes as it
// writes; PutRows that writes over its base reads and writes the part alone; and what only
// makes room for it writes nothing. A workspace is written and read once.
func (r *Region) traffic() (list []tiers.Buffer, resident int64) {
	at := make([]int, len(r.Storages))
	for i := range at {
		at[i] = -1
	}
	list = make([]tiers.Buffer, len(r.Buffers))
	for k := range r.Buffers {
		b := &r.Buffers[k]
		if b.Node >= 0 {
			list[k].Uses = []tiers.Use{{Step: int(b.Node), Read: b.Bytes, Written: b.Bytes}}
		}
		for _, i := range b.Storages {
			if !b.Resident {
				at[i] = k
			}
		}
	}
	grids := make([]grid, len(r.Buffers)) // of the rows that uses speak of
	use := func(t graph.TensorID, step int, read, written int64, of rows) {
		i := r.StorageOf[t]
		if i == NoStorage || at[i] < 0 || read+written == 0 {
			return
		}
		k := at[i]
		uses := &list[k].Uses
		now := tiers.Use{Step: step}
		if of.t == t {
			now.From, now.To = of.from, of.to
			if g := (grid{of.outer, of.length, r.G.Tensors[t].Bytes}); grids[k] == (grid{}) {
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
	for v, n := range r.G.Nodes {
		reads, writes := r.moves(n, at)
		of := r.rowsOf(n)
		for _, t := range slices.Sorted(maps.Keys(reads)) {
			use(t, v, reads[t], 0, of)
			if i := r.StorageOf[t]; i != NoStorage && r.Storages[i].Resident && !ops.IsConstant(n) {
				resident += reads[t]
			}
		}
		for _, t := range slices.Sorted(maps.Keys(writes)) {
			use(t, v, 0, writes[t], of)
		}
	}
	for k := range list {
		for _, i := range r.Buffers[k].Storages {
			for _, t := range r.Storages[i].Tensors {
				list[k].Content = max(list[k].Content, r.G.Tensors[t].Bytes)
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
func (r *Region) rowsOf(n *graph.Node) rows {
	none := rows{t: graph.None}
	number := func(k int) (int64, bool) {
		if k >= len(n.Inputs) || n.Inputs[k] < 0 || r.G.Tensors[n.Inputs[k]].Data == nil {
			return 0, false
		}
		v, ok := r.G.Tensors[n.Inputs[k]].Data.Integers(1)
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
		if part := r.G.Tensors[n.Inputs[1]].Type; part.Exact() && axis >= 0 && axis < int64(len(part.Shape)) {
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
	typ := r.G.Tensors[x.t].Type
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
func (r *Region) moves(n *graph.Node, at []int) (reads, writes map[graph.TensorID]int64) {
	reads, writes = map[graph.TensorID]int64{}, map[graph.TensorID]int64{}
	if n.IsPutRows() && r.inPlace(n.Inputs[0], n.Outputs[0], at) {
		part := r.G.Tensors[n.Inputs[1]].Bytes
		reads[n.Inputs[1]], writes[n.Outputs[0]] = part, part
		return reads, writes
	}
	if r.G.MakesRoom(n) {
		return reads, writes
	}
	made, views, known := int64(0), 0, true
	for k, t := range n.Outputs {
		switch {
		case t < 0:
		case r.isView(n, k):
			views++
		default:
			made += r.G.Tensors[t].Bytes
			writes[t] = r.G.Tensors[t].Bytes
			known = known && r.StorageOf[t] != NoStorage
		}
	}
	if views > 0 && len(writes) == 0 {
		return reads, writes
	}
	n.Reads(func(t graph.TensorID) { reads[t] = r.G.Tensors[t].Bytes })
	if known && len(n.Inputs) > 0 && n.Inputs[0] >= 0 && ops.ReadsOutput(n) {
		reads[n.Inputs[0]] = min(reads[n.Inputs[0]], made)
	}
	return reads, writes
}

// isView reports whether output k of a node shares the storage of an input of which it
// is a view.
func (r *Region) isView(n *graph.Node, k int) bool {
	return slices.ContainsFunc(n.Semantics.Views, func(a graph.Alias) bool {
		return a.Out == k && n.Inputs[a.In] >= 0 && r.StorageOf[n.Inputs[a.In]] == r.StorageOf[n.Outputs[k]]
	})
}

// inPlace reports whether two tensors lie in one buffer.
func (r *Region) inPlace(a, b graph.TensorID, at []int) bool {
	i, j := r.StorageOf[a], r.StorageOf[b]
	return i != NoStorage && j != NoStorage && at[i] >= 0 && at[i] == at[j]
}

// Tiered returns the figures of the plan's traffic; nil without pools.
func (r *Region) Tiered() *plan.Tiered {
	if r.TierNames == nil {
		return nil
	}
	x := &plan.Tiered{SlowTrafficBoundBytes: r.TrafficBound, ResidentReadBytes: r.residentReads}
	for _, c := range r.Copies {
		x.MovedBuffers++
		x.MovedBytes += r.G.Tensors[r.G.Nodes[c].Outputs[0]].Bytes
	}
	for _, t := range r.Tiers[1:] {
		x.SlowTrafficBytes += t.ReadBytes + t.WrittenBytes
	}
	return x
}
