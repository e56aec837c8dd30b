package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// poolFor returns a pool that records, with an account of its own.
func poolFor(limit int64) *SidePool {
	p := &SidePool{Mem: &Share{Of: &Account{Explain: func(*Refusal) error { return errors.New("beyond the limit") }}, Bound: Bound{Limit: limit}}}
	p.Records()
	return p
}

// stream is what the runs of a test take: which blocks, how large, how long.
type stream struct {
	name  string
	bytes int64
	life  int // blocks taken until it is given back; the rest of the run if there are fewer
}

// play takes and gives back the blocks of a run. Each block is filled with its own number
// and must keep it as long as it is in use.
func play(t *testing.T, p *SidePool, run []stream, fails bool) {
	t.Helper()
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	type used struct {
		b    []byte
		fill byte
		end  int
	}
	var open []used
	give := func(u used) {
		if n := bytes.Count(u.b, []byte{u.fill}); n != len(u.b) {
			t.Fatalf("%d of %d bytes were overwritten while in use", len(u.b)-n, len(u.b))
		}
		p.Give(u.b)
	}
	for i, x := range run {
		var left []used
		for _, u := range open {
			if u.end <= i {
				give(u)
			} else {
				left = append(left, u)
			}
		}
		open = left
		b, err := p.Take(x.name, x.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(b)) < x.bytes || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
			t.Fatalf("%d bytes at %p, expected %d on 8", len(b), b, x.bytes)
		}
		u := used{b, byte(i%255) + 1, i + max(1, x.life)}
		for k := range u.b {
			u.b[k] = u.fill
		}
		open = append(open, u)
	}
	if fails {
		p.Reset()
		return
	}
	p.replay.end()
	for _, u := range open { // the outputs, which the next run releases
		give(u)
	}
}

// emptied gives back all memory of a pool of which nothing is in use.
func emptied(t *testing.T, p *SidePool) {
	t.Helper()
	if err := p.drop(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil || p.Total != 0 || p.Mem.Bytes != 0 {
		t.Fatalf("%d bytes after close, %d accounted: %v", p.Total, p.Mem.Bytes, err)
	}
}

// loadOf is the most bytes of a run that are in use at one time.
func loadOf(run []stream) int64 {
	var most int64
	for i := range run {
		sum := int64(0)
		for k := range i + 1 {
			if k == i || k+max(1, run[k].life) > i {
				sum += roundSide(run[k].bytes)
			}
		}
		most = max(most, sum)
	}
	return most
}

// The second run has its blocks in one arena as large as their load, and takes nothing
// else.
func TestReplay(t *testing.T) {
	run := []stream{{"a", 300_000, 2}, {"b", 100_000, 1}, {"c", 450_000, 2}, {"a", 90_000, 2}, {"d", 500_000, 1}, {"e", 64, 9}}
	p := poolFor(1 << 30)
	play(t, p, run, false)
	first := p.Total
	for range 3 {
		play(t, p, run, false)
	}
	want := Use{ArenaBytes: loadOf(run), LowerBound: loadOf(run), Hits: 3 * len(run), Plans: 1}
	if p.replay.use != want || p.Total != want.ArenaBytes || first <= p.Total {
		t.Errorf("%+v and %d bytes after %d, expected %+v", p.replay.use, p.Total, first, want)
	}
	emptied(t, p)
}

// A block that is new, larger or missing is a miss, the others keep their places, and the
// next script knows both runs.
func TestReplayResumes(t *testing.T) {
	run := []stream{{"a", 300_000, 2}, {"b", 100_000, 1}, {"c", 450_000, 2}, {"d", 200_000, 1}}
	other := []stream{{"a", 300_000, 2}, {"b", 120_000, 1}, {"new", 70_000, 2}, {"c", 450_000, 1}}
	p := poolFor(1 << 30)
	play(t, p, run, false)
	play(t, p, run, false)
	for i, want := range []Use{{Hits: 4 + 2, Misses: 2, Plans: 1}, {Hits: 4 + 2 + 4, Misses: 2, Plans: 2}, {Hits: 4 + 2 + 8, Misses: 2, Plans: 2}} {
		play(t, p, [][]stream{other, other, run}[i], false)
		if got := p.replay.use; got.Hits != want.Hits || got.Misses != want.Misses || got.Plans != want.Plans {
			t.Errorf("run %d: %+v, expected %+v", i, got, want)
		}
	}
}

// An arena that is more than twice as large as what many runs need becomes smaller.
func TestReplayShrinks(t *testing.T) {
	p := poolFor(1 << 30)
	for range 3 {
		play(t, p, []stream{{"a", 1 << 20, 1}, {"b", 1 << 22, 2}, {"c", 1 << 20, 1}, {"d", 1 << 18, 1}}, false)
	}
	if p.replay.use.ArenaBytes != 5<<20 {
		t.Fatalf("%+v", p.replay.use)
	}
	small := []stream{{"a", 1 << 17, 1}, {"b", 1 << 16, 2}, {"c", 1 << 17, 1}, {"d", 1 << 16, 1}}
	for range 2*quietRuns + 2 { // the large runs count in the first comparison
		play(t, p, small, false)
	}
	if got := p.replay.use.ArenaBytes; got != loadOf(small) {
		t.Errorf("%d bytes, expected %d", got, loadOf(small))
	}
}

// Where the limit leaves no room beside the arena, a run that needs other blocks gives the
// arena up.
func TestReplayYields(t *testing.T) {
	p := poolFor(3 << 20)
	for range 2 {
		play(t, p, []stream{{"a", 1 << 20, 2}, {"b", 1 << 20, 1}, {"a", 1 << 19, 1}, {"c", 1 << 16, 1}}, false)
	}
	if p.replay.use.ArenaBytes != 2<<20 {
		t.Fatalf("%+v", p.replay.use)
	}
	play(t, p, []stream{{"other", 3 << 20, 1}}, false)
	if p.replay.use.ArenaBytes != 0 {
		t.Errorf("%+v", p.replay.use)
	}
}

// No byte is given out twice, whatever the runs take: names, sizes, lifetimes and the
// number of blocks change, and runs fail. What the pool holds is what it accounts for.
func TestReplayOfRandomRuns(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		p := poolFor(1 << 40)
		base := make([]stream, 1+draw.IntN(30))
		for i := range base {
			base[i] = stream{fmt.Sprint(draw.IntN(12)), draw.Int64N(200_000), draw.IntN(8)}
		}
		for range 25 {
			var run []stream
			for _, x := range base {
				switch draw.IntN(12) {
				case 0:
					continue
				case 1:
					x.bytes = draw.Int64N(300_000)
				case 2:
					x.life = draw.IntN(12)
				case 3:
					run = append(run, stream{fmt.Sprint(draw.IntN(20)), draw.Int64N(100_000), draw.IntN(5)})
				}
				run = append(run, x)
			}
			play(t, p, run, draw.IntN(8) == 0)
			held := p.replay.use.ArenaBytes
			for _, b := range p.free {
				held += int64(len(b))
			}
			if held != p.Total || p.Mem.Bytes != p.Total || len(p.out) > 0 || p.replay.live.Len() > 0 {
				t.Fatalf("%d bytes free, %d held, %d accounted, %d in use, %d places in use", held, p.Total, p.Mem.Bytes, len(p.out), p.replay.live.Len())
			}
		}
		emptied(t, p)
	}
}
