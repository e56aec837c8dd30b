package verify

import (
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

var tierName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// pools checks the list of pools, and what nodes move in those with a capacity.
func (v *verifier) pools() bool {
	v.listed(v.main, v.sum)
	v.checkTraffic(v.main, &v.sum)
	return true
}

// listed checks the list of pools, and that resident buffers lie within their
// pool.
func (v *verifier) listed(s *scope, sum plan.Summary) {
	want := map[string]int64{plan.Resident: sum.ResidentBytes}
	if v.checkTiers(s); len(v.Plan.Tiers()) == 0 {
		want[plan.Arena] = sum.ArenaBytes
	}
	for _, t := range v.Plan.Tiers() {
		want[t.Name] = s.top(t.Name)
	}
	if host := s.top(plan.Host); host > 0 {
		want[plan.Host] = host
	}
	seen := map[string]bool{}
	for _, p := range v.Plan.Pools {
		bytes, known := want[p.Name]
		switch {
		case !known:
			v.Fault(CodePool, "pools: no pool %q: expected %s", graph.Short(p.Name), strings.Join(sortedKeys(want), ", "))
		case seen[p.Name]:
			v.Fault(CodePool, "pools: %q is listed twice", p.Name)
		case p.Bytes != bytes:
			v.Fault(CodePool, "pools: %s: expected %d bytes, found %d", p.Name, bytes, p.Bytes)
		}
		seen[p.Name] = true
	}
	for _, name := range sortedKeys(want) {
		if !seen[name] {
			v.Fault(CodePool, "pools: %q is missing: expected %d bytes", name, want[name])
		}
	}
	for i := range v.resident {
		if x := &v.resident[i]; x.End > sum.ResidentBytes {
			v.Fault(CodePool, "%s: ends at byte %d of pool resident: expected at most %d, the sum of all resident buffers", x.label(), x.End, sum.ResidentBytes)
		}
	}
}

// isTier reports whether a name is that of a pool among which the plan divides the
// buffers of the main graph.
func (v *verifier) isTier(name string) bool {
	return slices.ContainsFunc(v.Plan.Tiers(), func(p plan.Pool) bool { return p.Name == name })
}

// checkTiers checks the pools of tiers on their own: their names, their order, and that
// each is as large as its buffers and no larger than its capacity.
func (v *verifier) checkTiers(s *scope) {
	tiers := v.Plan.Tiers()
	if len(tiers) == 1 || len(tiers) > plan.MaxTiers {
		v.Fault(CodePool, "pools: expected from 2 to %d with a capacity, or none, found %d", plan.MaxTiers, len(tiers))
	}
	slowest := int64(math.MaxInt64)
	for _, t := range tiers {
		if !tierName.MatchString(t.Name) || slices.Contains([]string{plan.Arena, plan.Resident, plan.Host, plan.Workspace}, t.Name) {
			v.Fault(CodePool, "pools: expected a name of letters, digits, _ and - that is not taken, found %q", graph.Short(t.Name))
		}
		if top := s.top(t.Name); t.Capacity < top {
			v.Fault(CodePool, "pools: %s: expected at most %d bytes, its capacity, found %d", graph.Short(t.Name), t.Capacity, top)
		}
		if t.BytesPerSecond < 0 || t.BytesPerSecond > slowest {
			v.Fault(CodePool, "pools: %s: expected a speed from 0 to %d bytes per second, that of a pool before, found %d", graph.Short(t.Name), slowest, t.BytesPerSecond)
		}
		if t.BytesPerSecond > 0 {
			slowest = t.BytesPerSecond
		}
	}
}

// access is what one node moves of one buffer.
type access struct {
	step          int
	read, written int64
	lo, hi        int64 // the rows of which these bytes are; hi 0: not known
}

// layer says how rows lie in a tensor: how often the axis is repeated, its length, and
// the bytes of the tensor.
type layer struct{ times, length, bytes int64 }

// checkTraffic computes what nodes read and write in each pool, and the bound from the
// plan's prices, and adds the figures to the summary.
func (v *verifier) checkTraffic(s *scope, sum *plan.Summary) {
	tiers := v.Plan.Tiers()
	if len(tiers) == 0 {
		if v.Plan.TrafficPrices != nil {
			v.Fault(CodeTraffic, "traffic_prices: expected none without pools of a capacity, found %d", len(v.Plan.TrafficPrices))
		}
		return
	}
	sum.Tiered = &plan.Tiered{}
	uses, layers := s.accesses(&sum.ResidentReadBytes)
	for i, t := range tiers {
		var read, written int64
		for k := range s.buffers {
			if s.list[k].Pool != t.Name {
				continue
			}
			for _, u := range uses[k] {
				read, written = v.add(read, u.read), v.add(written, u.written)
			}
		}
		if read != t.ReadBytes || written != t.WrittenBytes {
			v.Fault(CodeTraffic, "pools: %s: expected %d bytes read and %d written, found %d and %d", graph.Short(t.Name), read, written, t.ReadBytes, t.WrittenBytes)
		}
		if i > 0 {
			sum.SlowTrafficBytes = v.add(sum.SlowTrafficBytes, v.add(read, written))
		}
	}
	groups := v.moves(s, uses, layers, sum.Tiered)
	sum.SlowTrafficBoundBytes = v.trafficBound(s, groups, uses, layers, tiers[0].Capacity)
}

// moves gives buffers and the copies of them that the plan has added one list of uses,
// without those of the nodes that copy: the bound is that of the nodes that were there
// before. It returns for each buffer the one whose list it shares, and counts the copies.
// Nothing may write a buffer or its copy while both are used: they would not be one.
func (v *verifier) moves(s *scope, uses [][]access, layers []*layer, sum *plan.Tiered) (groups []int) {
	groups = make([]int, len(s.buffers))
	for k := range groups {
		groups[k] = k
	}
	var copies []int
	for i, n := range s.g.Nodes {
		if i >= len(v.added) || !v.added[i] || !n.IsSwap() {
			continue
		}
		from, to := int(s.at[n.Inputs[0]]), int(s.at[n.Outputs[0]])
		if from < 0 || to < 0 {
			continue // reported elsewhere
		}
		sum.MovedBuffers++
		sum.MovedBytes = v.add(sum.MovedBytes, s.g.Tensors[n.Outputs[0]].Bytes)
		if !slices.ContainsFunc(uses[from], func(u access) bool { return u.step > i }) {
			copies, groups[to] = append(copies, i), groups[from] // it is moved
			continue
		}
		for _, k := range []int{from, to} {
			if slices.ContainsFunc(uses[k], func(u access) bool { return u.step > i && u.written > 0 }) {
				v.Fault(CodeTraffic, "%s: expected no node behind it that writes over what it copies or over the copy, found one", s.g.Label(graph.NodeID(i)))
			}
		}
		groups[to] = groups[from]
		copies = append(copies, i)
	}
	if copies == nil {
		return groups
	}
	merged := make([][]access, len(uses))
	for k := range uses {
		for _, u := range uses[k] {
			if !slices.Contains(copies, u.step) {
				merged[groups[k]] = append(merged[groups[k]], u)
			}
		}
		if of := groups[k]; of != k {
			if layers[of] != nil && (layers[k] == nil || layers[k].length != layers[of].length) {
				layers[of] = nil
			}
		}
	}
	for k := range merged {
		slices.SortStableFunc(merged[k], func(a, b access) int { return a.step - b.step })
	}
	copy(uses, merged)
	return groups
}

// accesses lists what nodes move of each buffer, in the order of the steps, and adds what
// they read of resident ones. A buffer of whose rows all accesses that name any speak in
// the same way has a layer.
func (s *scope) accesses(resident *int64) (uses [][]access, layers []*layer) {
	uses, layers = make([][]access, len(s.buffers)), make([]*layer, len(s.buffers))
	several := make([]bool, len(s.buffers))
	for k := range s.buffers {
		if b := &s.buffers[k]; b.Known && len(b.Storages) == 0 {
			uses[k] = []access{{step: b.First, read: b.Bytes, written: b.Bytes}} // a workspace
		}
	}
	for step, n := range s.g.Nodes {
		part, lo, hi, in := s.rowsMoved(n)
		move := func(t graph.TensorID, read, written int64) {
			k := s.at[t]
			if i := s.storageOf[t]; i != none && s.Storages[i].Resident {
				if !ops.IsConstant(n) {
					*resident = s.v.add(*resident, read)
				}
				return
			}
			if k < 0 || read == 0 && written == 0 {
				return
			}
			now := access{step: step}
			if t == part {
				now.lo, now.hi = lo, hi
				several[k] = several[k] || layers[k] != nil && *layers[k] != in
				layers[k] = &in
			}
			if m := len(uses[k]); m == 0 || uses[k][m-1].step != step {
				uses[k] = append(uses[k], now)
			} else if last := uses[k][m-1]; last.lo != now.lo || last.hi != now.hi {
				several[k] = true
			}
			u := &uses[k][len(uses[k])-1]
			u.read, u.written = s.v.add(u.read, read), s.v.add(u.written, written)
		}
		if n.IsPutRows() && s.at[n.Inputs[0]] >= 0 && s.at[n.Inputs[0]] == s.at[n.Outputs[0]] {
			part := s.g.Tensors[n.Inputs[1]].Bytes // the other rows stay where they are
			move(n.Inputs[1], part, 0)
			move(n.Outputs[0], 0, part)
			continue
		}
		if s.g.MakesRoom(n) {
			continue // it need not be written
		}
		written, outputs, views, sized := int64(0), 0, 0, true
		for k, t := range n.Outputs {
			if t < 0 {
				continue
			}
			if from := s.viewedStorage(n, k); from != none && from == s.storageOf[t] {
				views++
				continue
			}
			outputs++
			sized = sized && s.storageOf[t] != none
			written = s.v.add(written, s.g.Tensors[t].Bytes)
		}
		if outputs == 0 && views > 0 {
			continue // nothing moves
		}
		seen := map[graph.TensorID]bool{}
		n.Reads(func(t graph.TensorID) {
			if seen[t] {
				return
			}
			seen[t] = true
			bytes := s.g.Tensors[t].Bytes
			if sized && t == n.Inputs[0] && ops.ReadsOutput(n) {
				bytes = min(bytes, written)
			}
			move(t, bytes, 0)
		})
		for k, t := range n.Outputs {
			if t >= 0 && (s.viewedStorage(n, k) == none || s.viewedStorage(n, k) != s.storageOf[t]) {
				move(t, 0, s.g.Tensors[t].Bytes)
			}
		}
	}
	for k := range layers {
		if layers[k] != nil && (several[k] || layers[k].bytes != s.content(&s.buffers[k])) {
			layers[k] = nil
		}
	}
	return uses, layers
}

// content returns the bytes of the largest tensor of a buffer.
func (s *scope) content(b *core.Buffer) (bytes int64) {
	for _, i := range b.Storages {
		for _, t := range s.origins[i].tensors {
			bytes = max(bytes, s.g.Tensors[t].Bytes)
		}
	}
	if bytes == 0 {
		return b.Bytes
	}
	return min(bytes, b.Bytes)
}

// rowsMoved returns the tensor of which a Slice reads rows or in which PutRows writes
// them, and those rows; none if a node does something else or the rows are not known.
func (s *scope) rowsMoved(n *graph.Node) (t graph.TensorID, lo, hi int64, in layer) {
	scalar := func(k int) int64 {
		if k < len(n.Inputs) && n.Inputs[k] >= 0 {
			if d := s.g.Tensors[n.Inputs[k]].Data; d != nil {
				if v, ok := d.Integers(1); ok && len(v) == 1 {
					return v[0]
				}
			}
		}
		return -1
	}
	axis := scalar(3)
	switch {
	case axis < 0:
		return none, 0, 0, in
	case n.IsPutRows():
		t, lo = n.Outputs[0], scalar(2)
		part := s.g.Tensors[n.Inputs[1]].Type
		if !part.Exact() || axis >= int64(len(part.Shape)) {
			return none, 0, 0, in
		}
		hi = lo + int64(part.Shape[axis])
	case n.Domain == "" && n.Op == "Slice" && len(n.Inputs) == 4 && n.Inputs[0] >= 0:
		t, lo, hi = n.Inputs[0], scalar(1), scalar(2)
	default:
		return none, 0, 0, in
	}
	whole := s.g.Tensors[t]
	if !whole.Type.Exact() || axis >= int64(len(whole.Type.Shape)) || lo < 0 || hi <= lo || hi > int64(whole.Type.Shape[axis]) {
		return none, 0, 0, in
	}
	in = layer{1, int64(whole.Type.Shape[axis]), whole.Bytes}
	for _, d := range whole.Type.Shape[:axis] {
		in.times *= int64(d)
	}
	return t, lo, hi, in
}

// trafficBound evaluates the plan's prices. What a node reads has stayed in the first
// pool since the use before, or it is read from another; what was written in between, and
// is among it, was then written there, too. Each byte that stays is worth the prices of
// the steps over which it does; the whole pool is worth the prices times its capacity. So
// what stays saves at most that, and what single bytes save beyond their worth.
func (v *verifier) trafficBound(s *scope, groups []int, uses [][]access, layers []*layer, capacity int64) int64 {
	steps := len(s.g.Nodes)
	until := make([]*big.Int, steps+2) // the prices before steps 0 to i-1
	until[0] = new(big.Int)
	next := 0
	for i := range steps + 1 {
		until[i+1] = until[i]
		if next < len(v.Plan.TrafficPrices) && v.Plan.TrafficPrices[next].Step == i && v.Plan.TrafficPrices[next].Price > 0 {
			until[i+1] = new(big.Int).Add(until[i], big.NewInt(v.Plan.TrafficPrices[next].Price))
			next++
		}
	}
	if next < len(v.Plan.TrafficPrices) {
		v.Fault(CodeTraffic, "traffic_prices: entry %d: expected prices above 0, ascending by steps up to %d, found %d at step %d", next, steps, v.Plan.TrafficPrices[next].Price, v.Plan.TrafficPrices[next].Step)
		return 0
	}
	v.traffic = proof.Traffic{Capacity: capacity}
	for _, x := range v.Plan.TrafficPrices {
		v.traffic.Steps, v.traffic.Prices = append(v.traffic.Steps, x.Step), append(v.traffic.Prices, x.Price)
	}
	bound := new(big.Int)
	stay := func(from, to int, bytes, saves int64) { // of bytes that stay from behind one step to another
		if bytes > 0 && until[to+1].Cmp(until[from+1]) > 0 {
			v.traffic.Stays = append(v.traffic.Stays, model.Stay{From: from, To: to, Bytes: bytes, Cost: saves})
		}
		worth := new(big.Int).Sub(until[to+1], until[from+1])
		if least := big.NewInt(saves); worth.Cmp(least) > 0 {
			worth = least
		}
		bound.Add(bound, worth.Mul(worth, big.NewInt(bytes)))
	}
	end := func(k int) (last int) {
		for j := range s.buffers {
			if groups[j] == k {
				last = max(last, s.buffers[j].Last)
			}
		}
		return last
	}
	for k := range s.buffers {
		b := &s.buffers[k]
		if !b.Known || b.Resident || b.Host || groups[k] != k {
			continue
		}
		given := len(b.Storages) > 0 && s.origins[b.Storages[0]].input
		kept := slices.ContainsFunc(b.Storages, func(i int32) bool { return s.Storages[i].Output })
		for _, x := range divided(uses[k], layers[k], s.content(b)) {
			last, there, fresh := -1, given, int64(0)
			for _, u := range x.uses {
				read := min(u.read, x.bytes)
				if read > 0 && there {
					twice := int64(0)
					if fresh == x.bytes || read == x.bytes {
						twice = min(fresh, read)
					}
					stay(last, u.step, twice, 2)
					stay(last, u.step, read-twice, 1)
					fresh = 0
				}
				fresh = max(fresh, min(u.written, x.bytes))
				last, there = u.step, true
			}
			if kept {
				stay(last, min(end(k)+1, steps), fresh, 1) // a graph without nodes ends at step 0
			}
		}
	}
	all := new(big.Int).Mul(until[steps+1], big.NewInt(capacity))
	if bound.Sub(bound, all); bound.Sign() < 0 || !bound.IsInt64() {
		return 0
	}
	return bound.Int64()
}

// stretch is some of the rows of a buffer, of which each access moves all or none.
type stretch struct {
	bytes int64
	uses  []access
}

// divided returns the stretches of a buffer: one if nothing is known of its rows.
func divided(uses []access, in *layer, whole int64) (list []stretch) {
	if in == nil || whole%in.length != 0 {
		return []stretch{{whole, uses}}
	}
	row := whole / in.length
	cuts := map[int64]bool{in.length: true}
	for _, u := range uses {
		if u.hi > 0 {
			cuts[u.lo], cuts[u.hi] = true, true
		}
	}
	from := int64(0)
	for _, to := range sortedKeys(cuts) {
		if to == 0 {
			continue
		}
		x := stretch{bytes: row * (to - from)}
		for _, u := range uses {
			lo, hi := u.lo, u.hi
			if hi == 0 {
				hi = in.length
			}
			if lo >= to || hi <= from {
				continue
			}
			now := access{step: u.step}
			if u.read >= row*(hi-lo) {
				now.read = x.bytes
			}
			if u.written >= row*(hi-lo) {
				now.written = x.bytes
			}
			x.uses = append(x.uses, now)
		}
		list = append(list, x)
		from = to
	}
	return list
}
