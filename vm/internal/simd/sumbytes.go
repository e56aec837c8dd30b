package simd

import "encoding/binary"

// Sums of bytes as unsigned numbers, eight at a time in the lanes of two words. Of signed
// numbers, they are those of the numbers 128 larger.

const (
	evenBytes = 0x00ff00ff00ff00ff
	signBits  = 0x8080808080808080
)

// MostRows is the most bytes whose sum fits into 16 bits.
const MostRows = 256

func flipped(signed bool) uint64 {
	if signed {
		return signBits
	}
	return 0
}

// lanes adds the four lanes of 16 bits of a word to sums of 32 bits.
func lanes(word uint64) uint64 {
	word = word&0x0000ffff0000ffff + word>>16&0x0000ffff0000ffff
	return word&0xffffffff + word>>32
}

// SumBytes returns the sum of x.
func SumBytes(x []byte, signed bool) uint64 {
	const most = 8 * MostRows / 2 // two bytes are added to each lane at once
	flip, sum := flipped(signed), uint64(0)
	for len(x) >= 8 {
		part := x[:min(most, len(x)&^7)]
		x = x[len(part):]
		words := uint64(0)
		for ; len(part) >= 8; part = part[8:] {
			w := binary.LittleEndian.Uint64(part) ^ flip
			words += w&evenBytes + w>>8&evenBytes
		}
		sum += lanes(words)
	}
	for _, b := range x {
		sum += uint64(b ^ byte(flip))
	}
	return sum
}

// AddColumns adds rows of bytes, at most MostRows, each step bytes behind the one before, to
// sums of their columns.
func AddColumns(sums []uint64, x []byte, rows, step int, signed bool) {
	flip, k := flipped(signed), 0
	for ; k+16 <= len(sums); k += 16 {
		var even, odd, even2, odd2 uint64
		for r := range rows {
			row := x[r*step+k:][:16]
			a, b := binary.LittleEndian.Uint64(row)^flip, binary.LittleEndian.Uint64(row[8:])^flip
			even, odd = even+a&evenBytes, odd+a>>8&evenBytes
			even2, odd2 = even2+b&evenBytes, odd2+b>>8&evenBytes
		}
		spreadLanes(sums[k:], even, odd)
		spreadLanes(sums[k+8:], even2, odd2)
	}
	for ; k+8 <= len(sums); k += 8 {
		var even, odd uint64
		for r := range rows {
			a := binary.LittleEndian.Uint64(x[r*step+k:]) ^ flip
			even, odd = even+a&evenBytes, odd+a>>8&evenBytes
		}
		spreadLanes(sums[k:], even, odd)
	}
	for ; k < len(sums); k++ {
		for r := range rows {
			sums[k] += uint64(x[r*step+k] ^ byte(flip))
		}
	}
}

// spreadLanes adds the lanes of the bytes with even and odd numbers to eight sums.
func spreadLanes(sums []uint64, even, odd uint64) {
	for i := range 4 {
		sums[2*i] += even >> (16 * i) & 0xffff
		sums[2*i+1] += odd >> (16 * i) & 0xffff
	}
}
