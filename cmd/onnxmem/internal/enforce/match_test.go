package enforce

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onnxmem/onnxmem/alloc"
)

// parseRun reads events: "+100" allocates the next block, of 100 bytes, "-0" frees block 0.
func parseRun(t *testing.T, text string) (run []Recorded) {
	t.Helper()
	for e, word := range strings.Fields(text) {
		n := int64(0)
		for _, c := range word[1:] {
			n = 10*n + int64(c-'0')
		}
		if word[0] == '+' {
			run = append(run, Recorded{n, e, none})
		} else {
			run[n].End = e
		}
	}
	return run
}

func TestMatch(t *testing.T) {
	// a -> b -> c -> d, each read by the next node alone, d a result.
	chain := &List{Blocks: []Block{
		{Tensor: "a", Bytes: 100, First: 0, Last: 1, Over: none},
		{Tensor: "b", Bytes: 100, First: 1, Last: 2, Over: 0},
		{Tensor: "c", Bytes: 100, First: 2, Last: 3, Over: none},
		{Tensor: "d", Bytes: 100, First: 3, Last: 3, Output: true, Over: none},
	}}
	for _, c := range []struct {
		name, run string
		want      []int
		err       string
	}{
		{"tensors alone", "+100 +100 -0 +100 -1 +100 -2", []int{0, 1, 2, 3}, ""},
		{"scratch of another size", "+7 +100 -0 +100 -1 +100 -2 +9 +100 -4 -3", []int{none, 0, 1, 2, none, 3}, ""},
		{"scratch of the same size after the result", "+100 +100 +100 -2 -0 +100 -1 +100 -3", []int{0, 1, none, 2, 3}, ""},
		{"scratch of the same size before the result", "+100 +100 +100 -1 -0 +100 -2 +100 -3", []int{0, none, 1, 2, 3}, ""},
		{"scratch of the first node", "+100 +100 -0 +100 -1 +100 -2 +100 -3", []int{none, 0, 1, 2, 3}, ""},
		{"what outlives the run is the result", "+100 +100 -0 +100 -1 +100 +100 -3 -2", []int{0, 1, 2, none, 3}, ""},
		{"a block is missing", "+100 +100 -0 +100 -1", nil, "expected one more block of 100 B than there are"},
		{"a size is wrong", "+100 +100 -0 +64 -1 +100 -2", nil, "expected one more block"},
		{"an operand dies late", "+100 +100 +100 +100 -0 -1 -2", nil, `event 2: at node 1 of the run: expected 1 blocks and 0 of scratch to be freed, found the allocation of block 2 (100 B, scratch)`},
		{"an operand dies early", "+100 -0 +100 +100 -1 +100 -2", nil, `event 0: at node 0 of the run: expected "a" of 100 B, found the allocation of block 0 (100 B, scratch)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Match(chain, parseRun(t, c.run))
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got error %v, want %q", err, c.err)
			}
			if c.err == "" && !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A number that the runtime does not allocate, or allocates beside the plan's blocks, leaves the
// others where they are.
func TestMatchLarge(t *testing.T) {
	l := &List{Blocks: []Block{
		{Tensor: "a", Bytes: 1000, First: 0, Last: 2, Over: none},
		{Tensor: "shape", Bytes: 8, First: 1, Last: 2, Over: none},
		{Tensor: "b", Bytes: 1000, First: 2, Last: 3, Over: 0},
		{Tensor: "c", Bytes: 64, First: 3, Last: 3, Output: true, Over: none},
	}}
	for _, c := range []struct {
		name, run string
		want      []int
		err       string
	}{
		{"the number is missing", "+1000 +1000 -0 +64 -1", []int{0, 2, none}, ""},
		{"it has another size", "+1000 +16 +1000 -1 -0 +64 -2", []int{0, none, 2, none}, ""},
		{"another lives on", "+1000 +8 +8 +1000 -0 -1 +64 -3 -2", []int{0, none, none, 2, none}, ""},
		{"a large block is missing", "+1000 +8 -0 -1 +64", nil, "expected one more block of 1"},
		{"a large operand dies late", "+1000 +1000 +64 -1 -0", nil, "event 2: "},
	} {
		run := parseRun(t, c.run)
		if _, err := Match(l, run); err == nil {
			t.Errorf("%s: Match finds all blocks", c.name)
		}
		got, err := MatchLarge(l, run)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.err)
		} else if c.err == "" && !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if _, err := MatchLarge(&List{Blocks: l.Blocks[1:2]}, parseRun(t, "+8")); err == nil || !strings.Contains(err.Error(), "no block") {
		t.Errorf("nothing but tiny blocks: got error %v", err)
	}
}

// simulated is a run of random nodes, and which of its blocks are tensors.
type simulated struct {
	blocks []Block
	run    []Recorded
	truth  []int
}

// simulate draws a network and what a runtime does that runs it: the independent half of
// TestMatchFindsTensors. Sizes are few, so that scratch is easily taken for a tensor.
func simulate(t *rapid.T) (s simulated) {
	steps := rapid.IntRange(1, 12).Draw(t, "steps")
	size := rapid.SampledFrom([]int64{64, 100, 1000})
	for step := range steps {
		for range rapid.IntRange(0, 2).Draw(t, "outputs") {
			b := Block{Bytes: size.Draw(t, "size"), First: step, Last: rapid.IntRange(step, steps-1).Draw(t, "last"), Over: none, Offset: 0}
			b.Output = rapid.IntRange(0, 9).Draw(t, "output") == 0
			for i, a := range s.blocks {
				taken := slices.ContainsFunc(s.blocks, func(o Block) bool { return o.Over == i })
				if !taken && !a.Output && !b.Output && a.First < step && a.Last == step && a.Bytes == b.Bytes && rapid.Bool().Draw(t, "over") {
					b.Over = i
					break
				}
			}
			s.blocks = append(s.blocks, b)
		}
	}
	events := 0
	place := make([]int, len(s.blocks))
	alloc := func(bytes int64, block int) int {
		s.run = append(s.run, Recorded{bytes, events, none})
		s.truth = append(s.truth, block)
		events++
		return len(s.run) - 1
	}
	free := func(i int) {
		s.run[i].End = events
		events++
	}
	for step := range steps {
		var scratch []int
		some := func() {
			for range rapid.IntRange(0, 2).Draw(t, "scratch") {
				scratch = append(scratch, alloc(size.Draw(t, "scratch size"), none))
			}
		}
		for i, b := range s.blocks {
			if b.First == step {
				some()
				place[i] = alloc(b.Bytes, i)
			}
		}
		some()
		for _, i := range scratch {
			free(i)
		}
		for i, b := range s.blocks {
			if b.Last == step && !b.Output {
				free(place[i])
			}
		}
	}
	return s
}

// What is written over an operand is found, or the run is refused. Equal outputs of one
// node may be taken for each other.
func TestMatchFindsTensors(t *testing.T) {
	runs, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := simulate(t)
		runs++
		got, err := Match(&List{Blocks: s.blocks}, s.run)
		if err != nil {
			if refused++; !strings.Contains(err.Error(), "two ways") {
				t.Fatalf("a run of the nodes is refused: %v", err)
			}
			return
		}
		for i, b := range got {
			want := s.truth[i]
			if b == want || b == none && s.blocks[want].Over == none {
				continue
			}
			if b != none && s.blocks[b].Over != none && (want == none || s.blocks[want].First != s.blocks[b].First) {
				t.Fatalf("recorded block %d is taken for tensor %d, which lies over %d; it is %d\n%+v\n%v", i, b, s.blocks[b].Over, want, s.run, cmp.Diff(s.truth, got))
			}
		}
	})
	if refused > runs/20 {
		t.Errorf("%d of %d runs are refused", refused, runs)
	}
}

// Without some of the tiny blocks, what is written over an operand is still found among the
// others, or the run is refused.
func TestMatchLargeFindsTensors(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		s := simulate(t)
		var run []Recorded
		var truth, left []int
		for i, r := range s.run {
			if r.Bytes <= Tiny && rapid.IntRange(0, 3).Draw(t, "missing") == 0 {
				left = append(left, r.Begin, r.End)
				continue
			}
			run, truth = append(run, r), append(truth, s.truth[i])
		}
		earlier := func(e int) (n int) {
			for _, at := range left {
				if at != none && at < e {
					n++
				}
			}
			return n
		}
		for i := range run {
			if run[i].Begin -= earlier(run[i].Begin); run[i].End != none {
				run[i].End -= earlier(run[i].End)
			}
		}
		got, err := MatchLarge(&List{Blocks: s.blocks}, run)
		if err != nil {
			if !strings.Contains(err.Error(), "two ways") && !strings.Contains(err.Error(), "no block of the plan") {
				t.Fatalf("a run of the nodes is refused: %v", err)
			}
			return
		}
		found++
		for i, b := range got {
			want := truth[i]
			if b != none && run[i].Bytes <= Tiny {
				t.Fatalf("block %d of %d B is taken for tensor %d", i, run[i].Bytes, b)
			}
			if b != none && s.blocks[b].Over != none && (want == none || s.blocks[want].First != s.blocks[b].First) {
				t.Fatalf("recorded block %d is taken for tensor %d, which lies over %d; it is %d\n%+v", i, b, s.blocks[b].Over, want, run)
			}
		}
	})
	if found == 0 {
		t.Error("all runs are refused")
	}
}

// No block of a table overlaps another that lives, but for one that it is written over.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := simulate(t)
		top := int64(0)
		for i := range s.blocks { // a plan without any reuse
			b := &s.blocks[i]
			if b.Over != none {
				b.Offset = s.blocks[b.Over].Offset
				continue
			}
			b.Offset = top
			top += (b.Bytes + 63) / 64 * 64
		}
		opt := Options{Alignment: 64, Results: rapid.Bool().Draw(t, "results"), Alloc: alloc.Options{Effort: alloc.EffortFast}}
		table, err := Place(context.Background(), &List{Blocks: s.blocks}, s.run, s.truth, opt)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range s.run {
			if (table.Offsets[i] == none) != (r.End == none && !opt.Results) {
				t.Fatalf("block %d has offset %d", i, table.Offsets[i])
			}
			for j, o := range s.run[:i] {
				apart := table.Offsets[i] == none || table.Offsets[j] == none ||
					o.End != none && o.End < r.Begin ||
					table.Offsets[i] >= table.Offsets[j]+o.Bytes || table.Offsets[j] >= table.Offsets[i]+r.Bytes
				if !apart && (table.Over[i] != j || table.Offsets[i] != table.Offsets[j]) {
					t.Fatalf("blocks %d and %d overlap", j, i)
				}
			}
			if over := table.Over[i]; over != none && (s.truth[i] == none || s.truth[over] != s.blocks[s.truth[i]].Over) {
				t.Fatalf("block %d is written over %d", i, over)
			}
		}
	})
}

// Places of the plan that overlap in the run are not taken.
func TestPlaceAnew(t *testing.T) {
	l := &List{Blocks: []Block{{Tensor: "a", Bytes: 64, Last: 1, Over: none}, {Tensor: "b", Bytes: 64, First: 1, Last: 1, Over: none}}}
	table, err := Place(context.Background(), l, parseRun(t, "+64 +64 -0 -1"), []int{0, 1}, Options{Alignment: 64})
	if err != nil || !table.Moved || table.Result.Arena != 128 {
		t.Errorf("got %+v, %v", table, err)
	}
}

func TestTable(t *testing.T) {
	blocks := &List{Blocks: []Block{
		{Tensor: "a", Bytes: 100, First: 0, Last: 1, Offset: 0, Over: none},
		{Tensor: "b", Bytes: 100, First: 1, Last: 2, Offset: 0, Over: 0},
		{Tensor: "c", Bytes: 64, First: 2, Last: 2, Offset: 128, Output: true, Over: none},
	}}
	run := parseRun(t, "+100 +50 -1 +100 -0 +64 -2")
	match, err := Match(blocks, run)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		results    bool
		arena, row string
	}{{false, "192", "alloc 3 64 - 0"}, {true, "192", "alloc 3 64 128 0"}} {
		table, err := Place(context.Background(), blocks, run, match, Options{Alignment: 64, Results: c.results})
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := table.Write(&got); err != nil {
			t.Fatal(err)
		}
		want := "onnxmem/replay 2\nalignment 64\narena " + c.arena + "\nlower_bound 192\nscratch 64\nevents 7\n" +
			"alloc 0 100 0 0\nalloc 1 50 128 0\nfree 1\nalloc 2 100 0 0 0\nfree 0\n" + c.row + "\nfree 2\n"
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Error(diff)
		}
	}
}
