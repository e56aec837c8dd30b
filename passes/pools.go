package passes

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
)

// memories are the pools as the planner takes them.
func (o *Options) memories() (list []planner.Memory) {
	for _, p := range o.Pools {
		list = append(list, planner.Memory(p))
	}
	return list
}

var poolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// hostPool is the name of a host's memory among several pools, and hostCapacity stands for one
// without a limit: 1 PiB.
const (
	hostPool     = "host-memory"
	hostCapacity = 1 << 50
)

// allPools lists the pools with a host's memory among them, by the speed of its link: behind the
// first one, which is the fastest, and before those that are said to be slower.
func (o *Options) allPools() []Pool {
	if o.Host == nil || len(o.Pools) == 0 {
		return o.Pools
	}
	at := 1
	for at < len(o.Pools) && (o.Pools[at].BytesPerSecond == 0 || o.Pools[at].BytesPerSecond >= o.Host.Link) {
		at++
	}
	return slices.Insert(slices.Clone(o.Pools), at, Pool{Name: hostPool, Capacity: hostCapacity, BytesPerSecond: o.Host.Link})
}

// checkPools checks the list of pools by itself.
func (o *Options) checkPools() error {
	pools := o.allPools()
	if len(pools) == 1 || len(pools) > plan.MaxTiers {
		return fmt.Errorf("pools: expected from 2 to %d, the fastest first, found %d", plan.MaxTiers, len(pools))
	}
	slowest := int64(math.MaxInt64)
	for i, p := range pools {
		switch {
		case !poolName.MatchString(p.Name) || slices.Contains([]string{plan.Arena, plan.Resident, plan.Host, plan.Workspace}, p.Name):
			return fmt.Errorf("pool %q: expected a name of at most 32 letters, digits, _ and -, and none of %s, %s, %s, %s", graph.Short(p.Name), plan.Arena, plan.Resident, plan.Host, plan.Workspace)
		case slices.ContainsFunc(pools[:i], func(q Pool) bool { return strings.EqualFold(q.Name, p.Name) }):
			return fmt.Errorf("pool %q: expected each name once", p.Name)
		case p.Capacity < 0 || p.BytesPerSecond < 0:
			return fmt.Errorf("pool %q: expected a capacity and a speed of 0 or more, found %d bytes and %d bytes per second", p.Name, p.Capacity, p.BytesPerSecond)
		case p.BytesPerSecond > slowest:
			return fmt.Errorf("pool %q: expected the fastest pools first, found %d bytes per second after %d", p.Name, p.BytesPerSecond, slowest)
		case p.BytesPerSecond > 0:
			slowest = p.BytesPerSecond
		}
	}
	return nil
}

// planPools lists the pools of the plan.
func planPools(r *planner.Region, resident int64) []plan.Pool {
	if r.TierNames == nil {
		list := []plan.Pool{{Name: plan.Arena, Bytes: r.Arena}, {Name: plan.Resident, Bytes: resident}}
		if r.Host > 0 {
			list = append(list, plan.Pool{Name: plan.Host, Bytes: r.Host})
		}
		return list
	}
	var list []plan.Pool
	for m, name := range r.TierNames {
		list = append(list, plan.Pool{Name: name, Bytes: r.PoolBytes[m], Tier: &r.Tiers[m]})
	}
	return append(list, plan.Pool{Name: plan.Resident, Bytes: resident})
}
