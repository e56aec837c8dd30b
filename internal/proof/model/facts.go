package model

import (
	"bytes"
	"strconv"
)

// Facts is a problem in lines of plain text, one for each fact, for the checkers in proofs: they
// compare formulas with it, so that [Encode] need not be trusted. docs/formats/plain.md has the form.
// What has no bytes is left out.
func (p *Problem) Facts() []byte {
	var b bytes.Buffer
	line := func(kind string, numbers ...int64) {
		b.WriteString(kind)
		for _, n := range numbers {
			b.WriteByte(' ')
			b.Write(strconv.AppendInt(b.AvailableBuffer(), n, 10))
		}
		b.WriteByte('\n')
	}
	for u, before := range p.Before {
		for _, w := range before {
			line("edge", int64(w), int64(u))
		}
	}
	for i := range p.Tensors {
		x := &p.Tensors[i]
		if x.Bytes == 0 {
			continue
		}
		numbers := []int64{int64(i), x.Bytes, int64(x.Maker), bit(x.Output)}
		for _, r := range x.Readers {
			if r != x.Maker {
				numbers = append(numbers, int64(r))
			}
		}
		line("tensor", numbers...)
	}
	for v, bytes := range p.Work {
		if bytes > 0 {
			line("work", int64(v), bytes)
		}
	}
	for _, pairs := range p.Pairs {
		for _, x := range pairs {
			if p.Tensors[x.Result].Bytes > 0 && p.Tensors[x.Over].Bytes > 0 {
				line("over", int64(x.Result), int64(x.Over))
			}
		}
	}
	for i, x := range p.Written {
		numbers := []int64{int64(i), x.Bytes, int64(x.Maker), bit(x.AtOnce), bit(x.Later)}
		for _, r := range x.Others {
			numbers = append(numbers, int64(r))
		}
		line("written", numbers...)
	}
	return b.Bytes()
}

// bit is 1 if something is so.
func bit(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
