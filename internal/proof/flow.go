package proof

import "math"

// unlimited is a capacity that is in no minimum cut.
const unlimited = math.MaxInt64 / 4

// flow is a network through which Dinic's algorithm sends as much as it can. Nothing that it
// finds is trusted: the flow through an arc becomes the multiplier of the arc's row.
type flow struct {
	arcs  []arc     // an arc and its reverse have indices that differ in the last bit
	out   [][]int32 // by vertex: the arcs that leave it
	level []int32
	next  []int
	queue []int32
}

// arc leads to a vertex; left is what can still flow, used what flows.
type arc struct {
	to   int32
	row  int32 // or -1
	left int64
}

const (
	source = iota
	sink
)

func newFlow() *flow { return &flow{out: make([][]int32, 2)} }

// vertex adds one.
func (g *flow) vertex() int32 {
	g.out = append(g.out, nil)
	return int32(len(g.out) - 1)
}

// add adds an arc.
func (g *flow) add(from, to, row int32, capacity int64) {
	g.out[from] = append(g.out[from], int32(len(g.arcs)))
	g.out[to] = append(g.out[to], int32(len(g.arcs)+1))
	g.arcs = append(g.arcs, arc{to, row, capacity}, arc{from, -1, 0})
}

// used returns what flows through the arc of an even index.
func (g *flow) used(i int) int64 { return g.arcs[i+1].left }

// max sends as much as it can from the source to the sink.
func (g *flow) max() (total int64) {
	for g.levels() {
		g.next = append(g.next[:0], make([]int, len(g.out))...)
		for sent := g.send(); sent > 0; sent = g.send() {
			total += sent
		}
	}
	return total
}

// levels finds the distance of each vertex from the source, as far as the sink.
func (g *flow) levels() bool {
	g.level = append(g.level[:0], make([]int32, len(g.out))...)
	g.level[source] = 1
	g.queue = append(g.queue[:0], source)
	for k := 0; k < len(g.queue) && g.level[sink] == 0; k++ {
		v := g.queue[k]
		for _, i := range g.out[v] {
			if a := &g.arcs[i]; a.left > 0 && g.level[a.to] == 0 {
				g.level[a.to] = g.level[v] + 1
				g.queue = append(g.queue, a.to)
			}
		}
	}
	return g.level[sink] > 0
}

// send sends flow along one path on which each arc gains a level; 0 if there is none.
func (g *flow) send() int64 {
	var path []int32
	v := int32(source)
	for v != sink {
		found := false
		for ; g.next[v] < len(g.out[v]); g.next[v]++ {
			i := g.out[v][g.next[v]]
			if a := &g.arcs[i]; a.left > 0 && g.level[a.to] == g.level[v]+1 {
				path, v, found = append(path, i), a.to, true
				break
			}
		}
		if found {
			continue
		}
		if len(path) == 0 {
			return 0
		}
		last := path[len(path)-1]
		path = path[:len(path)-1]
		v = g.arcs[last^1].to
		g.next[v]++
	}
	units := int64(unlimited)
	for _, i := range path {
		units = min(units, g.arcs[i].left)
	}
	for _, i := range path {
		g.arcs[i].left -= units
		g.arcs[i^1].left += units
	}
	return units
}
