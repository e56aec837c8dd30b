package passes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// Pool is one of several memories that hold the buffers outside of resident.
type Pool struct {
	Name           string // letters, digits, "_" and "-"
	Capacity       int64  // in bytes
	BytesPerSecond int64  // of reading and of writing; 0: not known
}

var poolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// checkPools checks the list of pools by itself.
func (o *Options) checkPools() error {
	if len(o.Pools) == 1 || len(o.Pools) > plan.MaxTiers {
		return fmt.Errorf("pools: expected from 2 to %d, the fastest first, found %d", plan.MaxTiers, len(o.Pools))
	}
	slowest := int64(math.MaxInt64)
	for i, p := range o.Pools {
		switch {
		case !poolName.MatchString(p.Name) || slices.Contains([]string{plan.Arena, plan.Resident, plan.Host, plan.Workspace}, p.Name):
			return fmt.Errorf("pool %q: expected a name of at most 32 letters, digits, _ and -, and none of %s, %s, %s, %s", graph.Short(p.Name), plan.Arena, plan.Resident, plan.Host, plan.Workspace)
		case slices.ContainsFunc(o.Pools[:i], func(q Pool) bool { return strings.EqualFold(q.Name, p.Name) }):
			return fmt.Errorf("pool %q: expected each name once", p.Name)
		case p.Capacity < 0 || p.BytesPerSecond < 0:
			return fmt.Errorf("pool %q: expected a capacity and a speed of 0 or more, found %d bytes and %d bytes per second", p.Name, p.Capacity, p.BytesPerSecond)
		case p.BytesPerSecond > slowest:
			return fmt.Errorf("pool %q: expected the fastest pools first, found %d bytes per second after %d", p.Name, p.BytesPerSecond, slowest)
		case p.BytesPerSecond > 0:
			slowest = p.BytesPerSecond
		}
	}
	if len(o.Pools) > 0 && o.Host != nil {
		return errors.New("pools and a host: expected at most one of them")
	}
	return nil
}

// PoolError says that the buffers do not fit into the pools.
type PoolError struct {
	Step     int      // the step with the largest load
	Node     string   // its node
	Load     int64    // bytes that are live there
	Capacity int64    // of all pools
	Tensors  []string // the first of each of the largest buffers there, the largest first
}

// Error names the node, the bytes and the largest buffers.
func (e *PoolError) Error() string {
	return fmt.Sprintf("pools of %d bytes in all: %d bytes are live at step %d, %s, the largest in %s: expected pools in which they fit", e.Capacity, e.Load, e.Step, e.Node, strings.Join(e.Tensors, ", "))
}

// placePools divides the buffers of the main graph among the pools and gives them
// offsets there.
func (s *State) placePools(ctx context.Context, r *region) error {
	var err error
	if r.buffers, err = r.chains(r.loads.Taken); err != nil {
		return err
	}
	r.resident = 0
	p := &tiers.Problem{Alignment: s.opt.Align}
	for _, pool := range s.opt.Pools {
		p.Capacities = append(p.Capacities, pool.Capacity)
		r.pools = append(r.pools, pool.Name)
	}
	traffic, reads := r.traffic()
	r.residentReads = reads
	var placed []int
	for k := range r.buffers {
		b := &r.buffers[k]
		if b.resident {
			b.offset = r.resident
			r.resident += b.bytes
			continue
		}
		x := tiers.Buffer{Size: b.bytes, First: b.first, Last: b.last, Uses: traffic[k]}
		if len(b.storages) > 0 {
			x.Given = r.storages[b.storages[0]].input
			x.Kept = slices.ContainsFunc(b.storages, func(i int32) bool { return r.storages[i].output })
		}
		p.Buffers = append(p.Buffers, x)
		placed = append(placed, k)
	}
	search, end := s.searchContext(ctx)
	defer end()
	found, err := tiers.Solve(search, p)
	var full *tiers.FullError
	switch {
	case errors.As(err, &full):
		return r.poolError(full, placed)
	case errors.Is(err, context.DeadlineExceeded) && s.timeIsUp():
		s.timedOut = true
		if found, err = tiers.Solve(context.WithoutCancel(ctx), p); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	r.tiers = make([]plan.Tier, len(p.Capacities))
	r.arena = 0
	for m, pool := range s.opt.Pools {
		r.tiers[m] = plan.Tier{Capacity: pool.Capacity, BytesPerSecond: pool.BytesPerSecond}
		r.arena += found.Bytes[m]
	}
	r.poolBytes = found.Bytes
	for i, k := range placed {
		b := &r.buffers[k]
		b.pool, b.offset = found.Memory[i], found.Offsets[i]
		for _, u := range traffic[k] {
			r.tiers[b.pool].ReadBytes += u.Read
			r.tiers[b.pool].WrittenBytes += u.Written
		}
	}
	r.prices = nil
	for _, x := range p.Prices() {
		r.prices = append(r.prices, plan.TrafficPrice{Step: x.Step, Price: x.Value})
	}
	r.trafficBound = p.Bound(p.Prices())
	r.optimal = r.arena == r.loads.Peak
	return nil
}

func (r *region) poolError(full *tiers.FullError, placed []int) error {
	e := &PoolError{Step: full.Step, Load: full.Load, Capacity: full.Capacity}
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

// traffic returns what nodes read and write of each buffer, by step, and what they read of
// resident ones. A node reads each of
// its inputs once and writes each of its outputs once. But a view moves nothing; what
// takes elements reads as many bytes as it writes; PutRows that writes over its base reads
// and writes the part alone; and what only makes room for it writes nothing. A workspace is written and read once.
func (r *region) traffic() (uses [][]tiers.Use, resident int64) {
	at := make([]int, len(r.storages))
	for i := range at {
		at[i] = -1
	}
	uses = make([][]tiers.Use, len(r.buffers))
	for k := range r.buffers {
		b := &r.buffers[k]
		if b.node >= 0 {
			uses[k] = []tiers.Use{{Step: int(b.node), Read: b.bytes, Written: b.bytes}}
		}
		for _, i := range b.storages {
			if !b.resident {
				at[i] = k
			}
		}
	}
	use := func(t graph.TensorID, step int, read, written int64) {
		i := r.storageOf[t]
		if i == noStorage || at[i] < 0 || read+written == 0 {
			return
		}
		list := &uses[at[i]]
		if n := len(*list); n == 0 || (*list)[n-1].Step < step {
			*list = append(*list, tiers.Use{Step: step})
		}
		u := &(*list)[len(*list)-1]
		u.Read += read
		u.Written += written
	}
	for v, n := range r.g.Nodes {
		reads, writes := r.moves(n, at)
		for t, bytes := range reads {
			use(t, v, bytes, 0)
			if i := r.storageOf[t]; i != noStorage && r.storages[i].resident && !ops.IsConstant(n) {
				resident += bytes
			}
		}
		for t, bytes := range writes {
			use(t, v, 0, bytes)
		}
	}
	return uses, resident
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
	if r.pools == nil {
		return nil
	}
	x := &plan.Tiered{SlowTrafficBoundBytes: r.trafficBound, ResidentReadBytes: r.residentReads}
	for _, t := range r.tiers[1:] {
		x.SlowTrafficBytes += t.ReadBytes + t.WrittenBytes
	}
	return x
}

// planPools lists the pools of the plan.
func (r *region) planPools(resident int64) []plan.Pool {
	if r.pools == nil {
		list := []plan.Pool{{Name: plan.Arena, Bytes: r.arena}, {Name: plan.Resident, Bytes: resident}}
		if r.host > 0 {
			list = append(list, plan.Pool{Name: plan.Host, Bytes: r.host})
		}
		return list
	}
	var list []plan.Pool
	for m, name := range r.pools {
		list = append(list, plan.Pool{Name: name, Bytes: r.poolBytes[m], Tier: &r.tiers[m]})
	}
	return append(list, plan.Pool{Name: plan.Resident, Bytes: resident})
}
