package alloc

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// requests builds runs from a short form: a:4 allocates block a, a frees it, and | begins
// another run. A name may be used again.
func requests(text string) (runs [][]Request) {
	number, next := map[string]int{}, 0
	for _, run := range strings.Split(text, "|") {
		list := []Request{}
		for _, word := range strings.Fields(run) {
			name, size, begins := strings.Cut(word, ":")
			if !begins {
				list = append(list, Request{Block: number[name], Free: true})
				continue
			}
			n, _ := strconv.ParseInt(size, 10, 64)
			number[name] = next
			list = append(list, Request{Block: next, Size: n})
			next++
		}
		runs = append(runs, list)
	}
	return runs
}

func TestReplayer(t *testing.T) {
	const steady = "a:4 b:2 a c:4 b c"
	last, sizes := Replayer{By: BySize, Patience: 2}, Replayer{Patience: 1, Larger: true, Merge: true}
	for _, c := range []struct {
		name string
		by   Replayer
		runs string
		want ReplayResult
	}{
		{"the first run has no plan, the others are in it", last, steady + "|" + steady + "|" + steady, ReplayResult{Requests: 9, Hits: 6, Deviating: 1, Plans: 1, Arena: 6, Fallback: 6, Peak: 6}},
		{"a request in between interrupts, the next one resumes", last, steady + "|a:4 x:3 b:2 a x c:4 b c|" + steady, ReplayResult{Requests: 10, Hits: 6, Deviating: 2, Plans: 1, Arena: 6, Fallback: 6, Peak: 9}},
		{"it takes a hole if it may", Replayer{By: BySize, Patience: 2, Holes: true}, "a:4 b:2 a b|a:4 x:2 a b:2 x b", ReplayResult{Requests: 5, Hits: 2, Deviating: 2, Plans: 1, Arena: 6, Fallback: 6, Peak: 6}},
		{"a request that is left out is skipped", last, steady + "|a:4 a c:4 c|" + steady, ReplayResult{Requests: 8, Hits: 5, Deviating: 1, Plans: 1, Arena: 6, Fallback: 6, Peak: 6}},
		{"one run that differs makes no plan", last, steady + "|a:9 a|" + steady + "|" + steady, ReplayResult{Requests: 10, Hits: 6, Deviating: 2, Plans: 1, Arena: 6, Fallback: 9, Peak: 15}},
		{"two in a row do", last, steady + "|a:9 a|a:9 a|a:9 a", ReplayResult{Requests: 6, Hits: 1, Deviating: 3, Plans: 2, Arena: 9, Fallback: 9, Peak: 15}},
		{"never, without patience", Replayer{By: BySize}, steady + "|a:9 a|a:9 a|a:9 a", ReplayResult{Requests: 6, Deviating: 4, Plans: 1, Arena: 6, Fallback: 9, Peak: 15}},
		{"a smaller request has the place of the larger one", sizes, "a:9 b:1 a b|a:3 b:1 a b", ReplayResult{Requests: 4, Hits: 2, Deviating: 1, Plans: 1, Arena: 10, Fallback: 10, Peak: 10}},
		{"a larger one makes a plan for both", sizes, "a:9 b:1 a b|a:3 b:5 a b|a:9 b:5 a b", ReplayResult{Requests: 6, Hits: 3, Deviating: 2, Plans: 2, Arena: 14, Fallback: 10, Peak: 15}},
		{"kinds have plans of their own", Replayer{By: BySize, Patience: 1, Plans: 2}, "a:4 a|b:6 b|a:4 a|b:6 b", ReplayResult{Requests: 4, Hits: 2, Deviating: 2, Plans: 2, Arena: 6, Fallback: 6, Peak: 10}},
		{"the least recently used goes", Replayer{By: BySize, Patience: 1, Plans: 1}, "a:4 a|b:6 b|a:4 a|a:4 a", ReplayResult{Requests: 4, Hits: 1, Deviating: 3, Plans: 3, Arena: 6, Fallback: 6, Peak: 10}},
		{"a block that outlives its run is left to the fallback", last, "a:4 o:2 a|a:4 o p:2 a|a:4 p q:2 a q", ReplayResult{Requests: 4, Hits: 2, Deviating: 1, Plans: 1, Arena: 4, Fallback: 6, Peak: 6}},
		{"a place on which a block lives is not given out", last, "a:4 a b:4 b|a:4 b:4 a b", ReplayResult{Requests: 4, Hits: 1, Deviating: 2, Plans: 1, Arena: 4, Fallback: 4, Peak: 8}},
	} {
		got, err := c.by.Run(context.Background(), requests(c.runs), 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s: -want +got:\n%s", c.name, c.runs, diff)
		}
	}
}

// TestReplayerIsSafe: whatever the runs ask for, no two live blocks share a byte, all
// bytes are counted, and nothing is left at the end.
func TestReplayerIsSafe(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	hits := map[string]int{}
	for range 60 {
		// Three kinds of runs: sizes, and for each request the earlier one that it frees.
		var kinds [3][][2]int
		for k := range kinds {
			var live []int
			for i := range 30 {
				if n := len(live); n > 0 && random.IntN(2) == 0 {
					j := random.IntN(n)
					kinds[k] = append(kinds[k], [2]int{-1, live[j]})
					live = append(live[:j], live[j+1:]...)
					continue
				}
				kinds[k] = append(kinds[k], [2]int{random.IntN(100), 0})
				live = append(live, i)
			}
		}
		var runs [][]Request
		block, left := 0, []int{} // left: live since the run before
		for range 12 {
			var run []Request
			kind, faults := kinds[random.IntN(3)], random.IntN(3)
			of := map[int]int{}
			var next []int
			for i, q := range kind {
				fault := faults > 0 && random.IntN(15) == 0
				switch {
				case q[0] >= 0:
					size := int64(q[0])
					if fault {
						size += random.Int64N(50)
					}
					run = append(run, Request{Block: block, Size: size})
					of[i] = block
					block++
				case fault: // freed in the next run only
				default:
					run = append(run, Request{Block: of[q[1]], Free: true})
					delete(of, q[1])
				}
				if len(left) > 0 && random.IntN(4) == 0 {
					run = append(run, Request{Block: left[0], Free: true})
					left = left[1:]
				}
			}
			for i := range kind {
				if b, ok := of[i]; ok {
					next = append(next, b)
				}
			}
			left = append(left, next...)
			runs = append(runs, run)
		}
		var end []Request
		for _, b := range left {
			end = append(end, Request{Block: b, Free: true})
		}
		for _, r := range Replayers {
			s := newReplaying(context.Background(), r, 8)
			s.after = func() { s.check(t) }
			for number, run := range append(runs, end) {
				if err := s.run(number, run); err != nil {
					t.Fatal(err)
				}
			}
			if len(s.live) > 0 || s.places.Len() > 0 || s.fallback != 0 {
				t.Errorf("%s: left: %d live, %d places, %d bytes", r.Name, len(s.live), s.places.Len(), s.fallback)
			}
			hits[r.Name] += s.result.Hits
		}
	}
	for _, r := range Replayers {
		if hits[r.Name] == 0 {
			t.Errorf("%s: no request ever got a planned place", r.Name)
		}
	}
}

// check compares the live blocks, each with each.
func (s *replaying) check(t *testing.T) {
	t.Helper()
	outside, inside := int64(0), 0
	for i, a := range s.live {
		if !a.planned {
			outside += a.size
			continue
		}
		inside++
		if a.offset < 0 || a.offset+a.size > s.result.Arena {
			t.Fatalf("%s: block %d at %d-%d: outside of the arena of %d", s.Name, i, a.offset, a.offset+a.size, s.result.Arena)
		}
		for j, b := range s.live {
			if i != j && b.planned && a.offset < b.offset+b.size && b.offset < a.offset+a.size {
				t.Fatalf("%s: blocks %d at %d-%d and %d at %d-%d overlap", s.Name, i, a.offset, a.offset+a.size, j, b.offset, b.offset+b.size)
			}
		}
	}
	if outside != s.fallback || inside != s.places.Len() || s.result.Fallback < outside {
		t.Fatalf("%s: %d bytes outside of %d, %d places of %d", s.Name, outside, s.fallback, inside, s.places.Len())
	}
}
