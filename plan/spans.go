package plan

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
