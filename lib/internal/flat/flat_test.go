package flat

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/schedule"
)

// TestPools: each pool is packed by itself, with its capacity; pools that are left open fill up
// from the fastest; and what does not fit is named.
func TestPools(t *testing.T) {
	b := Buffers{
		Lower: []int64{0, 0, 1, 2}, Upper: []int64{2, 2, 3, 4}, Size: []int64{4, 2, 1, 4},
		Pool: []int32{0, 1, 1, 0}, Capacity: []int64{4, 2},
	}
	r, err := b.Pack(t.Context(), alloc.EffortDefault)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Packed{{4, 4, true, 1}, {3, 3, true, 0}}; !slices.Equal(r.Pools, want) || !slices.Equal(r.Infeasible, []bool{false, true, true, false}) {
		t.Errorf("%+v, expected %+v, and buffers 1 and 2 infeasible", r, want)
	}
	if _, err := b.Verify(r.Offsets, nil); err == nil || !strings.Contains(err.Error(), "capacity") {
		t.Errorf("%v, expected the capacity of pool 1", err)
	}
	b.Pool, b.Capacity = []int32{-1, -1, -1, -1}, []int64{4, 8}
	if r, err = b.Pack(t.Context(), alloc.EffortDefault); err != nil || !slices.Equal(r.Pool, []int32{0, 1, 1, 0}) {
		t.Fatalf("%+v, %v: expected the two of 4 bytes in the fastest", r, err)
	}
	if v, err := b.Verify(r.Offsets, r.Pool); err != nil || v[0].Bytes != 4 || v[1].Bytes != 3 {
		t.Errorf("%v, %v", v, err)
	}
	for i := range b.Lower { // steps count from any number
		b.Lower[i], b.Upper[i] = b.Lower[i]-7, b.Upper[i]-7
	}
	if again, err := b.Pack(t.Context(), alloc.EffortDefault); err != nil || !slices.Equal(again.Offsets, r.Offsets) {
		t.Errorf("%+v, %v: expected the offsets %d, 7 steps earlier, too", again, err, r.Offsets)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Pack(ended, alloc.EffortDefault); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected that a search that was ended is heard", err)
	}
	b.Capacity = []int64{4, 2}
	if r, err = b.Pack(t.Context(), alloc.EffortDefault); err != nil || r.Pools[0].Fits != 0 || !slices.Equal(r.Infeasible, []bool{true, true, true, false}) {
		t.Errorf("%+v, %v: expected that the buffers of step 1 do not fit", r, err)
	}
}

// TestGaps: bytes that are not needed are given to others, and fixed offsets and hints are kept.
func TestGaps(t *testing.T) {
	b := Buffers{
		Lower: []int64{0, 1, 0}, Upper: []int64{3, 2, 3}, Size: []int64{8, 6, 1}, Fixed: []int64{-1, -1, 8}, Hint: []int64{0, -1, -1},
		GapBegin: []int64{0, 1, 1, 1}, GapLower: []int64{1}, GapUpper: []int64{2}, GapFrom: []int64{0}, GapTo: []int64{2},
		Capacity: []int64{-1},
	}
	r, err := b.Pack(t.Context(), alloc.EffortDefault)
	if err != nil || r.Pools[0].Arena != 9 || !slices.Equal(r.Offsets, []int64{0, 2, 8}) {
		t.Fatalf("%+v, %v: expected offsets 0, 2 and 8", r, err)
	}
	if _, err := b.Verify([]int64{0, 1, 8}, nil); err == nil || !strings.Contains(err.Error(), "share bytes at step 1") {
		t.Errorf("%v", err)
	}
	b.GapBegin[1] = 2
	if _, err := b.Pack(t.Context(), alloc.EffortDefault); err == nil || !strings.Contains(err.Error(), "gaps of buffer 0") {
		t.Errorf("%v", err)
	}
	b.GapBegin[1], b.Upper[2] = 1, math.MaxInt64
	if _, err := b.Pack(t.Context(), alloc.EffortDefault); err == nil || !strings.Contains(err.Error(), "steps of 32 bits") {
		t.Errorf("%v", err)
	}
}

// TestParts: views take nothing and hold their tensor, pieces are written in place.
func TestParts(t *testing.T) {
	// Node 0 and 1 make the pieces 0 and 1 of tensor 2, which node 2 makes. Node 3 takes a
	// view, tensor 3, of it, which node 4 reads. Without ranges, node 2 needs 16 bytes.
	g := Graph{
		Nodes: 5, Size: []int64{4, 4, 8, 4}, Producer: []int32{0, 1, 2, 3},
		ConsumerBegin: []int64{0, 1, 2, 3, 4}, Consumer: []int32{2, 2, 3, 4},
	}
	peak := func() int64 {
		t.Helper()
		r, err := g.Order(t.Context(), schedule.EffortDefault)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := g.VerifyOrder(t.Context(), r.Order, r.Certificates, true); err != nil || v.Bytes != r.Peak || !v.Proven() {
			t.Fatalf("%+v, %v: expected a proven peak of %d", v, err, r.Peak)
		}
		return r.Peak
	}
	if got := peak(); got != 16 {
		t.Errorf("without ranges: %d, expected 16", got)
	}
	g.Parent, g.Offset = []int32{2, 2, -1, 2}, []int64{0, 4, 0, 2}
	if got := peak(); got != 8 {
		t.Errorf("with ranges: %d, expected 8", got)
	}
	g.Offset = []int64{0, 3, 0, 2}
	if _, err := g.Order(t.Context(), schedule.EffortDefault); err == nil || !strings.Contains(err.Error(), "expected it behind the piece before") {
		t.Errorf("pieces that overlap: %v", err)
	}
	g.Parent, g.Offset = []int32{3, -1, -1, -1}, nil
	if _, err := g.Order(t.Context(), schedule.EffortDefault); err == nil || !strings.Contains(err.Error(), "reads the other") {
		t.Errorf("a range of a tensor that it has nothing to do with: %v", err)
	}
}

// TestOddNumbers: arrays of any numbers give an answer that the verifier accepts, or an error.
func TestOddNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	odd := []int64{0, 0, 0, 1, 1, 2, 3, 4, 5, 8, -1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64, math.MaxInt64 / 2, 1 << 40}
	draw := func(n, most int) (list []int64) {
		for range n {
			list = append(list, odd[r.IntN(most)])
		}
		return list
	}
	small := func(list []int64) (out []int32) {
		for _, x := range list {
			out = append(out, int32(x))
		}
		return out
	}
	answered := 0
	var refused *Refused
	for range 5000 {
		n, most := 1+r.IntN(4), 5+r.IntN(len(odd)-4)
		b := Buffers{
			Lower: draw(n, most), Upper: draw(n, len(odd)), Size: draw(n, most), Common: odd[r.IntN(most)], Alignment: draw(n, most),
			Capacity: draw(1+r.IntN(2), most),
		}
		if r.IntN(2) == 0 {
			b.Fixed, b.Hint = draw(n, most), draw(n, most)
		}
		if r.IntN(3) == 0 {
			b.Pool, b.Alignment = small(draw(n, 11)), nil
		}
		if r.IntN(3) == 0 {
			b.GapBegin, b.GapLower, b.GapUpper, b.GapFrom, b.GapTo = append([]int64{0}, draw(n, 5)...), draw(2, most), draw(2, most), draw(2, most), draw(2, most)
		}
		p, err := b.Pack(t.Context(), alloc.EffortFast)
		if err != nil && !errors.As(err, &refused) {
			t.Fatalf("%+v: %v", b, err)
		}
		if err != nil || slices.ContainsFunc(p.Pools, func(p Packed) bool { return p.Fits < 1 }) {
			continue
		}
		answered++
		if _, err := b.Verify(p.Offsets, p.Pool); err != nil {
			t.Fatalf("%+v: %+v: %v", b, p, err)
		}
	}
	for range 5000 {
		n, m, most := r.IntN(4), r.IntN(4), 5+r.IntN(len(odd)-4)
		g := Graph{
			Nodes: n, Workspace: draw(n, most), Cost: draw(n, most), Size: draw(m, most), Producer: small(draw(m, 11)),
			ConsumerBegin: append([]int64{0}, draw(m, 8)...), Consumer: small(draw(4, 8)), ReuseBegin: append([]int64{0}, draw(m, 6)...), Reuse: small(draw(3, 8)),
		}
		if r.IntN(2) == 0 {
			g.Parent, g.Offset = small(draw(m, 11)), draw(m, most)
		}
		if r.IntN(3) == 0 {
			g.WriteBegin, g.Write, g.Once = append([]int64{0}, draw(n, 6)...), small(draw(3, 8)), slices.Repeat([]uint8{1}, n)
		}
		o, err := g.Order(t.Context(), schedule.EffortFast)
		if err != nil && !errors.As(err, &refused) {
			t.Fatalf("%+v: %v", g, err)
		}
		if err != nil {
			continue
		}
		if _, err := g.Lifetimes(o.Order); err != nil {
			t.Fatalf("%+v: %+v: %v", g, o, err)
		}
		answered++
		if v, err := g.VerifyOrder(t.Context(), o.Order, o.Certificates, true); err != nil || v.Bytes != o.Peak {
			t.Fatalf("%+v: %+v: %+v, %v", g, o, v, err)
		}
		if _, err := g.Below(t.Context(), Goal{Limit: units.Limit{Percent: 50}}, schedule.EffortFast); err != nil && !errors.As(err, new(*Refused)) {
			t.Fatalf("%+v: %v", g, err)
		}
	}
	if answered < 300 {
		t.Errorf("%d answers", answered)
	}
}

// flattened returns what Order looks at of a problem.
func flattened(p *schedule.Problem) *Graph {
	g := &Graph{Nodes: len(p.Nodes), ConsumerBegin: []int64{0}}
	for _, n := range p.Nodes {
		g.Workspace = append(g.Workspace, n.Workspace)
	}
	for _, x := range p.Tensors {
		output, resident := uint8(0), uint8(0)
		if x.Output {
			output = 1
		}
		if x.Resident {
			resident = 1
		}
		g.Size, g.Producer, g.Consumer = append(g.Size, x.Bytes), append(g.Producer, x.Producer), append(g.Consumer, x.Consumers...)
		g.ConsumerBegin = append(g.ConsumerBegin, int64(len(g.Consumer)))
		g.Output, g.Resident = append(g.Output, output), append(g.Resident, resident)
	}
	return g
}

// TestEnded: an answer that differs from that of a whole search says that it was ended, also where
// its peak is proven.
func TestEnded(t *testing.T) {
	f, err := os.Open(datafolder.Path(t, "budget", "densenet121-train-bs32.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read, err := schedule.ReadProblem(f)
	if err != nil {
		t.Fatal(err)
	}
	p := flattened(read)
	whole, err := p.Order(t.Context(), schedule.EffortFast)
	if err != nil {
		t.Fatal(err)
	}
	for limit := 250 * time.Microsecond; limit < 100*time.Millisecond; limit = limit * 5 / 4 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		got, err := p.Order(ctx, schedule.EffortFast)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if !got.Ended && !slices.Equal(got.Order, whole.Order) {
			t.Errorf("%v: another order, which says that its search was whole", limit)
		}
	}
}
