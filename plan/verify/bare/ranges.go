package bare

import (
	"fmt"
	"slices"
)

// Range says that a tensor is some bytes of another, from Offset on. If its producer reads the
// other, it is a view: it takes no bytes. Else the producer of the other must read it: then it
// is a piece, which lies where the other will be, and is held for as long as that one.
type Range struct {
	Tensor, Of int32
	Offset     int64
}

// Validate checks that a problem's indices, sizes and ranges are possible. The error names the
// first fault.
func (p *Problem) Validate() error {
	_, err := p.joined()
	return err
}

// joined returns the same problem without ranges: who reads or overwrites a tensor reads or
// overwrites all tensors that hold its bytes.
func (p *Problem) joined() (*Problem, error) {
	if err := p.checkParts(); err != nil || len(p.Ranges) == 0 {
		return p, err
	}
	q := &Problem{Nodes: slices.Clone(p.Nodes), Tensors: slices.Clone(p.Tensors)}
	of, pieces, err := p.kinds()
	if err != nil {
		return nil, err
	}
	for i := range q.Tensors {
		list := pieces[int32(i)]
		if err := p.layOut(int32(i), list); err != nil {
			return nil, err
		}
		q.Tensors[i].Consumers = slices.Clone(p.Tensors[i].Consumers)
		for _, r := range list {
			q.Tensors[i].Bytes -= p.Tensors[r.Tensor].Bytes
		}
	}
	plain := func(t int32) bool { return of[t] == t && pieces[t] == nil }
	// holders are the tensors that hold the bytes of one.
	holders := func(t int32) []int32 {
		list := []int32{of[t]}
		for _, r := range pieces[of[t]] {
			list = append(list, r.Tensor)
		}
		return list
	}
	for i := range p.Tensors {
		t, id := &p.Tensors[i], int32(i)
		if of[i] != id {
			q.Tensors[i].Bytes = 0
		}
		if plain(id) {
			continue
		}
		for _, h := range holders(id) {
			if h != id {
				x := &q.Tensors[h]
				x.Consumers, x.Output = append(x.Consumers, t.Consumers...), x.Output || t.Output
			}
		}
	}
	for i := range q.Tensors {
		t := &q.Tensors[i]
		if !plain(int32(i)) {
			t.Over = nil // neither has one place of its own
		}
		t.Over = slices.DeleteFunc(slices.Clone(t.Over), func(o int32) bool { return !plain(o) })
	}
	for n := range q.Nodes {
		q.Nodes[n].Writes = nil
		for _, t := range p.Nodes[n].Writes {
			if of[t] != t || p.Tensors[t].Producer != int32(n) {
				q.Nodes[n].Writes = append(q.Nodes[n].Writes, holders(t)...)
			}
		}
	}
	return q, nil
}

// kinds returns, by tensor, the one that a view lies in, or itself, and the pieces of tensors.
func (p *Problem) kinds() (of []int32, pieces map[int32][]Range, err error) {
	of, pieces = make([]int32, len(p.Tensors)), map[int32][]Range{}
	for i := range of {
		of[i] = int32(i)
	}
	reads := make([]map[int32]bool, len(p.Nodes)) // by node: tensors that are or have ranges
	has := make([]bool, len(p.Tensors))
	for k, r := range p.Ranges {
		if !p.tensor(r.Tensor) || !p.tensor(r.Of) || r.Tensor == r.Of {
			return nil, nil, fmt.Errorf("range %d: tensor %d of tensor %d: expected two below %d", k, r.Tensor, r.Of, len(p.Tensors))
		}
		has[r.Tensor], has[r.Of] = true, true
	}
	for i := range p.Tensors {
		if !has[i] {
			continue
		}
		for _, n := range p.Tensors[i].Consumers {
			if reads[n] == nil {
				reads[n] = map[int32]bool{}
			}
			reads[n][int32(i)] = true
		}
	}
	ranges := make([]bool, len(p.Tensors))
	for _, r := range p.Ranges {
		t, x := &p.Tensors[r.Tensor], &p.Tensors[r.Of]
		switch {
		case ranges[r.Tensor]:
			return nil, nil, fmt.Errorf("tensor %d: expected it to be a range of one tensor", r.Tensor)
		case r.Offset < 0 || r.Offset > x.Bytes-t.Bytes:
			return nil, nil, fmt.Errorf("tensor %d: %d bytes from byte %d on: expected a range of tensor %d, which has %d", r.Tensor, t.Bytes, r.Offset, r.Of, x.Bytes)
		case t.Resident != x.Resident:
			return nil, nil, fmt.Errorf("tensor %d, a range of tensor %d: expected both resident, or none", r.Tensor, r.Of)
		case x.Producer >= 0 && reads[x.Producer][r.Tensor]:
			pieces[r.Of] = append(pieces[r.Of], r)
		case t.Producer >= 0 && reads[t.Producer][r.Of]:
			of[r.Tensor] = r.Of
		default:
			return nil, nil, fmt.Errorf("tensor %d, a range of tensor %d: expected that the node that makes one of them reads the other", r.Tensor, r.Of)
		}
		ranges[r.Tensor] = true
	}
	for t := range ranges {
		if ranges[t] && pieces[int32(t)] != nil {
			return nil, nil, fmt.Errorf("tensor %d has pieces: expected that it is no range itself", t)
		}
	}
	return of, pieces, follow(of)
}

// follow lets each view name the tensor at the end of its chain of views.
func follow(of []int32) error {
	for i := range of {
		end, steps := int32(i), 0
		for ; of[end] != end; steps++ {
			if end = of[end]; steps > len(of) {
				return fmt.Errorf("tensor %d: expected a range of a tensor, found ranges in a circle", i)
			}
		}
		for t := int32(i); t != end; {
			next := of[t]
			of[t], t = end, next
		}
	}
	return nil
}

// layOut checks that the pieces of a tensor do not overlap.
func (p *Problem) layOut(t int32, list []Range) error {
	slices.SortFunc(list, func(a, b Range) int {
		if a.Offset == b.Offset {
			return int(a.Tensor) - int(b.Tensor)
		}
		if a.Offset < b.Offset {
			return -1
		}
		return 1
	})
	end := int64(0)
	for _, r := range list {
		if r.Offset < end {
			return fmt.Errorf("tensor %d, a piece of tensor %d from byte %d on: expected it behind the piece before, at %d", r.Tensor, t, r.Offset, end)
		}
		end = r.Offset + p.Tensors[r.Tensor].Bytes
	}
	return nil
}

func (p *Problem) tensor(t int32) bool { return t >= 0 && int(t) < len(p.Tensors) }
