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
func (s *Search) Traffic(ctx context.Context, fast int64, inside, cold, rate float64) (list []*Pick) {
	n := len(s.g.Nodes)
	whole := make([]float64, n+1) // of the nodes before v, if they run whole
	for v := range n {
		whole[v+1] = whole[v]
		if float64(s.Loads[v]) > cold*float64(fast) {
			whole[v+1] += float64(s.moves(v))
		}
	}
	cost, from := make([]float64, n+1), make([]*Pick, n+1)
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
		for to := first; to < len(s.ends); to++ {
			e := s.ends[to]
			if e-v >= s.Reach {
				break
			}
			if whole[e+1] == whole[v] {
				continue
			}
			most := min(cost[e+1], cost[v]+whole[e+1]-whole[v]) - cost[v]
			for _, c := range s.at(v, to).list {
				at := place{candidate: c, s: s, start: v}
				if t, now := at.cheapest(fast, inside, rate, whole, most); t != nil {
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
func (c *place) cheapest(fast int64, inside, rate float64, whole []float64, most float64) (best *Pick, cost float64) {
	c.findMost()
	fits := func(x int) bool {
		m := c.measured(x)
		return m.possible && float64(m.inner) <= inside*float64(fast)
	}
	low, high := 0, c.most
	if high < 0 || !fits(high) {
		return nil, 0
	}
	r, least := c.s.Find(c.start, c.start+c.length-1, c.start+c.seed, c.axis), 0.0
	for v := r.Start; v <= r.End; v++ {
		if !r.has(v) {
			least += whole[v+1] - whole[v]
		}
	}
	others := least
	for _, list := range [][]graph.TensorID{r.Inputs, r.Outputs} {
		for _, t := range list {
			if b := r.p.whole(t); b > fast {
				least += float64(r.p.g.Tensors[t].Bytes)
			}
		}
	}
	if least >= most {
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
		if now := others + rate*m.extra + r.moved(Counts[x], fast-m.inner); now < most {
			best, cost, most = c.pick(c.at(x)), now, now
		}
	}
	return best, cost
}

// moved returns the bytes that k slices read of inputs and write of outputs, but of those
// that fit into what is left of the fast memory, the most moved for its bytes first.
func (r *Region) moved(k int, left int64) float64 {
	p := r.p
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
	for _, s := range r.probes(k) {
		type rows struct {
			t graph.TensorID
			w Range
		}
		taken := map[rows]bool{}
		for x, v := range r.Nodes {
			n := p.g.Nodes[v]
			if p.view(n) {
				continue
			}
			for j, t := range n.Inputs {
				if t < 0 {
					continue
				}
				if r.Makes(t) {
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
	for _, t := range r.Outputs {
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
