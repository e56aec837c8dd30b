package model

import (
	"bufio"
	"fmt"
	"io"
	"math/bits"
)

// Stay is bytes of a buffer from behind one step, at which they are used, to another. Each that does
// not stay in the first pool takes so many bytes of traffic of the others.
type Stay struct {
	From, To    int
	Bytes, Cost int64
}

// Bits is the number of bits of its bytes.
func (s Stay) Bits() int { return bits.Len64(uint64(s.Bytes)) }

// WriteTraffic writes in the format OPB how much traffic there must be if the first pool has so
// many bytes. Bit k of what leaves of stay i is b{i}_{k}. The rows are, first for each stay, then for
// each of the steps:
//
//	most    no more of a stay leaves than it has.
//	leave   of the stays over a step, so much leaves that the rest has room: what stays from behind
//	        step a to step b is there before each of the steps a+1 to b.
//
// The objective is the traffic of all that leaves.
func WriteTraffic(w io.Writer, stays []Stay, steps []int, capacity int64) error {
	b := bufio.NewWriter(w)
	all := func(i int, sign string, times int64) {
		for k := range stays[i].Bits() {
			fmt.Fprintf(b, " %s%d b%d_%d", sign, times<<k, i, k)
		}
	}
	b.WriteString("min:")
	for i, s := range stays {
		all(i, "+", s.Cost)
	}
	b.WriteString(" ;\n")
	for i, s := range stays {
		all(i, "-", 1)
		fmt.Fprintf(b, " >= %d ;\n", -s.Bytes)
	}
	for _, t := range steps {
		over := int64(0)
		for i, s := range stays {
			if s.From < t && t <= s.To {
				over += s.Bytes
				all(i, "+", 1)
			}
		}
		fmt.Fprintf(b, " >= %d ;\n", over-capacity)
	}
	return b.Flush()
}
