package alloc

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestObjectsAreBounded: the bound is at most the optimum of brute force, which is at most
// the total of every strategy.
func TestObjectsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 8)
		bound, best := p.ObjectBound(), fewestObjectBytes(p)
		if bound > best {
			t.Fatalf("bound %d, optimum %d", bound, best)
		}
		if bound < p.MaxLoad() {
			t.Fatalf("bound %d, largest load %d", bound, p.MaxLoad())
		}
		for _, s := range ObjectStrategies {
			o := s.Func(p)
			if err := p.CheckObjects(o); err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			if o.Total < best {
				t.Fatalf("%s: %d bytes, optimum %d", s.Name, o.Total, best)
			}
		}
	})
}

// fewestObjectBytes tries all assignments: each buffer in each object that is free for
// it, or in a new one.
func fewestObjectBytes(p Problem) int64 {
	var objects [][]int
	var least int64 = -1
	var lay func(i int)
	lay = func(i int) {
		if i == len(p.Buffers) {
			var total int64
			for _, held := range objects {
				var largest int64
				for _, j := range held {
					largest = max(largest, p.size(j))
				}
				total += largest
			}
			if least < 0 || total < least {
				least = total
			}
			return
		}
	next:
		for o := range objects {
			for _, j := range objects[o] {
				if p.Buffers[i].First <= p.Buffers[j].Last && p.Buffers[j].First <= p.Buffers[i].Last {
					continue next
				}
			}
			objects[o] = append(objects[o], i)
			lay(i + 1)
			objects[o] = objects[o][:len(objects[o])-1]
		}
		objects = append(objects, []int{i})
		lay(i + 1)
		objects = objects[:len(objects)-1]
	}
	lay(0)
	return least
}

// TestObjectStrategiesAreValid: every strategy is valid on larger problems of realistic
// shapes.
func TestObjectStrategiesAreValid(t *testing.T) {
	for name, p := range map[string]Problem{"transformer": transformer(1200), "tangled": tangled(600), "long": longLived(600)} {
		bound := p.ObjectBound()
		for _, s := range ObjectStrategies {
			o := s.Func(p)
			if err := p.CheckObjects(o); err != nil {
				t.Errorf("%s: %s: %v", name, s.Name, err)
			}
			if o.Total < bound {
				t.Errorf("%s: %s: %d bytes, below the bound %d", name, s.Name, o.Total, bound)
			}
		}
	}
}

// TestObjectsBySizeImprovedIsNaive: the strategy agrees with a simple implementation of
// its rule that keeps no candidates.
func TestObjectsBySizeImprovedIsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 30)
		got, want := ObjectsBySizeImproved(p), improvedNaively(p, true)
		if d := gocmp.Diff(want, got.Object); d != "" {
			t.Fatalf("want - got +:\n%s", d)
		}
	})
}

// improvedNaively returns the object of each buffer. Of equally near buffers the
// larger goes first if largerFirst is set, else the smaller index.
func improvedNaively(p Problem, largerFirst bool) []int {
	var maxima []int64 // by position
	for _, at := range p.Buffers {
		var live []int64
		for i, b := range p.Buffers {
			if b.First <= at.First && at.First <= b.Last && p.size(i) > 0 {
				live = append(live, p.size(i))
			}
		}
		slices.Sort(live)
		slices.Reverse(live)
		for k, size := range live {
			if k == len(maxima) {
				maxima = append(maxima, size)
			}
			maxima[k] = max(maxima[k], size)
		}
	}
	object := make([]int, len(p.Buffers))
	todo := 0
	for i := range object {
		object[i] = -1
		if p.size(i) > 0 {
			todo++
		}
	}
	position := func(i int) (k int) {
		for k < len(maxima) && maxima[k] >= p.size(i) {
			k++
		}
		return k
	}
	for objects := 0; todo > 0; todo-- {
		best, to, least := -1, -1, math.MaxInt
		for i, b := range p.Buffers {
			if p.size(i) == 0 || object[i] >= 0 {
				continue
			}
			in, idle := -1, math.MaxInt
		next:
			for o := range objects {
				gap := math.MaxInt
				for j, c := range p.Buffers {
					switch {
					case object[j] != o:
					case c.Last < b.First:
						gap = min(gap, b.First-c.Last)
					case b.Last < c.First:
						gap = min(gap, c.First-b.Last)
					default:
						continue next
					}
				}
				if gap < idle {
					in, idle = o, gap
				}
			}
			if best < 0 || cmp.Or(cmp.Compare(position(i), position(best)), cmp.Compare(idle, least)) < 0 ||
				largerFirst && position(i) == position(best) && idle == least && p.size(i) > p.size(best) {
				best, to, least = i, in, idle
			}
		}
		if to < 0 {
			to = objects
			objects++
		}
		object[best] = to
	}
	return object
}

// TestObjectsByFlowIsCheapest: the successors have the least cost of all choices.
func TestObjectsByFlowIsCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 7)
		o := ObjectsByFlow(p)
		var got int64 // the cost of its objects, each in the order of time
		for object := range o.Sizes {
			var held []int
			for i := range p.Buffers {
				if o.Object[i] == object {
					held = append(held, i)
				}
			}
			slices.SortFunc(held, func(a, b int) int { return cmp.Compare(p.Buffers[a].First, p.Buffers[b].First) })
			var before int64
			for _, i := range held {
				got += max(0, p.size(i)-before)
				before = p.size(i)
			}
		}
		followed := make([]bool, len(p.Buffers))
		var least func(i int) int64
		least = func(i int) int64 {
			if i == len(p.Buffers) {
				return 0
			}
			best := p.size(i) + least(i+1)
			for j, b := range p.Buffers {
				if !followed[j] && b.Last < p.Buffers[i].First && p.size(i) > 0 {
					followed[j] = true
					best = min(best, max(0, p.size(i)-p.size(j))+least(i+1))
					followed[j] = false
				}
			}
			return best
		}
		if want := least(0); got != want {
			t.Fatalf("cost %d, the least is %d", got, want)
		}
	})
}

// TestObjectStrategies: the rules and tie-breaks of each strategy, one per case.
func TestObjectStrategies(t *testing.T) {
	for _, c := range []struct {
		strategy, name, problem string
		objects                 []int
		sizes                   []int64
	}{
		{"objects-by-size", "the picture", picture, []int{0, 1, 2, 0}, []int64{4, 2, 1}},
		{"objects-by-size", "the smallest that is free", "a:9@0-0 b:7@0-0 c:5@0-1 d:4@1-1", []int{0, 1, 2, 1}, []int64{9, 7, 5}},
		{"objects-by-size", "the newest of equal ones", "a:4@0-0 b:4@0-0 c:2@1-1", []int{0, 1, 1}, []int64{4, 4}},
		{"objects-by-size", "0 bytes are in no object", "a:4@0-0 z:0@0-0", []int{0, -1}, []int64{4}},
		{"objects-by-size-improved", "the object idle least", "a:8@0-2 b:8@1-4 c:3@1-1 d:3@5-5", []int{0, 1, 2, 1}, []int64{8, 8, 3}},
		{"objects-by-size-improved", "no new object while one is free", "a:4@0-1 b:4@1-2 c:4@9-9", []int{0, 1, 0}, []int64{4, 4}},
		{"objects-by-breadth", "the smallest that is large enough", "a:9@0-0 b:5@0-0 c:4@1-1", []int{0, 1, 1}, []int64{9, 5}},
		{"objects-by-breadth", "the largest grows if all are smaller", "a:3@0-0 b:2@0-0 c:4@1-1", []int{0, 1, 0}, []int64{4, 2}},
		{"objects-in-order", "the closest, though it must grow", "a:10@0-0 b:5@0-0 c:6@1-1", []int{0, 1, 1}, []int64{10, 6}},
		{"objects-in-order", "the larger of equally close ones", "a:4@0-0 b:8@0-0 c:6@1-1", []int{0, 1, 1}, []int64{4, 8}},
		{"objects-by-flow", "equal sizes succeed each other", "a:4@0-0 b:2@0-0 c:2@1-1 d:4@1-1", []int{0, 1, 1, 0}, []int64{4, 2}},
		{"objects-by-flow", "to shrink and grow again costs more than an object", "a:4@0-0 b:1@1-1 c:4@2-2", []int{0, 1, 0}, []int64{4, 1}},
	} {
		t.Run(c.strategy+"/"+c.name, func(t *testing.T) {
			p := parse(t, c.problem)
			for _, s := range ObjectStrategies {
				if s.Name != c.strategy {
					continue
				}
				got := s.Func(p)
				if err := p.CheckObjects(got); err != nil {
					t.Fatal(err)
				}
				if d := gocmp.Diff(c.objects, got.Object); d != "" {
					t.Errorf("%s: objects, want - got +:\n%s", c.problem, d)
				}
				if d := gocmp.Diff(c.sizes, got.Sizes); d != "" {
					t.Errorf("%s: sizes, want - got +:\n%s", c.problem, d)
				}
			}
		})
	}
}
