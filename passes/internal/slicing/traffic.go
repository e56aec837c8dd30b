package slicing

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Traffic returns regions with disjoint windows whose slices fit into a fast memory, such
// that nodes move few bytes in a slow one; nil if no regions move fewer. fast is the capacity
// in bytes. Of it, inside is the share that what a slice makes may take. Up to the share cold
// of it, what a node moves at a step of such a load counts as fast. As many bytes as rate
// count as much as a nanosecond of extra time. The search is that of [Search.Cover], with
// another cost:
//
//   - A node that runs whole, at a step whose load exceeds that share, moves all that it
//     reads and makes; at other steps, nothing.
//   - Slices move the rows of the inputs that they read and of the outputs that they write,
//     but for those inputs and outputs that fit into the fast memory beside a slice.
func (s *Search) Traffic(ctx context.Context, fast int64, inside, cold, rate float64) (list []*Choice) {
	n := len(s.g.Nodes)
	whole := make([]float64, n+1) // of the nodes before v, if they run whole
	for v := range n {
		whole[v+1] = whole[v]
		if float64(s.Loads[v]) > cold*float64(fast) {
			whole[v+1] += float64(s.moves(v))
		}
	}
	cost, from := make([]float64, n+1), make([]*Choice, n+1)
	for v := 1; v <= n; v++ {
		cost[v] = math.Inf(1)
	}
	for v := range n {
		if ctx.Err() != nil {
			return nil
		}
		if now := cost[v] + whole[v+1] - whole[v]; now < cost[v+1] {
			cost[v+1], from[v+1] = now, nil
		}
		if _, start := slices.BinarySearch(s.starts, v); !start {
			continue
		}
		first, _ := slices.BinarySearch(s.ends, v)
		for _, e := range s.ends[first:] {
			if e-v >= s.Reach {
				break
			}
			if whole[e+1] == whole[v] {
				continue
			}
			most := min(cost[e+1], cost[v]+whole[e+1]-whole[v]) - cost[v]
			for _, c := range s.at(v, e) {
				if t, now := c.cheapest(fast, inside, rate, whole, most); t != nil {
					cost[e+1], from[e+1], most = cost[v]+now, t, now
				}
			}
		}
	}
	for v := n; v > 0; {
		if c := from[v]; c != nil {
			list = append(list, c)
			v = c.Start
		} else {
			v--
		}
	}
	slices.Reverse(list)
	return list
}

// moves returns the bytes that a node reads and makes outside of resident memory when it
// runs whole.
func (p *Program) moves(v int) (bytes int64) {
	n := p.g.Nodes[v]
	if p.view(n) {
		return 0
	}
	for _, t := range n.Outputs {
		if t >= 0 && !p.resident(t) {
			bytes += p.g.Tensors[t].Bytes
		}
	}
	made := bytes
	for j, t := range distinct(n.Inputs) {
		if p.resident(t) {
			continue
		}
		if j == 0 && ops.ReadsOutput(n) {
			bytes += min(made, p.g.Tensors[t].Bytes)
		} else {
			bytes += p.g.Tensors[t].Bytes
		}
	}
	return bytes
}

// moreCounts is how many numbers of slices are tried from the smallest on that fits: more
// slices leave more room for inputs and outputs, but compute and read more halos.
const moreCounts = 4

// cheapest returns the number of slices with the least cost, if that is below most. whole
// is the cost of the nodes before each.
func (c *candidate) cheapest(fast int64, inside, rate float64, whole []float64, most float64) (best *Choice, cost float64) {
	least := 0.0
	for v := c.Start; v <= c.End; v++ {
		if !c.has(v) {
			least += whole[v+1] - whole[v]
		}
	}
	for _, list := range [][]graph.TensorID{c.Inputs, c.Outputs} {
		for _, t := range list {
			if b := c.p.whole(t); b > fast {
				least += float64(c.p.g.Tensors[t].Bytes)
			}
		}
	}
	if least >= most {
		return nil, 0
	}
	if c.most == -2 {
		for c.most = len(Counts) - 1; c.most >= 0 && !c.measured(c.most).possible; {
			c.most--
		}
	}
	fits := func(x int) bool {
		m := c.measured(x)
		return m.possible && float64(m.inner) <= inside*float64(fast)
	}
	low, high := 0, c.most
	if high < 0 || !fits(high) {
		return nil, 0
	}
	for low < high {
		if mid := (low + high) / 2; fits(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	for x := high; x <= min(c.most, high+moreCounts); x++ {
		m := c.measured(x)
		if !m.possible || m.inner > fast || least+rate*m.extra >= most {
			continue
		}
		now := rate*m.extra + c.moved(Counts[x], fast-m.inner)
		for v := c.Start; v <= c.End; v++ {
			if !c.has(v) {
				now += whole[v+1] - whole[v]
			}
		}
		if now < most {
			best, cost, most = c.at(x), now, now
		}
	}
	return best, cost
}

// moved returns the bytes that k slices read of inputs and write of outputs, but of those
// that fit into what is left of the fast memory, the most moved for its bytes first.
func (c *candidate) moved(k int, left int64) float64 {
	p := c.p
	type share struct {
		bytes int64
		moved float64
	}
	of := map[int32]int{}
	var list []share
	add := func(t graph.TensorID, bytes float64) {
		b := p.whole(t)
		if b == 0 {
			return
		}
		at, known := of[p.Of[t]]
		if !known {
			at = len(list)
			of[p.Of[t]] = at
			list = append(list, share{bytes: b})
		}
		list[at].moved += bytes
	}
	for _, s := range c.probes(k) {
		type rows struct {
			t graph.TensorID
			w Range
		}
		taken := map[rows]bool{}
		for x, v := range c.Nodes {
			n := p.g.Nodes[v]
			if p.view(n) {
				continue
			}
			for j, t := range n.Inputs {
				if t < 0 {
					continue
				}
				if _, made := c.made[t]; made {
					continue
				}
				w := s.Node[x].In[j]
				switch {
				case w.Axis == ops.Whole:
					add(t, s.weight*float64(p.g.Tensors[t].Bytes))
				case !taken[rows{t, w}]:
					taken[rows{t, w}] = true
					add(t, s.weight*float64(p.exactBytes(t, w.Axis, w.Hi-w.Lo)))
				}
			}
		}
	}
	for _, t := range c.Outputs {
		add(t, float64(p.g.Tensors[t].Bytes))
	}
	slices.SortStableFunc(list, func(a, b share) int { return cmp.Compare(b.moved/float64(b.bytes), a.moved/float64(a.bytes)) })
	sum := 0.0
	for _, x := range list {
		if x.bytes <= left {
			left -= x.bytes
		} else {
			sum += x.moved
		}
	}
	return sum
}
