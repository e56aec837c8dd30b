package proof

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/internal/proof/zones"
)

// Certificate is what a plan says of a lower bound: that no order has a smaller peak than
// Bytes, since node Set[0], or the node of Set that runs first or last, needs that.
type Certificate struct {
	Bytes    int64
	Set      []int32
	Last     bool
	Searched bool // it rests on a search
}

// maxSet limits the nodes of which a formula says that only one runs: it has a row for each two.
const maxSet = 1000

// OrderOf is the claim that no order of a graph has a peak below bound. It takes the first
// certificate that proves as much; an order of the graph gives the upper end. A bound that rests on a
// search has no formula before it is written: that takes a search.
func OrderOf(p *model.Problem, certificates []Certificate, bound int64, order []int32) Claim {
	c := Claim{Name: "order", Bytes: bound, Problem: p, Order: order}
	if len(p.Before) == 0 {
		c.Refused = "the graph has no nodes: it has one order"
		return c
	}
	certificates = append(slices.Clip(certificates), Certificate{Set: []int32{0}}) // of 0 bytes
	at := slices.IndexFunc(certificates, func(x Certificate) bool { return x.Bytes >= bound && !x.Searched })
	if at < 0 {
		if !slices.ContainsFunc(certificates, func(x Certificate) bool { return x.Searched && x.Bytes >= bound }) {
			c.Refused = "no certificate has its bound"
		}
		return c // its formula is searched when it is written
	}
	x := certificates[at]
	if len(x.Set) > maxSet {
		c.Refused = fmt.Sprintf("its certificate is a set of %d nodes: expected at most %d", len(x.Set), maxSet)
		return c
	}
	c.Formula = model.Encode(p, x.Set, x.Last)
	return c
}

// PlacementOf is the claim that no placement takes less than bound: the buffers that are live at
// a step take as much.
func PlacementOf(live []Live, step int, bound int64) Claim {
	c := Claim{Name: "placement", Bytes: bound, Live: live}
	sum := int64(0)
	for _, b := range live {
		sum += b.Bytes
	}
	if len(live) == 0 && bound == 0 {
		c.Refused = "no buffer takes any bytes: there is nothing to prove"
	} else if sum < bound {
		c.Refused = fmt.Sprintf("the buffers of no step take more than %d bytes, %d below it, and no proof is written that no placement has less", sum, bound-sum)
	} else {
		c.Says = fmt.Sprintf("The buffers that are live at step %d of this order take %d bytes, so no placement of them takes less. Which are live, and their sizes, are taken from verify, order or pack.", step, sum)
	}
	return c
}

// The limits of a search: the nodes of a graph, and the states from which it goes on.
const (
	maxNodes  = 4096
	maxStates = 1000
)

// search finds the formula of a bound that rests on a search, by a search of its own.
func (c *Claim) search() error {
	const rests = "its bound rests on an exhausted search"
	if n := len(c.Problem.Before); n > maxNodes {
		return fmt.Errorf("%s of %d nodes: expected at most %d", rests, n, maxNodes)
	}
	list, err := zones.Find(c.Problem, c.Order, c.Bytes, maxStates, c.Poll)
	if err != nil {
		return fmt.Errorf("%s, and the search for zones of states that prove it %w", rests, err)
	}
	leave := map[int32]bool{}
	for _, z := range list {
		for _, v := range z.Out {
			leave[v] = true
		}
	}
	if len(leave) > maxSet {
		return fmt.Errorf("%s, and %d nodes leave the zones of states that prove it: expected at most %d", rests, len(leave), maxSet)
	}
	if !slices.ContainsFunc(list, func(z model.Zone) bool { return len(z.In) == 0 }) {
		return fmt.Errorf("%s, and no zone of states that was found to prove it has the first state", rests)
	}
	c.Formula = model.EncodeZones(c.Problem, list)
	return nil
}
