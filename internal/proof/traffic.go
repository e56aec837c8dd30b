package proof

import (
	"bufio"
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/internal/proof/model"
)

// Traffic is what bounds the traffic of all pools but the first: what might stay there, its capacity, and
// what a byte of it is worth before steps. Prices are not trusted.
type Traffic struct {
	Stays    []model.Stay
	Capacity int64
	Steps    []int
	Prices   []int64
}

// TrafficOf is the claim that no division among pools has less traffic than bound.
func TrafficOf(x *Traffic, bound int64) Claim {
	return Claim{Name: "traffic", Bytes: bound, Traffic: x, Says: fmt.Sprintf("No division of the buffers of this order among the pools has less than %d bytes of slow traffic, wherever parts of them lie, and whenever. Which bytes each node reads and writes, and between which steps they could stay in the first pool of %d bytes, is taken from verify.", bound, x.Capacity)}
}

// writeTraffic writes the formula and its proof: the rows of the steps, by their prices. What is worth
// more than its traffic, does not leave, what is worth less may.
func (c *Claim) writeTraffic(opb, pbp io.Writer) (upper int64, err error) {
	x := c.Traffic
	fmt.Fprintf(opb, "* %s\n", c.Says)
	for i, s := range x.Stays {
		fmt.Fprintf(opb, "* b%d_k: bit k of the bytes that leave behind step %d, of %d that step %d uses\n", i, s.From, s.Bytes, s.To)
	}
	if err := model.WriteTraffic(opb, x.Stays, x.Steps, x.Capacity); err != nil {
		return 0, err
	}
	w := bufio.NewWriter(pbp)
	fmt.Fprintf(w, "pseudo-Boolean proof version 3.0\nf %d ;\npol", len(x.Stays)+len(x.Steps))
	added := 0
	add := func(what string, times int64) {
		fmt.Fprintf(w, " %s %d *", what, times)
		if added++; added > 1 {
			w.WriteString(" +")
		}
	}
	for k, price := range x.Prices {
		add(fmt.Sprint(len(x.Stays)+k+1), price)
	}
	for i, s := range x.Stays {
		rest := s.Cost
		for k, t := range x.Steps {
			if s.From < t && t <= s.To {
				rest -= x.Prices[k]
			}
		}
		upper += s.Cost * s.Bytes
		if rest < 0 {
			add(fmt.Sprint(i+1), -rest)
		}
		for k := range s.Bits() {
			if rest > 0 {
				add(fmt.Sprintf("b%d_%d", i, k), rest<<k)
			}
		}
	}
	fmt.Fprintf(w, " ;\noutput NONE ;\nconclusion BOUNDS %d : %d %d :", c.Bytes, len(x.Stays)+len(x.Steps)+1, upper)
	for i, s := range x.Stays { // all leaves
		for k := range s.Bits() {
			if s.Bytes>>k&1 == 0 {
				w.WriteString(" ~")
			} else {
				w.WriteString(" ")
			}
			fmt.Fprintf(w, "b%d_%d", i, k)
		}
	}
	w.WriteString(" ;\nend pseudo-Boolean proof ;\n")
	return upper, w.Flush()
}
