package alloc

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// parse makes a problem from buffers as "a:4@0-1", size and lifetime, with
// "%8" after them for an alignment of their own.
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

// drawProblem draws up to n buffers: some of 0 bytes, some aligned on their
// own, over few steps, so that lifetimes and sizes meet.
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

// optimum returns the smallest arena of at most a few buffers. In some optimal
// placement each buffer lies at 0 or at the first aligned offset above a live
// neighbour: push all down until none moves. Laid in the order of such offsets,
// each goes to the top of those neighbours that lie below, so trying all orders,
// each buffer on top of all its neighbours before it, finds it.
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
			offsets[i] = off + size // its top, for those above
			lay(count+1, max(arena, off+size))
			placed[i] = false
		}
	}
	lay(0, 0)
	return least
}

// transformer makes the buffers of a training step of about n tensors: a third
// are kept from the forward to the backward pass, the others live for a few
// steps.
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

// tangled makes lifetimes of every length and sizes that do not repeat: the
// worst mix for place, as holes of every size stay open.
func tangled(n int) Problem {
	r := rand.New(rand.NewPCG(3, uint64(n)))
	var p Problem
	for range n {
		a, b := r.IntN(2*n), r.IntN(2*n)
		p.Buffers = append(p.Buffers, Buffer{Size: 1 + r.Int64N(1<<20), First: min(a, b), Last: max(a, b)})
	}
	return p
}

// longLived makes buffers that live nearly always, mixed with short ones.
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
