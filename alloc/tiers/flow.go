package tiers

import (
	"container/heap"
	"math"
)

// flow is a network for a flow of minimum cost from its first to its last vertex. Every
// edge leads to a later vertex.
type flow struct {
	out       [][]int32 // edges by vertex; edge e^1 is the reverse of e
	to        []int32
	left      []int64 // capacity that is left
	cost      []int64
	potential []int64 // of each vertex: the least cost of a path from the first
}

func newFlow(vertices int) *flow { return &flow{out: make([][]int32, vertices)} }

func (f *flow) edge(from, to int, capacity, cost int64) {
	f.out[from] = append(f.out[from], int32(len(f.to)))
	f.out[to] = append(f.out[to], int32(len(f.to)+1))
	f.to = append(f.to, int32(to), int32(from))
	f.left = append(f.left, capacity, 0)
	f.cost = append(f.cost, cost, -cost)
}

// send sends an amount along cheapest paths, as long as they cost less than nothing,
// and until it has looked at that many edges. The potentials are then a dual solution.
func (f *flow) send(amount int64, work int) {
	n := len(f.out)
	f.potential = make([]int64, n)
	for v := 1; v < n; v++ {
		f.potential[v] = math.MaxInt64 / 2
	}
	for v := range n {
		for _, e := range f.out[v] {
			if f.left[e] > 0 {
				f.potential[f.to[e]] = min(f.potential[f.to[e]], f.potential[v]+f.cost[e])
			}
		}
	}
	for amount > 0 && f.potential[n-1] < 0 && work > 0 {
		by, looked := f.cheapest()
		work -= looked
		if f.potential[n-1] >= 0 {
			return
		}
		least := amount
		for v := n - 1; v > 0; v = int(f.to[by[v]^1]) {
			least = min(least, f.left[by[v]])
		}
		for v := n - 1; v > 0; v = int(f.to[by[v]^1]) {
			f.left[by[v]] -= least
			f.left[by[v]^1] += least
		}
		amount -= least
	}
}

// cheapest returns the edge by which a cheapest path reaches each vertex (Dijkstra), and
// the number of edges that it has looked at. It makes the potentials those of the present
// flow.
func (f *flow) cheapest() (by []int32, looked int) {
	n := len(f.out)
	distance := make([]int64, n)
	by = make([]int32, n)
	for v := 1; v < n; v++ {
		distance[v] = math.MaxInt64
	}
	q := &queue{{0, 0}}
	for q.Len() > 0 {
		x := heap.Pop(q).(reached)
		if x.distance > distance[x.vertex] {
			continue
		}
		for _, e := range f.out[x.vertex] {
			looked++
			to := f.to[e]
			if f.left[e] == 0 {
				continue
			}
			if d := x.distance + f.cost[e] + f.potential[x.vertex] - f.potential[to]; d < distance[to] {
				distance[to], by[to] = d, e
				heap.Push(q, reached{to, d})
			}
		}
	}
	for v := range n {
		f.potential[v] += distance[v]
	}
	return by, looked
}

// reached is a vertex with the length of a path to it.
type reached struct {
	vertex   int32
	distance int64
}

// queue is a heap of vertices, the nearest first.
type queue []reached

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].distance != q[j].distance {
		return q[i].distance < q[j].distance
	}
	return q[i].vertex < q[j].vertex
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(reached)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
