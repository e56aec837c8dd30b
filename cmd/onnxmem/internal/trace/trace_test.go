package trace

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/alloc"
)

// read reads a recording from a text.
func read(t testing.TB, text string) *Trace {
	t.Helper()
	r, err := Read(reader([]byte(text)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func reader(text []byte) *bufio.Reader { return bufio.NewReaderSize(bytes.NewReader(text), HeadBytes) }

// stream builds JSON lines from a short form: a name begins or ends a block, with its
// size after a colon where it begins, and | is a mark.
func stream(text string) string {
	var b strings.Builder
	for _, word := range strings.Fields(text) {
		name, size, begins := strings.Cut(word, ":")
		switch {
		case word == "|":
			b.WriteString(`{"mark": "run"}` + "\n")
		case begins:
			size, on, given := strings.Cut(size, "@")
			if !given {
				on = "0"
			}
			fmt.Fprintf(&b, `{"alloc": "%s", "size": %s, "stream": %s}`+"\n", name, size, on)
		default:
			fmt.Fprintf(&b, `{"free": "%s"}`+"\n", name)
		}
	}
	return b.String()
}

func TestIteration(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         Iteration
	}{
		{
			"a period after a warm-up, before an end", "w:9 a:4 b:2 a b a:4 b:2 a b a:4 b:2 a b w",
			Iteration{Found: ByPeriod, Begin: 1, Length: 4, Repeats: 3, Covered: 12, Unrolled: 1, Buffers: []Buffer{{4, 0, 0, 2}, {2, 0, 1, 3}}, Resident: Count{1, 9}},
		},
		{
			"it begins where the fewest bytes are live", "a:4 b:2 a c:8 b c a:4 b:2 a c:8 b c a:4 b:2 a",
			Iteration{Found: ByPeriod, Begin: 0, Length: 6, Repeats: 2, Covered: 15, Unrolled: 1, Buffers: []Buffer{{4, 0, 0, 2}, {2, 0, 1, 4}, {8, 0, 3, 5}}},
		},
		{
			"a block that goes over into the next iteration", "x:1 a:4 x b:2 b x:1 a y:4 x b:2 b x:1 y a:4 x b:2 b x:1 a y:4 x b:2 b x:1 y",
			Iteration{Found: ByPeriod, Begin: 1, Length: 6, Repeats: 4, Covered: 24, Unrolled: 1, Carried: Count{1, 1}, Buffers: []Buffer{{4, 0, 0, 5}, {2, 0, 2, 3}, {1, 0, 4, 1}}},
		},
		{
			"a block that lives longer than an iteration is placed twice", "p:1 | a:4 | b:4 a | c:4 b | d:4 c | e:4 d",
			Iteration{Found: ByMarks, Begin: 2, Length: 2, Repeats: 4, Covered: 8, Unrolled: 2, Carried: Count{1, 4}, Resident: Count{1, 1}, Buffers: []Buffer{{4, 0, 0, 3}, {4, 0, 2, 1}}},
		},
		{
			"what an iteration keeps gets no place", "a:4 k:1 a a:4 l:1 a a:4 m:1 a",
			Iteration{Found: ByPeriod, Begin: 0, Length: 3, Repeats: 3, Covered: 9, Unrolled: 1, Kept: Count{1, 1}, Buffers: []Buffer{{4, 0, 0, 2}}},
		},
		{
			"nothing repeats: all is one iteration, open to its end", "a:1 b:2 a c:3 b",
			Iteration{Found: ByWhole, Length: 5, Repeats: 1, Covered: 5, Unrolled: 1, Buffers: []Buffer{{1, 0, 0, 2}, {2, 0, 1, 4}, {3, 0, 3, 5}}},
		},
		{
			"an inner loop is no iteration", "a:1 s:8 s s:8 s b:2 a c:3 b d:4 c e:5 d",
			Iteration{Found: ByWhole, Length: 13, Repeats: 1, Covered: 13, Unrolled: 1, Buffers: []Buffer{{1, 0, 0, 6}, {8, 0, 1, 2}, {8, 0, 3, 4}, {2, 0, 5, 8}, {3, 0, 7, 10}, {4, 0, 9, 12}, {5, 0, 11, 13}}},
		},
		{
			"sizes alone would repeat sooner", "a:1 b:1 a b a:1 b:1 b a a:1 b:1 a b a:1 b:1 b a",
			Iteration{Found: ByPeriod, Length: 8, Repeats: 2, Covered: 16, Unrolled: 1, Buffers: []Buffer{{1, 0, 0, 2}, {1, 0, 1, 3}, {1, 0, 4, 7}, {1, 0, 5, 6}}},
		},
		{
			"streams are told apart", "a:1@7 b:1 a b a:1@7 b:1 a b",
			Iteration{Found: ByPeriod, Length: 4, Repeats: 2, Covered: 8, Unrolled: 1, Buffers: []Buffer{{1, 7, 0, 2}, {1, 0, 1, 3}}},
		},
		{
			"of marked runs, the longest stretch of equal ones", "| a:1 a | b:2 b | b:2 b | b:2 b | a:1 a | a:1 a | c:3 c",
			Iteration{Found: ByMarks, Begin: 2, Length: 2, Repeats: 3, Covered: 6, Unrolled: 1, Buffers: []Buffer{{2, 0, 0, 1}}},
		},
		{
			"of marked runs that all differ, the last", "| a:1 a | b:2 b | c:3 c",
			Iteration{Found: ByMarks, Begin: 4, Length: 2, Repeats: 1, Covered: 2, Unrolled: 1, Buffers: []Buffer{{3, 0, 0, 1}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := *read(t, stream(c.stream)).Iteration()
			got.trace, got.first, got.end, got.kept, got.quiet = nil, 0, 0, nil, 0
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(Iteration{})); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.stream, diff)
			}
		})
	}
}

// TestLongestRepetition compares with all repetitions, by their definition.
func TestLongestRepetition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		text := make([]int32, random.IntN(24))
		for i := range text {
			text[i] = random.Int32N(1 + random.Int32N(3))
		}
		var want repetition
		for begin := range text {
			for end := begin + 2; end <= len(text); end++ {
				for p := 1; 2*p <= end-begin; p++ {
					repeats := true
					for i := begin; i+p < end; i++ {
						repeats = repeats && text[i] == text[i+p]
					}
					if r := (repetition{begin, end, p}); repeats && (want.period == 0 || r.better(want)) {
						want = r
					}
				}
			}
		}
		got := longestRepetition(text)
		if got.length() != want.length() || got.period != want.period {
			t.Fatalf("%v: got %v, want %v", text, got, want)
		}
	}
}

// randomStream is a recording of equal iterations, with blocks that go over into later
// ones, others that stay, a warm-up and an end.
func randomStream(random *rand.Rand) (text string, length int) {
	type event struct {
		slot, age int // age: freed so many iterations later; -1: allocated
	}
	var events []event
	sizes := map[int]int{}
	for slot := range 1 + random.IntN(6) {
		sizes[slot] = random.IntN(200)
		at := random.IntN(len(events) + 1)
		events = append(events[:at], append([]event{{slot, -1}}, events[at:]...)...)
		from, age := at+1, 0
		if random.IntN(3) == 0 {
			from, age = 0, 1+random.IntN(3)
		}
		at = from + random.IntN(len(events)+1-from)
		events = append(events[:at], append([]event{{slot, age}}, events[at:]...)...)
	}
	var b strings.Builder
	fmt.Fprintln(&b, `{"alloc": "weights", "size": 1000}`)
	rounds := 8 + random.IntN(4)
	for round := range rounds {
		for _, e := range events {
			switch {
			case e.age < 0:
				fmt.Fprintf(&b, `{"alloc": "%d.%d", "size": %d, "stream": %d}`+"\n", e.slot, round, sizes[e.slot], sizes[e.slot]%2)
			case round >= e.age:
				fmt.Fprintf(&b, `{"free": "%d.%d"}`+"\n", e.slot, round-e.age)
			}
		}
	}
	fmt.Fprintln(&b, `{"free": "weights"}`)
	return b.String(), len(events)
}

// TestReplayIsValid repeats tables of random recordings: no two blocks that are live
// together share a byte, in any round, and the arena is never below the bytes that are
// live.
func TestReplayIsValid(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	unrolled, carried := 0, 0
	for range 300 {
		text, length := randomStream(random)
		it := read(t, text).Iteration()
		if it.Found != ByPeriod || length%it.Length != 0 {
			t.Fatalf("found %s of %d events, expected a period of %d:\n%s", it.Found, it.Length, length, text)
		}
		k, err := it.Pack(context.Background(), 64, alloc.Options{Effort: alloc.EffortFast})
		if err != nil {
			t.Fatal(err)
		}
		if it.Unrolled > 1 {
			unrolled++
		}
		carried += it.Carried.Blocks
		var table strings.Builder
		if err := k.WriteReplay(&table); err != nil {
			t.Fatal(err)
		}
		if err := play(table.String(), 4); err != nil {
			t.Fatalf("%v:\n%s\n%s", err, table.String(), text)
		}
	}
	if unrolled == 0 || carried == 0 {
		t.Errorf("%d tables for several iterations, %d blocks carried over: expected some", unrolled, carried)
	}
}

// play does what an allocator does with a replay table, by its description in
// docs/formats/recordings.md.
func play(table string, rounds int) error {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	var alignment, arena, bound int64
	var events int
	if _, err := fmt.Sscanf(strings.Join(lines[:min(5, len(lines))], "\n"), "onnxmem/replay 1\nalignment %d\narena %d\nlower_bound %d\nevents %d", &alignment, &arena, &bound, &events); err != nil {
		return err
	}
	if len(lines)-5 != events {
		return fmt.Errorf("%d events, expected %d", len(lines)-5, events)
	}
	type block struct{ size, offset int64 }
	live := map[int]block{}
	for round := range rounds {
		for _, line := range lines[5:] {
			var id int
			var b block
			var stream int64
			if _, err := fmt.Sscanf(line, "alloc %d %d %d %d", &id, &b.size, &b.offset, &stream); err == nil {
				if _, twice := live[id]; twice {
					return fmt.Errorf("round %d: %s: live already", round, line)
				}
				if b.offset%alignment != 0 || b.offset+b.size > arena {
					return fmt.Errorf("%s: not in the arena", line)
				}
				for other, o := range live {
					if b.size > 0 && o.size > 0 && b.offset < o.offset+o.size && o.offset < b.offset+b.size {
						return fmt.Errorf("round %d: %s: overlaps block %d", round, line, other)
					}
				}
				live[id] = b
				continue
			}
			if _, err := fmt.Sscanf(line, "free %d", &id); err != nil {
				return fmt.Errorf("%s: unknown", line)
			}
			if _, known := live[id]; !known && round > 0 {
				return fmt.Errorf("round %d: %s: not live", round, line)
			}
			delete(live, id)
		}
	}
	return nil
}

// TestReplayers: no scheme needs less for real runs of changing lengths than what is
// live at once; with no plan for a run, what lies in the holes of the arena takes less
// than what does not.
func TestReplayers(t *testing.T) {
	it := read(t, string(file(t, "seq2seq-short.jsonl.gz"))).Iteration()
	runs := it.Runs(0)
	_, load := it.ReservedByAll(nil)
	if len(runs) != 10 || it.Found != ByMarks || it.Repeats != 1 {
		t.Fatalf("%d runs, found %s %d times: expected 10 that all differ", len(runs), it.Found, it.Repeats)
	}
	peaks := map[string]int64{}
	for _, r := range alloc.Replayers {
		got, err := r.Run(context.Background(), runs, 64)
		if err != nil {
			t.Fatal(err)
		}
		if peaks[r.Name] = got.Peak; got.Peak < load {
			t.Errorf("%s: %d bytes for a load of %d", r.Name, got.Peak, load)
		}
	}
	if peaks["kinds-holes"] >= peaks["kinds"] {
		t.Errorf("%d bytes with holes, %d without", peaks["kinds-holes"], peaks["kinds"])
	}
}

// A recording with the places of its blocks is drawn as it was: blocks elsewhere are left
// out, and what is written over another takes that one's bytes.
func TestRecorded(t *testing.T) {
	const text = `{"mark": "run"}
{"alloc": 0, "size": 100, "offset": 64}
{"alloc": 1, "size": 50, "stream": 0}
{"alloc": 2, "size": 100, "offset": 64}
{"free": 0}
{"alloc": 3, "size": 60, "offset": 0}
{"free": 2}
`
	k := read(t, text).Iteration().Recorded(64)
	want := []Buffer{{100, 0, 0, 2}, {100, 0, 2, 5}, {60, 0, 4, 6}}
	if diff := cmp.Diff(want, k.Buffers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{64, 64, 0}, k.Offsets); diff != "" {
		t.Error(diff)
	}
	if k.Arena != 192 || k.LowerBound != 192 || k.Kept != (Count{1, 50}) {
		t.Errorf("got arena %d, bound %d, kept %v", k.Arena, k.LowerBound, k.Kept)
	}
	if k := read(t, stream("| a:4 a")).Iteration().Recorded(64); k != nil {
		t.Errorf("a recording without places has %+v", k)
	}
}

// First numbers the events of one repetition among themselves.
func TestFirst(t *testing.T) {
	it := read(t, stream("| a:4 b:2 a | b a:4 b:2 a | b a:4 b:2 a")).Iteration()
	if diff := cmp.Diff([]Buffer{{4, 0, 0, 2}, {2, 0, 1, -1}}, it.First()); diff != "" {
		t.Error(diff)
	}
}
