package alias

import "slices"

// Piece is the bytes [From, To) of a root that each content covers as a whole or not at
// all.
type Piece struct {
	Root     int32
	From, To int64
	Over     []int32 // the storages that cover it, ascending
}

// Bytes is the size of the piece.
func (p *Piece) Bytes() int64 { return p.To - p.From }

// Pieces are the pieces of a layout. Those of one root follow each other.
type Pieces struct {
	List []Piece
	Of   [][]int32 // by storage: the pieces that it covers, in the order of its bytes
}

// Pair says that the node which makes storage Result may write it over storage Over. Both
// have one size.
type Pair struct{ Result, Over int32 }

// maxCuts limits the pieces that pairs may make.
const maxCuts = 1 << 16

// Pieces cuts the roots of a layout. Both storages of a pair are cut at the same places,
// so that the pieces of one may lie over those of the other one by one. It returns nil if
// that makes too many pieces.
func (l *Layout) Pieces(pairs []Pair) *Pieces {
	c := newCutter(l, pairs)
	for i, content := range l.Content {
		for _, s := range content {
			c.cut(s.Root, s.From)
			c.cut(s.Root, s.To)
		}
		c.touched(int32(i))
	}
	if !c.spread() {
		return nil
	}
	p := &Pieces{Of: make([][]int32, len(l.Content))}
	first := make([]int32, len(l.Roots)) // by root: its first piece
	covered := make([]bool, len(l.Roots))
	for _, content := range l.Content {
		for _, s := range content {
			covered[s.Root] = true
		}
	}
	for r := range l.Roots {
		first[r] = int32(len(p.List))
		if !covered[r] {
			continue // the content of its storage has other roots
		}
		for k := 1; k < len(c.cuts[r]); k++ {
			p.List = append(p.List, Piece{Root: int32(r), From: c.cuts[r][k-1], To: c.cuts[r][k]})
		}
	}
	for i, content := range l.Content {
		for _, s := range content {
			cuts := c.cuts[s.Root]
			from, _ := slices.BinarySearch(cuts, s.From)
			to, _ := slices.BinarySearch(cuts, s.To)
			for k := from; k < to; k++ {
				id := first[s.Root] + int32(k)
				p.Of[i] = append(p.Of[i], id)
				if over := &p.List[id].Over; len(*over) == 0 || (*over)[len(*over)-1] != int32(i) {
					*over = append(*over, int32(i))
				}
			}
		}
	}
	return p
}

// cutter finds the places at which roots are cut.
type cutter struct {
	l       *Layout
	cuts    [][]int64          // by root, ascending
	over    map[int32][]int32  // by root: the storages that cover it and are in a pair
	partner map[int32][]int32  // by storage: the others of its pairs
	queued  map[int32]struct{} // storages whose cuts must be given to their partners
	queue   []int32
	made    int // cuts beyond those of the contents
}

func newCutter(l *Layout, pairs []Pair) *cutter {
	c := &cutter{l: l, cuts: make([][]int64, len(l.Roots)), over: map[int32][]int32{}, partner: map[int32][]int32{}, queued: map[int32]struct{}{}}
	for _, p := range pairs {
		c.partner[p.Result] = append(c.partner[p.Result], p.Over)
		c.partner[p.Over] = append(c.partner[p.Over], p.Result)
	}
	for i, content := range l.Content {
		if c.partner[int32(i)] == nil {
			continue
		}
		for _, s := range content {
			c.over[s.Root] = append(c.over[s.Root], int32(i))
		}
	}
	return c
}

// cut cuts a root and reports whether that is new.
func (c *cutter) cut(root int32, at int64) bool {
	k, found := slices.BinarySearch(c.cuts[root], at)
	if found {
		return false
	}
	c.cuts[root] = slices.Insert(c.cuts[root], k, at)
	return true
}

// touched queues a storage that is in a pair.
func (c *cutter) touched(i int32) {
	if c.partner[i] == nil {
		return
	}
	if _, is := c.queued[i]; !is {
		c.queued[i] = struct{}{}
		c.queue = append(c.queue, i)
	}
}

// spread cuts the storages of all pairs alike. It reports false if there are too many
// cuts.
func (c *cutter) spread() bool {
	for len(c.queue) > 0 {
		i := c.queue[0]
		c.queue = c.queue[1:]
		delete(c.queued, i)
		at := int64(0)
		for _, s := range c.l.Content[i] {
			for _, x := range slices.Clone(c.cuts[s.Root]) {
				if x < s.From || x > s.To {
					continue
				}
				for _, j := range c.partner[i] {
					if !c.cutAt(j, at+x-s.From) {
						return false
					}
				}
			}
			at += s.To - s.From
		}
	}
	return true
}

// cutAt cuts a storage at one of its bytes. It reports false if there are too many cuts.
func (c *cutter) cutAt(i int32, at int64) bool {
	begin := int64(0)
	for _, s := range c.l.Content[i] {
		end := begin + s.To - s.From
		if begin < at && at < end && c.cut(s.Root, s.From+at-begin) {
			if c.made++; c.made > maxCuts {
				return false
			}
			for _, j := range c.over[s.Root] {
				c.touched(j)
			}
		}
		begin = end
	}
	return true
}

// Chains returns the chains of roots that have more than one piece or whose only piece is
// covered by more than one storage: each is the list of its pieces, in the order of their
// bytes.
func (l *Layout) Chains(p *Pieces) [][]int32 {
	byRoot := make([][]int32, len(l.Roots))
	for id := range p.List {
		r := p.List[id].Root
		byRoot[r] = append(byRoot[r], int32(id))
	}
	var list [][]int32
	for r := range l.Roots {
		if l.prev[r] != None || len(byRoot[r]) == 0 {
			continue
		}
		var chain []int32
		for x := int32(r); x != None; x = l.Next[x] {
			chain = append(chain, byRoot[x]...)
		}
		if len(chain) > 1 {
			list = append(list, chain)
		}
	}
	return list
}
