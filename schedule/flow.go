package schedule

import "math"

// infinite is the capacity of an edge that no minimum cut crosses. Networks are
// only built for problems whose sizes sum to less; see tooLarge.
const infinite = int64(math.MaxInt64 / 4)

// tooLarge reports whether sums of infinite and sizes could overflow.
func (g *net) tooLarge() bool {
	left := infinite/4 - g.idle
	for _, list := range [2][]int64{g.size, g.trans} {
		for _, x := range list {
			if left -= x; left < 0 {
				return true
			}
		}
	}
	return g.base > left
}

// flow is a network and a maximum flow in it, found by Dinic's algorithm
// ("Algorithm for solution of a problem of maximum flow in networks with power
// estimation", 1970) on arrays that are kept between networks. Edge e and its
// reverse e^1 stand side by side. Vertex 0 is the source, 1 the sink.
type flow struct {
	first    []int32 // vertex -> its newest edge, or -1
	next, to []int32
	left     []int64 // capacity left
	level    []int32
	current  []int32
	queue    []int32
	path     []int32
	work     int64 // vertices and edges visited, over all networks

	halt   func() bool // ends augment early; nil: never
	broken bool        // a flow ended so: what was added is no maximum
}

const source, sink = int32(0), int32(1)

func (f *flow) reset(vertices int) {
	f.first = resize(f.first, vertices)
	for i := range f.first {
		f.first[i] = -1
	}
	f.next, f.to, f.left = f.next[:0], f.to[:0], f.left[:0]
}

func (f *flow) newVertex() int32 {
	f.first = append(f.first, -1)
	return int32(len(f.first) - 1)
}

func (f *flow) edge(u, v int32, capacity int64) {
	e := int32(len(f.to))
	f.to = append(f.to, v, u)
	f.left = append(f.left, capacity, 0)
	f.next = append(f.next, f.first[u], f.first[v])
	f.first[u], f.first[v] = e, e+1
}

// layers gives each vertex its distance from the source in the residual
// network, and reports whether the sink has one.
func (f *flow) layers() bool {
	f.level = resize(f.level, len(f.first))
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[source] = 0
	queue := append(f.queue[:0], source)
	for i := 0; i < len(queue) && f.level[sink] < 0; i++ {
		u := queue[i]
		for e := f.first[u]; e >= 0; e = f.next[e] {
			if v := f.to[e]; f.left[e] > 0 && f.level[v] < 0 {
				f.level[v] = f.level[u] + 1
				queue = append(queue, v)
			}
		}
	}
	f.work += int64(len(f.level)) + 4*int64(len(queue))
	f.queue = queue
	return f.level[sink] >= 0
}

// augment adds flow until the sink cannot be reached, or until it has added
// enough, and returns what it added. It may follow edges added since the last
// call. It looks every pollFlow steps whether it has to end early.
func (f *flow) augment(enough int64) (added int64) {
	steps := 0
	for added < enough && !f.halted() && f.layers() {
		f.current = append(f.current[:0], f.first...)
		path := f.path[:0]
		u := source
		for {
			if steps++; steps%pollFlow == 0 && f.halted() {
				return added
			}
			if u == sink {
				narrow := 0
				for i, e := range path {
					if f.left[e] < f.left[path[narrow]] {
						narrow = i
					}
				}
				amount := f.left[path[narrow]]
				for _, e := range path {
					f.left[e] -= amount
					f.left[e^1] += amount
				}
				f.work += int64(len(path))
				if added += amount; added >= enough {
					break
				}
				u = f.to[path[narrow]^1]
				path = path[:narrow]
				continue
			}
			e := f.current[u]
			for e >= 0 && (f.left[e] == 0 || f.level[f.to[e]] != f.level[u]+1) {
				e = f.next[e]
			}
			f.current[u] = e
			if e >= 0 {
				path = append(path, e)
				u = f.to[e]
				continue
			}
			if u == source {
				break
			}
			f.level[u] = -1
			u = f.to[path[len(path)-1]^1]
			path = path[:len(path)-1]
		}
		f.path = path
	}
	return added
}

// pollFlow is how many steps along edges lie between two looks: microseconds.
const pollFlow = 4096

func (f *flow) halted() bool {
	f.broken = f.broken || f.halt != nil && f.halt()
	return f.broken
}

// reach marks in level, with 0, what the source reaches in the residual
// network, or what reaches the sink; everything else has -1.
func (f *flow) reach(from int32) {
	f.level = resize(f.level, len(f.first))
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[from] = 0
	queue := append(f.queue[:0], from)
	for i := 0; i < len(queue); i++ {
		u := queue[i]
		for e := f.first[u]; e >= 0; e = f.next[e] {
			left := f.left[e]
			if from == sink {
				left = f.left[e^1]
			}
			if v := f.to[e]; left > 0 && f.level[v] < 0 {
				f.level[v] = 0
				queue = append(queue, v)
			}
		}
	}
	f.queue = queue
}

// dropEdge takes back the newest edge, which runs from u to v.
func (f *flow) dropEdge(u, v int32) {
	e := len(f.to) - 2
	f.first[u], f.first[v] = f.next[e], f.next[e+1]
	f.to, f.next, f.left = f.to[:e], f.next[:e], f.left[:e]
}
