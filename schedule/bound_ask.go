package schedule

import "github.com/onnxmem/onnxmem/schedule/internal/indexed"

// require forces a free node in, and what it needs with it, in a question about the
// network that is held.
func (c *cutter) require(v int32) {
	if at := c.vertex[v]; !c.Barred(at) {
		c.Ask(at, indexed.Infinite)
	}
}

// firstAt returns the least load of v from a state with its ancestors and, beside
// them, what the marks allow, or something not below enough; common is the least
// live(S) of the network.
func (c *cutter) firstAt(v int32, common, enough int64) int64 {
	g := c.g
	choices, more := g.Choices(v)
	load := indexed.Infinite
	for _, choice := range choices {
		x := common + g.Transient[v] - more - indexed.Total(choice)
		for _, u := range g.Preds.Of(v) {
			if c.mark[u] == free {
				c.require(u)
			}
		}
		for _, s := range choice {
			if s.Over >= 0 {
				x += c.withheld(v, s)
			}
		}
		load = min(load, x+c.Answer(min(enough, load)-x))
	}
	return load
}

// withheld adds the edges that cost a saving of v where it is not given, or returns
// it if it never is.
func (c *cutter) withheld(v int32, s indexed.Saving) int64 {
	readers, waits := c.g.Readers.Of(s.Over), false
	for _, r := range readers {
		switch {
		case r == v:
		case c.mark[r] == outside:
			return s.Size
		case c.mark[r] == free:
			waits = waits || !c.Barred(c.vertex[r])
		}
	}
	if waits {
		a := c.NewVertex()
		c.Ask(a, s.Size)
		for _, r := range readers {
			if r != v && c.mark[r] == free {
				c.AskFrom(a, c.vertex[r], indexed.Infinite)
			}
		}
	}
	return 0
}
