package main

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The kit's files travel as .lzma: NVIDIA's compiler is a third smaller than with gzip, and
// a machine with a driver and nothing else has no program that could unpack them.

// errLZMA is wrapped by the errors of unpackLZMA.
var errLZMA = errors.New("damaged .lzma data")

// unpackLZMA decodes a file of the format that `xz --format=lzma` writes (Pavlov's LZMA
// specification, 2015). It refuses more than most bytes. It takes O(n) time; what it has
// decoded is its dictionary.
func unpackLZMA(in []byte, most int64) ([]byte, error) {
	const header = 13 // properties, size of the dictionary, size of the data
	if len(in) < header+5 {
		return nil, fmt.Errorf("%w: %d bytes: expected at least %d", errLZMA, len(in), header+5)
	}
	props := int(in[0])
	if props >= 9*5*5 {
		return nil, fmt.Errorf("%w: properties %d: expected less than 225", errLZMA, props)
	}
	size := int64(binary.LittleEndian.Uint64(in[5:])) // -1: the data end with a mark
	if size > most {
		return nil, fmt.Errorf("%w: %d bytes: expected at most %d", errLZMA, size, most)
	}
	d := &lzmaDecoder{in: in[header:], size: size, most: most, lc: props % 9, lp: props / 9 % 5, pb: props / 45}
	d.begin()
	err := d.run()
	switch {
	case d.short:
		return nil, fmt.Errorf("%w: it ends after %d decoded bytes", errLZMA, len(d.out))
	case err != nil:
		return nil, err
	}
	return d.out, nil
}

// chance is the probability of a zero bit, of 2048.
type chance = uint16

const even chance = 1 << 10

// lzmaDecoder is the state of a decoding.
type lzmaDecoder struct {
	in         []byte
	short      bool // more was asked for than in has
	width      uint32
	code       uint32
	out        []byte
	size, most int64
	lc, lp, pb int

	state                         int
	recent                        [4]uint32 // the last four distances, less 1
	isMatch, isLong               [12 << 4]chance
	isRecent, isNot0, isNot1, is3 [12]chance
	literals                      []chance
	slots                         [4][64]chance
	near                          [128]chance
	align                         [16]chance
	fresh, again                  lzmaLengths
}

// lzmaLengths decodes the lengths of copies.
type lzmaLengths struct {
	choice   [2]chance
	low, mid [16][8]chance
	high     [256]chance
}

// begin sets all probabilities to a half and reads the first bytes.
func (d *lzmaDecoder) begin() {
	d.literals = make([]chance, 0x300<<(d.lc+d.lp))
	for _, list := range [][]chance{d.isMatch[:], d.isLong[:], d.isRecent[:], d.isNot0[:], d.isNot1[:], d.is3[:], d.literals, d.near[:], d.align[:]} {
		fillEven(list)
	}
	for i := range d.slots {
		fillEven(d.slots[i][:])
	}
	for _, l := range []*lzmaLengths{&d.fresh, &d.again} {
		fillEven(l.choice[:])
		fillEven(l.high[:])
		for i := range l.low {
			fillEven(l.low[i][:])
			fillEven(l.mid[i][:])
		}
	}
	d.width = 1<<32 - 1
	d.code = binary.BigEndian.Uint32(d.in[1:])
	d.in = d.in[5:]
}

func fillEven(list []chance) {
	for i := range list {
		list[i] = even
	}
}

// next shifts a byte in once the width is small.
func (d *lzmaDecoder) next() {
	if d.width >= 1<<24 {
		return
	}
	d.width <<= 8
	d.code <<= 8
	if len(d.in) == 0 {
		d.short = true
		return
	}
	d.code |= uint32(d.in[0])
	d.in = d.in[1:]
}

// bit decodes a bit and adapts its probability.
func (d *lzmaDecoder) bit(p *chance) uint32 {
	bound := d.width >> 11 * uint32(*p)
	if d.code < bound {
		d.width = bound
		*p += (2048 - *p) >> 5
		d.next()
		return 0
	}
	d.width -= bound
	d.code -= bound
	*p -= *p >> 5
	d.next()
	return 1
}

// direct decodes n bits of equal probability.
func (d *lzmaDecoder) direct(n int) (v uint32) {
	for range n {
		d.width >>= 1
		b := uint32(0)
		if d.code >= d.width {
			d.code -= d.width
			b = 1
		}
		d.next()
		v = v<<1 | b
	}
	return v
}

// tree decodes n bits, the highest first.
func (d *lzmaDecoder) tree(p []chance, n int) uint32 {
	m := uint32(1)
	for range n {
		m = m<<1 | d.bit(&p[m])
	}
	return m - 1<<n
}

// reverse decodes n bits, the lowest first.
func (d *lzmaDecoder) reverse(p []chance, n int) (v uint32) {
	m := uint32(1)
	for i := range n {
		b := d.bit(&p[m])
		m = m<<1 | b
		v |= b << i
	}
	return v
}

// run decodes to the mark of the end, or to the size that the header gives.
func (d *lzmaDecoder) run() error {
	for !d.short && int64(len(d.out)) != d.size {
		at := len(d.out) & (1<<d.pb - 1)
		if d.bit(&d.isMatch[d.state<<4+at]) == 0 {
			d.literal()
		} else {
			n, end := d.match(at)
			if end {
				if d.size >= 0 {
					return fmt.Errorf("%w: it ends after %d bytes: expected %d", errLZMA, len(d.out), d.size)
				}
				return nil
			}
			if err := d.copy(n); err != nil {
				return err
			}
		}
		if int64(len(d.out)) > d.most {
			return fmt.Errorf("%w: more than %d bytes", errLZMA, d.most)
		}
	}
	return nil
}

// literal decodes a byte.
func (d *lzmaDecoder) literal() {
	before := 0
	if len(d.out) > 0 {
		before = int(d.out[len(d.out)-1])
	}
	p := d.literals[0x300*((len(d.out)&(1<<d.lp-1))<<d.lc+before>>(8-d.lc)):]
	m := uint32(1)
	if d.state >= 7 && int64(d.recent[0]) < int64(len(d.out)) { // behind a copy: not what would have continued it
		like := uint32(d.out[len(d.out)-1-int(d.recent[0])])
		for m < 0x100 {
			like <<= 1
			b := d.bit(&p[0x100+like&0x100+m])
			m = m<<1 | b
			if like>>8&1 != b {
				break
			}
		}
	}
	for m < 0x100 {
		m = m<<1 | d.bit(&p[m])
	}
	d.out = append(d.out, byte(m))
	switch {
	case d.state < 4:
		d.state = 0
	case d.state < 10:
		d.state -= 3
	default:
		d.state -= 6
	}
}

// match decodes the length of a copy, and its distance to recent[0]. end is the mark of
// the end.
func (d *lzmaDecoder) match(at int) (n uint32, end bool) {
	later := 0 // the state is higher behind another copy
	if d.state >= 7 {
		later = 3
	}
	if d.bit(&d.isRecent[d.state]) == 0 {
		copy(d.recent[1:], d.recent[:3])
		n = d.length(&d.fresh, at)
		d.state = 7 + later
		d.recent[0] = d.distance(n)
		return n + 2, d.recent[0] == 1<<32-1
	}
	if d.bit(&d.isNot0[d.state]) == 0 {
		if d.bit(&d.isLong[d.state<<4+at]) == 0 {
			d.state = 9 + later*2/3
			return 1, false
		}
	} else {
		i := 1
		if d.bit(&d.isNot1[d.state]) == 1 {
			i = 2 + int(d.bit(&d.is3[d.state]))
		}
		far := d.recent[i]
		copy(d.recent[1:i+1], d.recent[:i])
		d.recent[0] = far
	}
	n = d.length(&d.again, at)
	d.state = 8 + later
	return n + 2, false
}

// length decodes a length, less 2.
func (d *lzmaDecoder) length(l *lzmaLengths, at int) uint32 {
	switch {
	case d.bit(&l.choice[0]) == 0:
		return d.tree(l.low[at][:], 3)
	case d.bit(&l.choice[1]) == 0:
		return 8 + d.tree(l.mid[at][:], 3)
	}
	return 16 + d.tree(l.high[:], 8)
}

// distance decodes a distance, less 1, of a copy of a length, less 2.
func (d *lzmaDecoder) distance(n uint32) uint32 {
	slot := d.tree(d.slots[min(n, 3)][:], 6)
	if slot < 4 {
		return slot
	}
	bits := int(slot>>1) - 1
	base := (2 | slot&1) << bits
	if slot < 14 {
		return base + d.reverse(d.near[base-slot:], bits)
	}
	return base + d.direct(bits-4)<<4 + d.reverse(d.align[:], 4)
}

// copy repeats n of the decoded bytes.
func (d *lzmaDecoder) copy(n uint32) error {
	from := int64(len(d.out)) - 1 - int64(d.recent[0])
	if from < 0 {
		return fmt.Errorf("%w: a copy from %d bytes before byte %d", errLZMA, int64(d.recent[0])+1, len(d.out))
	}
	if end := int64(len(d.out)) + int64(n); d.size >= 0 && end > d.size {
		return fmt.Errorf("%w: a copy to byte %d of %d", errLZMA, end, d.size)
	}
	for i := range int64(n) {
		d.out = append(d.out, d.out[from+i])
	}
	return nil
}
