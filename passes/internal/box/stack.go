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
