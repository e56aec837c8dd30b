package core

import (
	"fmt"
	"slices"
)

// Check says how a problem contradicts itself; nil if it does not. What it cannot see is what
// operators mean: whether a node reads all that it says and no more, and whether it gives the
// right result when it writes over an operand. It takes time in proportion to the problem.
func (p *Problem) Check() error {
	if len(p.Work) != len(p.Nodes) {
		return fmt.Errorf("%d nodes, the work of %d", len(p.Nodes), len(p.Work))
	}
	c := checking{p: p, seen: make([]int, len(p.Storages)), reads: make([]int, len(p.Storages)), made: make([]bool, len(p.Storages))}
	for i := range p.Storages {
		if err := c.storage(int32(i)); err != nil {
			return fmt.Errorf("storage %d: %w", i, err)
		}
	}
	for n := range p.Nodes {
		if err := c.node(int32(n)); err != nil {
			return fmt.Errorf("node %d: %w", n, err)
		}
	}
	for i := range p.Storages {
		switch st := &p.Storages[i]; {
		case c.reads[i] != len(st.Readers):
			return fmt.Errorf("storage %d: %d readers, but %d nodes read it", i, len(st.Readers), c.reads[i])
		case st.Maker >= 0 && !c.made[i]:
			return fmt.Errorf("storage %d: node %d does not make it", i, st.Maker)
		}
	}
	for _, list := range [][]Update{p.Updated, p.Chained} {
		for _, u := range list {
			if !p.has(u.Old) || !p.has(u.New) {
				return fmt.Errorf("an update of storages %d and %d", u.Old, u.New)
			}
		}
	}
	return nil
}

// checking is one run of Check.
type checking struct {
	p     *Problem
	seen  []int  // by storage: 1 + the last node that reads it
	reads []int  // by storage: the nodes that read it
	made  []bool // by storage: its maker says that it makes it
}

func (p *Problem) has(i int32) bool { return i >= 0 && int(i) < len(p.Storages) }

func (c *checking) storage(i int32) error {
	st := &c.p.Storages[i]
	switch {
	case st.Bytes < 0:
		return fmt.Errorf("%d bytes", st.Bytes)
	case st.Maker < None || int(st.Maker) >= len(c.p.Nodes):
		return fmt.Errorf("no node %d", st.Maker)
	}
	before := st.Maker
	for _, r := range st.Readers {
		if r <= before || int(r) >= len(c.p.Nodes) {
			return fmt.Errorf("node %d reads it after node %d", r, before)
		}
		before = r
	}
	for _, part := range st.Parts {
		if !c.p.has(part) || part != i && c.p.Storages[part].Parts != nil {
			return fmt.Errorf("part %d", part)
		}
	}
	if st.Parts != nil && st.Bytes > 0 && !slices.Contains(st.Parts, i) {
		return fmt.Errorf("%d bytes besides its parts", st.Bytes)
	}
	return nil
}

func (c *checking) node(n int32) error {
	p, node := c.p, &c.p.Nodes[n]
	if p.Work[n] < 0 {
		return fmt.Errorf("work of %d bytes", p.Work[n])
	}
	for _, m := range node.After {
		if m < 0 || m >= n {
			return fmt.Errorf("it runs before node %d, whose result it reads", m)
		}
	}
	for _, list := range [][]int32{node.Reads, node.Writes, node.Overwrite} {
		for _, i := range list {
			if !p.has(i) {
				return fmt.Errorf("no storage %d", i)
			}
		}
	}
	for _, i := range node.Reads {
		c.read(n, i)
		for _, part := range p.Storages[i].Parts {
			c.read(n, part)
		}
	}
	for _, i := range node.Writes {
		c.made[i] = c.made[i] || p.Storages[i].Maker == n
		for _, part := range p.Storages[i].Parts {
			c.made[part] = c.made[part] || p.Storages[part].Maker == n
		}
	}
	for _, x := range node.Over {
		switch {
		case !p.has(x.Over) || !p.has(x.Result) || p.Storages[x.Over].Bytes != p.Storages[x.Result].Bytes:
			return fmt.Errorf("storages %d and %d: expected two of one size", x.Result, x.Over)
		case c.seen[x.Over] != int(n)+1 || p.Storages[x.Result].Maker != n:
			return fmt.Errorf("storage %d over %d: expected what it makes over what it reads", x.Result, x.Over)
		}
	}
	return nil
}

// read counts a reader of a storage once.
func (c *checking) read(n, i int32) {
	if c.seen[i] != int(n)+1 {
		c.seen[i] = int(n) + 1
		c.reads[i]++
	}
}
