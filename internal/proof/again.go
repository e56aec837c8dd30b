package proof

import (
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/onnxmem/onnxmem/internal/proof/model"
)

// ExtraOf is the claim that no plan below a limit runs nodes again for less than bound nanoseconds,
// since the first run of one of firsts, which are asked in turn, needs that. Steps are those of a plan.
func ExtraOf(p *model.Problem, a *model.Again, bound int64, firsts []int32, steps []int) Claim {
	c := Claim{Name: "extra-time", Bytes: bound, Problem: p, Again: a, Firsts: firsts, Steps: steps}
	if bound == 0 {
		c.Refused = "its bound is 0: there is nothing to prove"
	}
	return c
}

// writeAgain writes the formula and the proof of extra time: the first run of a node has to prove the
// bound, at some price for a byte and for a nanosecond.
func (c *Claim) writeAgain(opb, pbp io.Writer) (upper int64, err error) {
	most := int64(0)
	for _, v := range c.Firsts {
		if c.Poll != nil {
			c.Poll()
		}
		f := model.EncodeAgain(c.Problem, c.Again, v)
		x := newRefuter(f, nil, nil, c.Bytes).prices()
		if most = max(most, x.proven); x.proven < c.Bytes {
			continue
		}
		fmt.Fprintf(opb, "* %s\n* The step is the first run of node %s.\n", c.Says, c.Node(v))
		for u := range c.Problem.Before {
			fmt.Fprintf(opb, "* x%d: node %s has run before; z%d: it runs no more\n", u, c.Node(int32(u)), u)
		}
		for _, h := range f.Held {
			var i int32
			fmt.Sscanf(f.Name(h.Lit), "h%d", &i)
			fmt.Fprintf(opb, "* h%d: the %d bytes of %s are held\n", i, h.Bytes, c.Tensor(i))
		}
		return write(opb, pbp, f, c.Bytes, c.atFirst(f, v), func(r *refuter) error { return r.priced(x) }, c.Poll)
	}
	return 0, fmt.Errorf("the first runs of %d nodes prove %d ns, expected %d", len(c.Firsts), most, c.Bytes)
}

// atFirst returns the values at the first run of a node in the plan.
func (c *Claim) atFirst(f *model.Formula, v int32) []bool {
	values := make([]bool, len(f.Names))
	n := len(c.Problem.Before)
	for u := range n {
		values[f.Ran[n+u]] = true
	}
	at := slices.Index(c.Steps, int(v))
	for i, u := range c.Steps {
		if i < at {
			values[f.Ran[u]] = true
		} else {
			values[f.Ran[n+u]] = false
		}
	}
	return completed(f, values, 2*n)
}

// corner is a minimum cut at the prices of a byte and of a nanosecond: the bytes that it holds and
// the nanoseconds that it runs again. At these prices nothing is cheaper.
type corner struct {
	alpha, beta int64
	bytes, time int64
	proven      int64 // no plan takes less time
}

// prices finds those that prove the most. It begins with the cuts of the least time and of the fewest
// bytes. The cut at the prices that give both the same value takes the place of one of them, until
// none is below: what is proven is concave in the price of a byte.
func (r *refuter) prices() (best corner) {
	var bytes, time int64
	for _, h := range r.f.Held {
		bytes += h.Bytes
	}
	for _, x := range r.f.Costs {
		time += x.Bytes
	}
	room := func(sum int64) int64 { return max(1, unlimited/8/max(sum, 1)) }
	costs := slices.Clone(r.f.Costs)
	at := func(alpha, beta int64) corner {
		x := r.cut(costs, alpha, beta)
		if x.proven > best.proven {
			best = x
		}
		return x
	}
	quick, small := at(1, room(time)), at(room(bytes), 1)
	for quick.bytes > r.f.Room && small.bytes <= r.f.Room {
		alpha, beta := small.time-quick.time, quick.bytes-small.bytes
		if alpha <= 0 || beta <= 0 {
			break
		}
		shift := max(0, bits.Len64(uint64(alpha/room(bytes))), bits.Len64(uint64(beta/room(time))))
		x := at(max(1, alpha>>shift), max(1, beta>>shift))
		switch {
		case x.bytes > r.f.Room && x.bytes < quick.bytes:
			quick = x
		case x.bytes <= r.f.Room && x.bytes > small.bytes:
			small = x
		default:
			return best
		}
	}
	return best
}

// price makes the cost of a formula that of what is held and of what runs again.
func (r *refuter) price(costs []model.Cost, alpha, beta int64) {
	f := *r.f
	f.Costs, r.all = nil, 3
	clear(r.bytes)
	add := func(list []model.Cost, price int64) {
		for _, x := range list {
			x.Bytes *= price
			f.Costs = append(f.Costs, x)
			r.bytes[x.Lit] = x.Bytes
			r.all += x.Bytes
		}
	}
	add(r.f.Held, alpha)
	add(costs, beta)
	r.f = &f
}

// cut finds a minimum cut.
func (r *refuter) cut(costs []model.Cost, alpha, beta int64) corner {
	r.price(costs, alpha, beta)
	x := corner{alpha: alpha, beta: beta}
	count := func(i int) {
		if n := len(r.f.Held); i < n {
			x.bytes += r.f.Held[i].Bytes
		} else {
			x.time += costs[i-n].Bytes
		}
	}
	g := newFlow()
	r.nodes(g)
	arcs := map[int]int{} // by cost
	for i, c := range r.f.Costs {
		switch {
		case r.value[c.Lit] > 0:
			count(i)
		case r.value[c.Lit] == 0:
			if arc := r.tensor(g, c); arc >= 0 {
				arcs[i] = arc
			}
		}
	}
	g.max()
	for i, arc := range arcs {
		if g.level[g.arcs[arc^1].to] > 0 && g.level[g.arcs[arc].to] == 0 {
			count(i)
		}
	}
	if over := x.bytes - r.f.Room; over > 0 || x.time > 0 {
		hi, value := bits.Mul64(uint64(alpha), uint64(max(over, -over)))
		if hi == 0 && value < unlimited {
			sum := beta * x.time
			if over > 0 {
				sum += int64(value)
			} else {
				sum -= int64(value)
			}
			x.proven = max(0, (sum+beta-1)/beta)
		}
	}
	return x
}

// priced derives a contradiction: what is held keeps the room, the rest takes less than the bound, but
// at the prices of a corner, the sum is larger.
func (r *refuter) priced(x corner) error {
	costs, bound := slices.Clone(r.f.Costs), r.bound
	r.price(costs, x.alpha, x.beta)
	r.below = r.derive(sum{{id: r.below, times: x.beta}, {id: r.below - 1, times: x.alpha}}, asItIs)
	r.bound = x.alpha*r.f.Room + x.beta*(bound-1) + 1
	_, value, ok := r.leaf(nil)
	if !ok {
		return &short{value, r.bound}
	}
	return nil
}
