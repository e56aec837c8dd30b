package plan

import (
	"fmt"
	"slices"
)

// Whole returns the place of the tensors of span i as one buffer: from the offset of its
// first buffer to the end of its last one, live as long as any of them. The spans must be
// those of a consistent plan ([Plan.Check]).
func (p *Plan) Whole(i int) Buffer {
	s := &p.Spans[i]
	first := &p.Buffers[s.Buffers[0]]
	out := Buffer{Pool: first.Pool, Offset: first.Offset, First: first.First, Last: first.Last, Kind: first.Kind, Tensors: s.Tensors}
	for _, k := range s.Buffers {
		b := &p.Buffers[k]
		out.Bytes += b.Bytes
		out.First, out.Last = min(out.First, b.First), max(out.Last, b.Last)
	}
	return out
}

// PartOf returns the name of the first listed tensor that lies in a buffer of the plan and
// in others, "" if there is none. It takes O(spans) time.
func (p *Plan) PartOf(b *Buffer) string {
	for i := range p.Spans {
		for _, k := range p.Spans[i].Buffers {
			if &p.Buffers[k] == b {
				return p.Spans[i].Tensors[0]
			}
		}
	}
	return ""
}

// Behind returns, for each buffer of the plan, the index of the one that lies right behind
// it, or -1: a tensor of the plan's spans lies in both. It fails if two buffers would lie
// behind one, or one behind two or behind itself. O(buffers + spans).
func (p *Plan) Behind() ([]int, error) {
	behind, before := make([]int, len(p.Buffers)), make([]int, len(p.Buffers))
	for i := range behind {
		behind[i], before[i] = -1, -1
	}
	for x := range p.Spans {
		list := p.Spans[x].Buffers
		for i, b := range list {
			if b < 0 || b >= len(behind) {
				return nil, fmt.Errorf("span %d: expected buffers below %d, found %d", x, len(behind), b)
			}
			if i == 0 {
				continue
			}
			a := list[i-1]
			if behind[a] >= 0 && behind[a] != b || before[b] >= 0 && before[b] != a || a == b {
				return nil, fmt.Errorf("span %d: expected one buffer right behind buffer %d, and one before buffer %d", x, a, b)
			}
			behind[a], before[b] = b, a
		}
	}
	seen := make([]bool, len(behind))
	for b := range behind {
		if before[b] >= 0 {
			continue
		}
		for x := b; x >= 0; x = behind[x] {
			seen[x] = true
		}
	}
	if b := slices.Index(seen, false); b >= 0 {
		return nil, fmt.Errorf("spans: buffer %d would lie behind itself", b)
	}
	return behind, nil
}
