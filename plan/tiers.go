package plan

import "slices"

// MaxTiers is the largest number of pools among which a plan divides its buffers.
const MaxTiers = 8

// Tier is what a plan says of a pool that holds some of the buffers outside of resident.
// The pools of a plan with tiers stand in the order of their speed, the fastest first.
type Tier struct {
	Capacity       int64 `json:"capacity"`                   // in bytes
	BytesPerSecond int64 `json:"bytes_per_second,omitempty"` // 0: not known
	ReadBytes      int64 `json:"read_bytes"`                 // that all nodes read there
	WrittenBytes   int64 `json:"written_bytes"`
}

// Tiered holds the traffic of a plan with tiers, in bytes for one run.
type Tiered struct {
	// SlowTrafficBytes is what nodes read and write in all pools of tiers but the first.
	SlowTrafficBytes int64 `json:"slow_traffic_bytes"`
	// SlowTrafficBoundBytes is at most the slow traffic of any plan with this order of
	// nodes, wherever and for however long parts of buffers lie in the first pool.
	SlowTrafficBoundBytes int64 `json:"slow_traffic_lower_bound_bytes"`
	// MovedBuffers are copies of buffers in another pool, which SwapOut and SwapIn make, and
	// MovedBytes their sizes. What they move is part of the traffic.
	MovedBuffers int   `json:"moved_buffers,omitempty"`
	MovedBytes   int64 `json:"moved_bytes,omitempty"`
	// ResidentReadBytes is what nodes read of constants, parameters and states.
	ResidentReadBytes int64 `json:"resident_read_bytes"`
}

// TrafficPrice is what a byte of the first pool is worth between two steps, in bytes of
// traffic: the prices prove SlowTrafficBoundBytes.
type TrafficPrice struct {
	Step  int   `json:"step"` // the later one of the two
	Price int64 `json:"price"`
}

// Tiers returns the pools among which the buffers outside of resident are divided, the
// fastest first; nil if they all lie in the arena.
func (p *Plan) Tiers() (list []Pool) {
	for _, pool := range p.Pools {
		if pool.Tier != nil {
			list = append(list, pool)
		}
	}
	return list
}

// Flat returns a plan in which the pools of tiers lie one after the other in one arena.
// Pools begin at multiples of the alignment. It returns p if there are none.
func (p *Plan) Flat() *Plan {
	tiers := p.Tiers()
	if len(tiers) == 0 {
		return p
	}
	base := map[string]int64{}
	end := int64(0)
	q := *p
	q.Pools = nil
	for _, t := range tiers {
		base[t.Name] = end
		end += t.Bytes
	}
	q.Pools = []Pool{{Name: Arena, Bytes: end}}
	for _, pool := range p.Pools {
		if pool.Tier == nil {
			q.Pools = append(q.Pools, pool)
		}
	}
	q.Buffers = slices.Clone(p.Buffers)
	for i := range q.Buffers {
		if at, tier := base[q.Buffers[i].Pool]; tier {
			q.Buffers[i].Pool = Arena
			q.Buffers[i].Offset += at
		}
	}
	q.Summary.Tiered, q.TrafficPrices = nil, nil
	return &q
}
