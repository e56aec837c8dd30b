package alloc

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// parse returns the problem of buffers such as "a:4@0-1", name, size and lifetime, with
// "%8" at the end for an alignment of its own.
func parse(tb testing.TB, text string) Problem {
	tb.Helper()
	var p Problem
	for _, s := range strings.Fields(text) {
		name, rest, _ := strings.Cut(s, ":")
		b := Buffer{ID: name}
		if rest, align, ok := strings.Cut(rest, "%"); ok {
			if _, err := fmt.Sscanf(rest+"%"+align, "%d@%d-%d%%%d", &b.Size, &b.First, &b.Last, &b.Align); err != nil {
				tb.Fatalf("parse %q: %v", s, err)
			}
		} else if _, err := fmt.Sscanf(rest, "%d@%d-%d", &b.Size, &b.First, &b.Last); err != nil {
			tb.Fatalf("parse %q: %v", s, err)
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

const picture = "a:4@0-1 b:2@0-1 c:1@1-2 d:4@2-3" // of the package comment

// drawProblem draws up to n buffers over few steps, so that lifetimes overlap and sizes
// repeat. Some have 0 bytes, and some have an alignment of their own.
func drawProblem(t *rapid.T, n int) Problem {
	p := Problem{Alignment: rapid.SampledFrom([]int64{0, 1, 1, 4, 6}).Draw(t, "alignment")}
	last := rapid.IntRange(0, 3*n).Draw(t, "last")
	for range rapid.IntRange(0, n).Draw(t, "buffers") {
		var b Buffer
		b.First = rapid.IntRange(0, last).Draw(t, "first")
		b.Last = rapid.IntRange(b.First, last).Draw(t, "last")
		b.Size = int64(rapid.IntRange(0, 12).Draw(t, "size"))
		if rapid.IntRange(0, 3).Draw(t, "aligned") == 0 {
			b.Align = rapid.SampledFrom([]int64{1, 2, 3, 8}).Draw(t, "align")
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// optimum returns the smallest arena of a few buffers. It tries all orders, and places
// each buffer on top of all its live neighbours before it in the order.
//
// Proof that this finds the optimum: take an optimal placement and push all buffers down
// until none moves. Then each is at 0 or at the first aligned offset above a live
// neighbour. Placed in the order of these offsets, each gets the same offset again.
func optimum(p Problem) int64 {
	least := int64(-1)
	offsets := make([]int64, len(p.Buffers))
	placed := make([]bool, len(p.Buffers))
	var lay func(count int, arena int64)
	lay = func(count int, arena int64) {
		if count == len(placed) {
			if least < 0 || arena < least {
				least = arena
			}
			return
		}
		for i, b := range p.Buffers {
			if placed[i] {
				continue
			}
			align := max(1, p.Alignment)
			size := (b.Size + align - 1) / align * align
			if b.Align > 0 {
				align, size = b.Align, b.Size
			}
			var off int64
			for j, c := range p.Buffers {
				if placed[j] && b.First <= c.Last && c.First <= b.Last && c.Size > 0 && size > 0 {
					off = max(off, (offsets[j]+align-1)/align*align)
				}
			}
			placed[i] = true
			offsets[i] = off + size // its top, for the buffers above
			lay(count+1, max(arena, off+size))
			placed[i] = false
		}
	}
	lay(0, 0)
	return least
}

// transformer returns the buffers of a training step with about n tensors. A third live
// from the forward to the backward pass, the others for a few steps.
func transformer(n int) Problem {
	sizes := []int64{1 << 20, 1 << 20, 4 << 20, 3 << 20, 48 << 10}
	r := rand.New(rand.NewPCG(2, uint64(n)))
	p := Problem{Alignment: 64}
	steps := n * 2 / 3
	for step := range steps {
		size := sizes[step%len(sizes)]
		if step < steps/2 {
			p.Buffers = append(p.Buffers,
				Buffer{Size: size, First: step, Last: 2*steps/2 - step},
				Buffer{Size: size, First: step, Last: step + 1 + r.IntN(4)})
		} else {
			p.Buffers = append(p.Buffers, Buffer{Size: size, First: step, Last: step + 1 + r.IntN(8)})
		}
	}
	return p
}

// longLived returns buffers of which half live nearly always and half are short.
func longLived(n int) Problem {
	r := rand.New(rand.NewPCG(4, uint64(n)))
	var p Problem
	for i := range n {
		b := Buffer{Size: 1 + r.Int64N(1<<20), First: r.IntN(n / 10), Last: n - 1 - r.IntN(n/10)}
		if i%2 == 0 {
			b.First = r.IntN(n)
			b.Last = b.First + r.IntN(10)
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// tangled returns lifetimes of every length and sizes that do not repeat. This is the
// worst case for firstFit, because gaps of every size stay open.
func tangled(n int) Problem {
	r := rand.New(rand.NewPCG(3, uint64(n)))
	var p Problem
	for range n {
		a, b := r.IntN(2*n), r.IntN(2*n)
		p.Buffers = append(p.Buffers, Buffer{Size: 1 + r.Int64N(1<<20), First: min(a, b), Last: max(a, b)})
	}
	return p
}

// layered returns the buffers of a network of wide layers. Each layer has 64 tensors,
// which the next one or two layers read; one in eight lives for up to a hundred layers
// (skip connections). Sizes are an odd number times a power of two, as in a pyramid.
func layered(n int) Problem {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	p := Problem{Alignment: 64}
	for i := range n {
		layer := i / 64
		b := Buffer{Size: int64(2*r.IntN(5)+1) << (10 + layer/16%10), First: layer*8 + r.IntN(8)}
		b.Last = b.First + 1 + r.IntN(16)
		if r.IntN(8) == 0 {
			b.Last = b.First + 8*r.IntN(100)
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// generators return large problems, one kind each.
var generators = []struct {
	name string
	make func(int) Problem
}{{"training", transformer}, {"long", longLived}, {"random", tangled}, {"layered", layered}}
