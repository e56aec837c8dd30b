package box

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/alloc/stacking"
	"github.com/onnxmem/onnxmem/schedule"
)

// Stack is one order and one stacking for all points.
type Stack struct {
	Order   []int32
	Buffers []schedule.Lifetime // their bytes mean nothing
	Taken   []schedule.Pair     // the in-place pairs
	Stack   *stacking.Stacking

	Listing  []int32 // with Graph.Listed: the nodes as the file lists them
	BestPeak int64   // with it: the smallest peak in bytes of any order at the corner

	fit    Fit
	arenas int64   // bytes: the sum over the points
	chains [][]int // buffers that lie one behind the other

	Memory []int // by buffer: its pool; nil: all lie in one arena
	pools  int   // the number of pools, if there are several
}

// Worst is the arena divided by the bound, at the point where that is largest.
func (s *Stack) Worst() float64 { return s.fit.Worst }

// Arena returns the bytes that the stacking needs for the sizes of a problem.
func (s *Stack) Arena(p *schedule.Problem) (int64, error) {
	sizes, err := s.SizesOf(p)
	if err != nil {
		return 0, err
	}
	return s.Place(sizes)
}

// Peak returns the largest load of buffers with the given sizes.
func (s *Stack) Peak(sizes []int64) (peak int64) {
	change := make([]int64, len(s.Order)+2)
	for i, b := range s.Buffers {
		change[b.First] += sizes[i]
		change[b.Last+1] -= sizes[i]
	}
	load := int64(0)
	for _, c := range change {
		load += c
		peak = max(peak, load)
	}
	return peak
}

// SizesOf returns the bytes of each buffer at a point. The tensors of one have equal sizes.
func (s *Stack) SizesOf(p *schedule.Problem) ([]int64, error) { return sizesOf(p, s.Buffers) }

func sizesOf(p *schedule.Problem, buffers []schedule.Lifetime) ([]int64, error) {
	sizes := make([]int64, len(buffers))
	for i, b := range buffers {
		if b.Node >= 0 {
			sizes[i] = p.Nodes[b.Node].Workspace
			continue
		}
		sizes[i] = p.Tensors[b.Tensors[0]].Bytes
		for _, t := range b.Tensors[1:] {
			if p.Tensors[t].Bytes != sizes[i] {
				return nil, fmt.Errorf("%s: expected the size of the tensor that it overwrites", p.Tensors[t].Name)
			}
		}
	}
	return sizes, nil
}

// stackOrder returns the best stacking for an order. It ends as soon as one is as good as the
// order permits at its worst point.
func (g *Graph) stackOrder(ctx context.Context, x *Search, order []int32, least float64) (*Stack, error) {
	buffers, taken, err := g.buffers(order)
	if err != nil {
		return nil, err
	}
	chains := g.chains(buffers)
	lives := make([]stacking.Lifetime, len(buffers))
	for i, b := range buffers {
		lives[i] = stacking.Lifetime{First: b.First, Last: b.Last}
	}
	var best *Stack
	// The corner, the largest point, is last.
	for k := len(g.Points) - 1; k >= 0; k -= max(1, len(g.Points)/placedPoints) {
		sizes, err := sizesOf(g.Points[k].Problem, buffers)
		if err != nil {
			return nil, err
		}
		offsets, err := placeChains(ctx, sizes, buffers, chains, x.Placement)
		if err != nil {
			return nil, err
		}
		s := &Stack{Order: order, Buffers: buffers, Taken: taken, chains: chains}
		if s.Stack, err = stacking.NewChained(lives, stacking.RankChained(lives, offsets, sizes, chains), chains); err != nil {
			return nil, err
		}
		if err := g.measure(s); err != nil {
			return nil, err
		}
		if best == nil || s.fit.Compare(best.fit) < 0 || s.fit.Compare(best.fit) == 0 && s.arenas < best.arenas {
			best = s
		}
		if best.fit.Worst <= least && best.fit.Above == 0 || x.TimeIsUp() {
			break
		}
	}
	return best, nil
}

// measure finds out what a stacking takes at the points.
func (g *Graph) measure(s *Stack) error {
	for _, p := range g.Points {
		arena, err := s.Arena(p.Problem)
		if err != nil {
			return err
		}
		s.fit.Worst, s.arenas = max(s.fit.Worst, Ratio(arena, p.Bound)), s.arenas+arena
		if g.Keep != nil && g.Keep.Arena {
			s.fit.Above = g.above(arena)
		}
	}
	return nil
}

// placeChains returns offsets of buffers of which some lie one behind the other.
func placeChains(ctx context.Context, sizes []int64, buffers []schedule.Lifetime, chains [][]int, placement string) ([]int64, error) {
	var p alloc.Problem
	for i, b := range buffers {
		p.Buffers = append(p.Buffers, alloc.Buffer{Size: sizes[i], First: b.First, Last: b.Last})
	}
	single := make([]int, 0, len(buffers)) // those that are in no chain
	if len(chains) > 0 {
		all := p.Buffers
		p.Buffers = nil
		chained := make([]bool, len(buffers))
		for _, chain := range chains {
			for _, i := range chain {
				chained[i] = true
			}
		}
		for i := range all {
			if !chained[i] {
				single = append(single, i)
				p.Buffers = append(p.Buffers, all[i])
			}
		}
		for _, chain := range chains {
			parts := make([]alloc.Buffer, len(chain))
			for k, i := range chain {
				parts[k] = all[i]
			}
			p.Buffers = append(p.Buffers, Joined(parts))
		}
	}
	placed, err := alloc.Solve(ctx, p, alloc.Options{Strategy: placement, Effort: alloc.EffortFast, Short: true})
	if err != nil || len(chains) == 0 {
		return placed.Offsets, err
	}
	offsets := make([]int64, len(buffers))
	for k, i := range single {
		offsets[i] = placed.Offsets[k]
	}
	for c, chain := range chains {
		at := placed.Offsets[len(single)+c]
		for _, i := range chain {
			offsets[i] = at
			at += sizes[i]
		}
	}
	return offsets, nil
}

// Joined makes one buffer of buffers that lie one behind the other. It needs all its bytes
// from the first to the last step at which the outermost are live; at the others it has
// gaps.
func Joined(parts []alloc.Buffer) alloc.Buffer {
	first, last := parts[0].First, parts[0].Last
	steps := []int{} // at which the parts that are live change
	size := int64(0)
	at := make([]int64, len(parts))
	for i := range parts {
		b := &parts[i]
		first, last = min(first, b.First), max(last, b.Last)
		steps = append(steps, b.First, b.Last+1)
		at[i] = size
		size += b.Size
	}
	out := alloc.Buffer{Size: size, First: first, Last: last}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	for i := range steps[:len(steps)-1] {
		g := alloc.Gap{First: steps[i], Last: steps[i+1] - 1, From: size}
		for j := range parts {
			if b := &parts[j]; b.First <= g.First && g.First <= b.Last {
				g.From, g.To = min(g.From, at[j]), max(g.To, at[j]+b.Size)
			}
		}
		if g.To == 0 {
			g.From = 0
		}
		if n := len(out.Gaps); n > 0 && out.Gaps[n-1].Last+1 == g.First && out.Gaps[n-1].From == g.From && out.Gaps[n-1].To == g.To {
			out.Gaps[n-1].Last = g.Last
		} else if g.From > 0 || g.To < size {
			out.Gaps = append(out.Gaps, g)
		}
	}
	return out
}

// chains returns the buffers of each parent.
func (g *Graph) chains(buffers []schedule.Lifetime) (chains [][]int) {
	if len(g.Parents) == 0 {
		return nil
	}
	of := map[int32]int{} // by tensor
	for i, b := range buffers {
		for _, t := range b.Tensors {
			of[t] = i
		}
	}
	for _, parent := range g.Parents {
		chain := make([]int, len(parent))
		for k, t := range parent {
			chain[k] = of[t]
		}
		chains = append(chains, chain)
	}
	return chains
}

// buffers returns the buffers of an order at any point, also those that have 0 bytes at the
// corner, as they may have some elsewhere, and the in-place pairs of the corner.
func (g *Graph) buffers(order []int32) ([]schedule.Lifetime, []schedule.Pair, error) {
	corner := g.Corner().Problem
	e, err := corner.Evaluate(order)
	if err != nil {
		return nil, nil, err
	}
	p := *corner
	p.Tensors = slices.Clone(p.Tensors)
	for i := range p.Tensors {
		covered := i < len(g.Covered) && g.Covered[i]
		if t := &p.Tensors[i]; t.Kind != "control" && !covered {
			t.Bytes = 1
		}
	}
	buffers, err := p.Lifetimes(order, e.Taken)
	return buffers, e.Taken, err
}
