package tiers

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/internal/units"
)

// Price is what a byte of the first memory is worth while it holds something between the
// node of step Step-1 and that of Step.
type Price struct {
	Step  int   // 0: before the first node
	Value int64 // bytes of traffic, above 0
}

// arc is a part of a buffer between two of its uses: bytes that save traffic if they stay
// in the first memory after step from, until step to. A step of -1 is before the first.
type arc struct {
	from, to int
	bytes    int64
	saves    int64 // by each byte: 1 if it is read or written otherwise, 2 if both
}

// arcs returns what can save traffic. Bytes that a node reads must stay since the use
// before, or they are read from a slow memory; and if a node has written them in between,
// they were written to it.
func (p *Problem) arcs() (list []arc) {
	for i := range p.Buffers {
		b := &p.Buffers[i]
		for _, x := range b.parts() {
			list = x.arcs(b, list)
		}
	}
	return list
}

// part is a part of a buffer that each use reads all of, in some part or not at all, and
// likewise writes.
type part struct {
	content int64 // bytes
	uses    []Use
}

// parts divides a buffer at the rows at which a use begins or ends.
func (b *Buffer) parts() []part {
	content := b.Size
	if b.Content > 0 {
		content = min(b.Content, b.Size)
	}
	if b.Rows == 0 || content%b.Rows > 0 {
		return []part{{content, b.Uses}}
	}
	ends := []int64{0, b.Rows}
	for _, u := range b.Uses {
		ends = append(ends, u.From, u.To)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	var list []part
	for k, end := range ends[1:] {
		x := part{content: content / b.Rows * (end - ends[k])}
		for _, u := range b.Uses {
			from, to := u.From, u.To
			if to == 0 {
				from, to = 0, b.Rows
			}
			if to <= ends[k] || end <= from {
				continue
			}
			// A number of bytes that is not that of the rows tells nothing of the part.
			all := content / b.Rows * (to - from)
			share := func(bytes int64) int64 {
				if bytes < all {
					return 0
				}
				return x.content
			}
			x.uses = append(x.uses, Use{Step: u.Step, Read: share(u.Read), Written: share(u.Written)})
		}
		list = append(list, x)
	}
	return list
}

// arcs appends those of a part of a buffer. Where the writes since the last read, or the
// read, are of all the content, the bytes read are among those written. Where both are of
// a part, which the counts do not tell, only the read counts.
func (x *part) arcs(b *Buffer, list []arc) []arc {
	before, known, written := -1, b.Given, int64(0) // written: since the last read
	for _, u := range x.uses {
		if read := min(u.Read, x.content); read > 0 && known {
			both := int64(0)
			if written == x.content || read == x.content {
				both = min(written, read)
			}
			if both > 0 {
				list = append(list, arc{before, u.Step, both, 2})
			}
			if read > both {
				list = append(list, arc{before, u.Step, read - both, 1})
			}
			written = 0
		}
		written = max(written, min(u.Written, x.content))
		before, known = u.Step, true
	}
	if b.Kept && written > 0 {
		list = append(list, arc{before, b.Last + 1, written, 1})
	}
	return list
}

// priceWork limits the number of edges that Prices looks at.
const priceWork = 200_000_000

// Prices returns prices for which [Problem.Bound] is largest: those of a flow of minimum
// cost. The bytes of the first memory flow from step to step; each waits, or stands for a
// byte of an arc and saves its traffic. The prices are the dual solution. The flow takes
// one shortest path after the other, O(arcs · log arcs) each; after priceWork it stops,
// and the bound is smaller.
func (p *Problem) Prices() []Price {
	arcs := p.arcs()
	var points []int
	amount := int64(0)
	for _, a := range arcs {
		amount = units.Add(amount, a.bytes)
		points = append(points, a.from, a.to)
	}
	slices.Sort(points)
	points = slices.Compact(points)
	at := func(step int) int {
		k, _ := slices.BinarySearch(points, step)
		return k
	}
	if len(arcs) == 0 {
		return nil
	}
	f := newFlow(len(points))
	amount = min(amount, p.Capacities[0], math.MaxInt64-1)
	for v := range len(points) - 1 {
		f.edge(v, v+1, amount+1, 0) // never full, so no price is below 0
	}
	for _, a := range arcs {
		f.edge(at(a.from), at(a.to), a.bytes, -a.saves)
	}
	f.send(amount, priceWork)
	var list []Price
	for v := range len(points) - 1 {
		if value := f.potential[v] - f.potential[v+1]; value > 0 {
			list = append(list, Price{points[v] + 1, value})
		}
	}
	return list
}

// Bound returns a lower bound, in bytes, on the slow traffic of any plan in this order,
// wherever and for however long parts of buffers lie in the first memory. It is what all arcs
// can save, less what they save by the prices. A byte of an arc saves at most what its places
// in the first memory are worth, and what it saves beyond that; and all places together are
// worth the prices times the capacity. So any prices give a valid bound. Prices are ascending
// by their steps.
func (p *Problem) Bound(prices []Price) int64 {
	worth := newWorth(prices)
	all, saved, end := int64(0), int64(0), 0
	for _, a := range p.arcs() {
		all = units.Add(all, units.Mul(a.bytes, a.saves))
		saved = units.Add(saved, units.Mul(a.bytes, max(0, a.saves-worth.between(a.from+1, a.to+1))))
		end = max(end, a.to+1)
	}
	saved = units.Add(saved, units.Mul(p.Capacities[0], worth.between(0, end)))
	return max(0, all-saved)
}

// worth sums prices.
type worth struct {
	prices []Price
	sums   []int64 // of the prices before each entry, and of all
}

func newWorth(prices []Price) *worth {
	w := &worth{prices, make([]int64, len(prices)+1)}
	for k, x := range prices {
		w.sums[k+1] = units.Add(w.sums[k], x.Value)
	}
	return w
}

// between returns the sum of the prices before steps from to end-1.
func (w *worth) between(from, end int) int64 {
	at := func(step int) int64 {
		k, _ := slices.BinarySearchFunc(w.prices, step, func(x Price, step int) int { return x.Step - step })
		return w.sums[k]
	}
	return at(end) - at(from)
}
