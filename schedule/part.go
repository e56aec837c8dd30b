package schedule

// parter makes a net of some nodes of another, in buffers that it keeps.
type parter struct {
	where  []int32 // node -> its place in the part, or before or after
	tensor []int32 // tensor -> its place in the part, if seen says now
	seen   []int32
	now    int32
}

const (
	before = int32(-1)
	after  = int32(-2)
)

// all sets where every node runs relative to the part.
func (p *parter) all(g *net, where int32) {
	p.where = resize(p.where, g.nodes)
	for i := range p.where {
		p.where[i] = where
	}
}

// part returns the problem of some nodes, node i of which is nodes[i], when
// where tells which others run before and after them; live is what is live
// right before the part. A tensor that is live throughout counts into the base.
// A saving over a tensor that is read after the part, or is an output, is void;
// one whose other readers ran before is always given.
func (p *parter) part(g *net, nodes []int32, live int64) *net {
	h := &net{nodes: len(nodes), base: live, trans: make([]int64, len(nodes)), match: g.match}
	for i, v := range nodes {
		p.where[v] = int32(i)
		h.trans[i] = g.trans[v]
	}
	edges := 0
	for _, v := range nodes {
		edges += len(g.preds.of(v))
	}
	h.preds = lists{make([]int32, 1, len(nodes)+1), make([]int32, 0, edges)}
	for _, v := range nodes {
		for _, u := range g.preds.of(v) {
			if x := p.where[u]; x >= 0 {
				h.preds.items = append(h.preds.items, x)
			}
		}
		h.preds.add()
	}
	h.succs = h.preds.turned(h.nodes)
	p.tensor = resize(p.tensor, len(g.size))
	if len(p.seen) < len(g.size) {
		p.seen, p.now = make([]int32, len(g.size)), 0
	}
	p.now++
	for i, v := range nodes {
		for _, t := range g.makes.of(v) {
			p.made(g, h, t, int32(i))
		}
		for _, t := range g.reads.of(v) {
			p.read(g, h, t)
		}
	}
	h.finishTensors()
	if g.saver != nil {
		p.savers(g, h, nodes)
	}
	return h
}

func (p *parter) made(g, h *net, t, maker int32) {
	output := g.output[t]
	for _, r := range g.readers.of(t) {
		if x := p.where[r]; x >= 0 {
			h.readers.items = append(h.readers.items, x)
		} else {
			output = true
		}
	}
	p.place(g, h, t, maker, output)
}

// read adds an input of the part, when its first reader is met. What is read
// after the part or is an output stays in the base.
func (p *parter) read(g, h *net, t int32) {
	if m := g.maker[t]; p.seen[t] == p.now || m >= 0 && p.where[m] >= 0 || g.output[t] {
		return
	}
	from := len(h.readers.items)
	for _, r := range g.readers.of(t) {
		switch x := p.where[r]; {
		case x >= 0:
			h.readers.items = append(h.readers.items, x)
		case x == after:
			h.readers.items = h.readers.items[:from]
			p.seen[t], p.tensor[t] = p.now, before // in the base: not looked at again
			return
		}
	}
	h.base -= g.size[t]
	p.place(g, h, t, -1, false)
}

func (p *parter) place(g, h *net, t, maker int32, output bool) {
	p.seen[t] = p.now
	p.tensor[t] = h.addTensor(g.size[t], maker, output, nil)
}

// savers takes over what still can be saved.
func (p *parter) savers(g, h *net, nodes []int32) {
	holds := func(t int32) bool { return p.seen[t] == p.now && p.tensor[t] >= 0 && !h.output[p.tensor[t]] }
	for i, v := range nodes {
		if g.saver[v] == 0 {
			continue
		}
		old := &g.savers[g.saver[v]-1]
		s := saver{choices: make([][]saving, len(old.choices)), many: old.many}
		for k, choice := range old.choices {
			for _, x := range choice {
				if x.over < 0 {
					s.choices[k] = append(s.choices[k], x)
				} else if holds(x.over) {
					s.choices[k] = append(s.choices[k], saving{p.tensor[x.over], x.size})
				}
			}
		}
		for _, pair := range old.pairs {
			if pair.over >= 0 {
				if !holds(pair.over) {
					continue
				}
				pair.over = p.tensor[pair.over]
			}
			s.pairs = append(s.pairs, pair)
		}
		for _, t := range old.credits {
			if holds(t) {
				s.credits = append(s.credits, p.tensor[t])
			}
		}
		if s.many {
			// The part has no more tensors than the whole: its matcher serves.
			s.most = h.largest(s.pairs, func(int32) bool { return true })
		}
		h.setSaver(int32(i), s)
	}
}

// listed returns the net with its nodes listed in the given order.
func (p *parter) listed(g *net, order []int32) *net {
	p.all(g, before)
	return p.part(g, order, g.liveFirst())
}
