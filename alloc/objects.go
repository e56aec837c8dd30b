package alloc

import (
	"cmp"
	"slices"
)

// Objects is the other way to share memory. Instead of offsets in one arena there
// are whole blocks, the shared objects, each of which holds one buffer at a time,
// such as the textures of a GPU, which cannot be cut. An object is as large as its
// largest buffer.
type Objects struct {
	Object []int   // by buffer: the object it is in; -1 for one of 0 bytes
	Sizes  []int64 // by object, in bytes
	Total  int64   // bytes: the sum of Sizes
}

// ObjectBound returns the sum of the positional maxima (Pisarchyk & Lee 2020, section 4.1).
// Sort the live sizes of each step in descending order; take the largest of the first ones,
// the largest of the second ones and so on. The k-th largest object of any assignment is at
// least as large as the k-th maximum, so no assignment needs fewer bytes. Sizes are rounded
// up; gaps and fixed offsets have no effect on objects. O(n log n).
func (p Problem) ObjectBound() int64 {
	var sum int64
	for _, size := range prepare(p).positionalMaxima() {
		sum += size
	}
	return sum
}

// positionalMaxima returns the maxima in descending order. The k-th is the largest
// size for which k buffers of that size or more are live together. Adding the
// buffers by descending size, it is the size at which k of them are live together
// for the first time.
func (s prepared) positionalMaxima() []int64 {
	bySize := slices.Clone(s.ids)
	slices.SortFunc(bySize, func(a, b int) int { return -cmp.Compare(s.size[a], s.size[b]) })
	live := newMaxTree(s.sections)
	live.reset(make([]int64, s.sections))
	var maxima []int64
	for _, i := range bySize {
		live.add(s.lo[i], s.hi[i], 1)
		if live.top() > int64(len(maxima)) {
			maxima = append(maxima, s.size[i])
		}
	}
	return maxima
}

// ObjectStrategy is a way to assign buffers to shared objects.
type ObjectStrategy struct {
	Name   string
	Doc    string // its rule, in a line
	Source string // the paper
	Func   func(Problem) Objects
	// MaxBuffers is the number of buffers that it can handle within a second or two;
	// tables of all strategies leave it out beyond. 0: tens of thousands.
	MaxBuffers int
}

// ObjectStrategies lists the strategies. Each takes a valid problem and returns an
// assignment that depends on the problem alone. They ignore fixed offsets, hints and
// gaps.
var ObjectStrategies = []ObjectStrategy{
	{Name: "objects-by-size", Func: ObjectsBySize, Doc: "largest first, each into the smallest object that is free", Source: "Pisarchyk & Lee 2020, algorithm 2"},
	{Name: "objects-by-size-improved", Func: ObjectsBySizeImproved, Doc: "by positional maxima; of similar sizes, the one that leaves an object idle for the fewest steps", Source: "Pisarchyk & Lee 2020, section 4.4", MaxBuffers: 8000},
	{Name: "objects-by-breadth", Func: ObjectsByBreadth, Doc: "busiest step first, its buffers largest first, each into the smallest object that is large enough, else the largest grows", Source: "Pisarchyk & Lee 2020, algorithm 1"},
	{Name: "objects-in-order", Func: ObjectsInOrder, Doc: "in the order of time, each into the free object of the closest size", Source: "Lee et al. 2019, greedy"},
	{Name: "objects-by-flow", Func: ObjectsByFlow, Doc: "the successor of each buffer in its object, as an assignment of least cost", Source: "Lee et al. 2019, min-cost flow", MaxBuffers: 1500},
}

// ObjectsBySize assigns the largest buffers first, each to the smallest object that
// is free throughout its lifetime (the newest of equal ones), or to a new object. So
// no object ever grows (Pisarchyk & Lee 2020, algorithm 2). Buffers of equal size go
// by lifetime, the longest first, then by index. The paper leaves that open, and its
// own figures need another order (docs/results/placement.md). O(n k log n) for k
// objects.
func ObjectsBySize(p Problem) Objects {
	o := newObjectBuilder(p)
	slices.SortFunc(o.ids, func(a, b int) int {
		return cmp.Or(
			-cmp.Compare(o.size[a], o.size[b]),
			-cmp.Compare(duration(p.Buffers[a]), duration(p.Buffers[b])),
			cmp.Compare(a, b))
	})
	for _, i := range o.ids {
		object := len(o.held) - 1 // the newest object is the smallest
		for ; object >= 0; object-- {
			if _, free := o.slot(object, i); free {
				break
			}
		}
		o.put(i, object)
	}
	return o.objects
}

// ObjectsByBreadth visits the steps by descending breadth, the sum of the sizes that are live
// there. It assigns the live buffers that have no object yet, largest first (Pisarchyk & Lee
// 2020, algorithm 1). Each gets the smallest free object that is large enough, else the
// largest free object, which grows, else a new one. The paper leaves ties open. Here they go
// to the later step and to the larger index, which gives the paper's figures for the
// MobileNets. O(n k log n) for k objects.
func ObjectsByBreadth(p Problem) Objects {
	o := newObjectBuilder(p)
	rank := o.breadthRanks(-1)
	slices.SortFunc(o.ids, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(rank[a], rank[b]),
			-cmp.Compare(o.size[a], o.size[b]),
			-cmp.Compare(a, b))
	})
	for _, i := range o.ids {
		o.put(i, o.tightest(i))
	}
	return o.objects
}

// ObjectsInOrder assigns the buffers in the order of their first steps, each to the
// free object whose size is closest to its own; a smaller object grows. If no object
// is free, it makes a new one (Lee et al. 2019, the greedy algorithm of TFLite's GPU
// delegate). Of a smaller and a larger object that are equally close it takes the
// larger; of equal larger ones the oldest, of equal smaller ones the newest. Of
// buffers that start together the smaller index goes first. O(n k) for k objects.
func ObjectsInOrder(p Problem) Objects {
	o := newObjectBuilder(p)
	slices.SortFunc(o.ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Buffers[a].First, p.Buffers[b].First), cmp.Compare(a, b))
	})
	for _, i := range o.ids {
		best, least := -1, int64(0)
		for object, held := range o.held {
			if held[len(held)-1].last >= p.Buffers[i].First {
				continue
			}
			waste := o.objects.Sizes[object] - o.size[i]
			grows := waste < 0
			if grows {
				waste = -waste
			}
			if best >= 0 {
				bestGrows := o.objects.Sizes[best] < o.size[i]
				if waste > least || waste == least && (grows && !bestGrows || !grows && !bestGrows) {
					continue
				}
			}
			best, least = object, waste
		}
		o.put(i, best)
	}
	return o.objects
}

// objectBuilder builds an assignment, buffer by buffer.
type objectBuilder struct {
	prepared
	buffers []Buffer
	objects Objects
	held    [][]lifetime // by object: of its buffers, in the order of time
}

// lifetime is the steps [first, last], both inclusive.
type lifetime struct{ first, last int }

func newObjectBuilder(p Problem) *objectBuilder {
	o := &objectBuilder{prepared: prepare(p), buffers: p.Buffers, objects: Objects{Object: make([]int, len(p.Buffers))}}
	for i := range o.objects.Object {
		o.objects.Object[i] = -1
	}
	return o
}

// slot returns the number of buffers of an object that begin before i, and whether
// the object is free throughout the lifetime of i. O(log n).
func (o *objectBuilder) slot(object, i int) (at int, free bool) {
	held, b := o.held[object], &o.buffers[i]
	end := len(held)
	for at < end { // written out for speed: somas-bert_nezha by size improved takes 3 s instead of 10 s
		if mid := (at + end) / 2; held[mid].first < b.First {
			at = mid + 1
		} else {
			end = mid
		}
	}
	free = (at == 0 || held[at-1].last < b.First) && (at == len(held) || b.Last < held[at].first)
	return at, free
}

// put assigns buffer i to an object that is free, or to a new one if object is -1.
// The object grows to its size.
func (o *objectBuilder) put(i, object int) {
	if object < 0 {
		object = len(o.held)
		o.held = append(o.held, nil)
		o.objects.Sizes = append(o.objects.Sizes, 0)
	}
	at, _ := o.slot(object, i)
	o.held[object] = slices.Insert(o.held[object], at, lifetime{o.buffers[i].First, o.buffers[i].Last})
	o.objects.Object[i] = object
	grown := max(o.objects.Sizes[object], o.size[i])
	o.objects.Total += grown - o.objects.Sizes[object]
	o.objects.Sizes[object] = grown
}

// tightest returns the smallest free object that is large enough for buffer i; if
// all free ones are smaller, the largest of them; if none is free, -1. Of equal
// objects it takes the oldest. O(k log n) for k objects.
func (o *objectBuilder) tightest(i int) int {
	best := -1
	for object, size := range o.objects.Sizes {
		if best >= 0 {
			bestSize := o.objects.Sizes[best]
			if bestSize < o.size[i] && size <= bestSize || bestSize >= o.size[i] && (size < o.size[i] || size >= bestSize) {
				continue
			}
		}
		if _, free := o.slot(object, i); free {
			best = object
		}
	}
	return best
}
