package alloc

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// event is the start of a buffer or, with 0 bytes, its end.
type event struct {
	name string
	size int64
}

// eventsProblem returns the problem of events in the order of execution, one per step.
func eventsProblem(events ...event) Problem {
	var p Problem
	at := map[string]int{}
	for step, e := range events {
		if e.size > 0 {
			at[e.name] = len(p.Buffers)
			p.Buffers = append(p.Buffers, Buffer{ID: e.name, Size: e.size, First: step, Last: len(events)})
		} else {
			p.Buffers[at[e.name]].Last = step - 1
		}
	}
	return p
}

// TestSimulators: each rule of each allocator.
func TestSimulators(t *testing.T) {
	all := func(sizes ...int64) []event {
		var list []event
		for i, size := range sizes {
			list = append(list, event{fmt.Sprint(i), size})
		}
		return list
	}
	for _, x := range []struct {
		name   string
		f      func(Problem) Simulation
		events []event
		want   Simulation
	}{
		{"small requests share segments of 2 MiB, in blocks of 512 bytes", PyTorch, all(1, 513), Simulation{2 * mib, 512, 1, 1536}},
		{"1 MiB is the largest small request", PyTorch, all(mib, mib, mib), Simulation{4 * mib, 3 * mib, 3 * mib, 3 * mib}},
		{"a byte more is large, rounded to 512 bytes, in a segment of 20 MiB", PyTorch, all(mib + 1), Simulation{20 * mib, mib + 512, mib + 1, mib + 512}},
		{"10 MiB has a segment of its own", PyTorch, all(10 * mib), Simulation{10 * mib, 10 * mib, 10 * mib, 10 * mib}},
		{"below 10 MiB does not", PyTorch, all(10*mib - 512), Simulation{20 * mib, 10*mib - 512, 10*mib - 512, 10*mib - 512}},
		{"such segments are multiples of 2 MiB; a rest of 1 MiB stays in the block", PyTorch, all(11 * mib), Simulation{12 * mib, 12 * mib, 11 * mib, 12 * mib}},
		{"a rest of more than 1 MiB becomes a block", PyTorch, all(11*mib-512, mib+512), Simulation{12 * mib, 11*mib - 512, 11*mib - 512, 12 * mib}},
		{"small requests do not use large blocks", PyTorch, []event{{"a", 10 * mib}, {"a", 0}, {"b", mib}}, Simulation{12 * mib, mib, mib, 10 * mib}},
		{"a small rest of 512 bytes becomes a block", PyTorch, all(mib, mib-512, 512), Simulation{2 * mib, mib, mib, 2 * mib}},
		{
			"the smallest block that fits, not the first", PyTorch,
			[]event{{"a", 40 * mib}, {"b", 20 * mib}, {"a", 0}, {"b", 0}, {"c", 20 * mib}, {"d", 40 * mib}},
			Simulation{60 * mib, 60 * mib, 60 * mib, 60 * mib},
		},
		{
			"freed neighbours join", PyTorch,
			[]event{{"a", 9 * mib}, {"b", 9 * mib}, {"a", 0}, {"b", 0}, {"c", 20 * mib}},
			Simulation{20 * mib, 9 * mib, 9 * mib, 20 * mib},
		},
		{
			"blocks of two segments do not", PyTorch,
			[]event{{"a", 10 * mib}, {"b", 10 * mib}, {"a", 0}, {"b", 0}, {"c", 20 * mib}},
			Simulation{40 * mib, 20 * mib, 20 * mib, 20 * mib},
		},

		{"an expandable segment of small blocks grows by 2 MiB", PyTorchExpandable, all(mib, mib, 1), Simulation{4 * mib, 2*mib + 512, 2*mib + 1, 2*mib + 512}},
		{"one of large blocks by 20 MiB", PyTorchExpandable, all(mib+1, 20*mib), Simulation{40 * mib, 21*mib + 512, 21*mib + 1, 21*mib + 512}},
		{
			"what is freed joins across its pages", PyTorchExpandable,
			[]event{{"a", 20 * mib}, {"b", 20 * mib}, {"a", 0}, {"b", 0}, {"c", 40 * mib}},
			Simulation{40 * mib, 40 * mib, 40 * mib, 40 * mib},
		},
		{
			"the end is used last", PyTorchExpandable,
			[]event{{"a", 12 * mib}, {"b", 2 * mib}, {"a", 0}, {"c", 6 * mib}, {"d", 12 * mib}},
			Simulation{40 * mib, 20 * mib, 20 * mib, 20 * mib},
		},

		{"the first region has 2 MiB, chunks 256 bytes", TensorFlowBFC, all(1), Simulation{2 * mib, 256, 1, 256}},
		{"the next has twice as much", TensorFlowBFC, all(2*mib, 1), Simulation{6 * mib, 2*mib + 256, 2*mib + 1, 2*mib + 256}},
		{"a region doubles until the request fits, and then not again", TensorFlowBFC, all(5*mib, 8*mib), Simulation{16 * mib, 16 * mib, 13 * mib, 16 * mib}},
		{"a chunk of less than twice the request is not split", TensorFlowBFC, all(mib+256, 256), Simulation{6 * mib, 2*mib + 256, mib + 512, 2*mib + 256}},
		{"a chunk of twice the request is", TensorFlowBFC, all(mib, mib), Simulation{2 * mib, mib, mib, 2 * mib}},
		{"a rest of 128 MiB is split", TensorFlowBFC, all(384*mib, 128*mib), Simulation{512 * mib, 384 * mib, 384 * mib, 512 * mib}},
		{"a smaller rest is not", TensorFlowBFC, all(384*mib + 256), Simulation{512 * mib, 512 * mib, 384*mib + 256, 512 * mib}},
		{"the first region has 1 MiB", ONNXRuntimeBFC, all(1, mib), Simulation{3 * mib, mib + 256, mib + 1, mib + 256}},
		{"regions of the sizes asked for", ONNXRuntimeBFCExact, all(1, mib), Simulation{mib + 256, mib + 256, mib + 1, mib + 256}},
		{
			"regions do not join", ONNXRuntimeBFCExact,
			[]event{{"a", 256}, {"b", 256}, {"a", 0}, {"b", 0}, {"c", 512}},
			Simulation{1024, 512, 512, 512},
		},

		{"blocks of 512 bytes", CnMem, all(1, 513), Simulation{1536, 1536, 514, 1536}},
		{
			"every rest becomes a block", CnMem,
			[]event{{"a", 2048}, {"b", 1}, {"a", 0}, {"c", 1}, {"d", 1536}},
			Simulation{2560, 2560, 2049, 2560},
		},
		{
			"the end of the pool is the largest block and is used last", CnMem,
			[]event{{"a", 1024}, {"b", 512}, {"a", 0}, {"c", 512}},
			Simulation{1536, 1536, 1536, 1536},
		},
		{
			"the device's blocks do not join", CnMemGrow,
			[]event{{"a", 512}, {"b", 512}, {"a", 0}, {"b", 0}, {"c", 1024}},
			Simulation{2048, 1024, 1024, 1024},
		},

		{"the heap gives multiples of 16 bytes", MallocFirstFit, all(1, 17), Simulation{48, 48, 18, 48}},
		{
			"the last hole grows", MallocFirstFit,
			[]event{{"a", 64}, {"b", 64}, {"b", 0}, {"c", 128}},
			Simulation{192, 192, 192, 192},
		},
		{
			"the lowest hole", MallocFirstFit,
			[]event{{"a", 64}, {"b", 16}, {"c", 32}, {"d", 16}, {"a", 0}, {"c", 0}, {"e", 32}, {"f", 64}},
			Simulation{192, 128, 128, 128},
		},
		{
			"the smallest hole", MallocBestFit,
			[]event{{"a", 64}, {"b", 16}, {"c", 32}, {"d", 16}, {"a", 0}, {"c", 0}, {"e", 32}, {"f", 64}},
			Simulation{128, 128, 128, 128},
		},
		{"no byte is used twice", NoReuse, []event{{"a", 5}, {"a", 0}, {"b", 7}, {"b", 0}, {"c", 1}}, Simulation{13, 1, 1, 7}},
	} {
		if got := x.f(eventsProblem(x.events...)); got != x.want {
			t.Errorf("%s:\n got %+v\nwant %+v", x.name, got, x.want)
		}
	}
}

// TestSimulateOrder: at each step, the buffers that begin come before those that end, and
// the next step reuses the bytes of the latter.
func TestSimulateOrder(t *testing.T) {
	p := parse(t, "a:32@0-1 b:32@1-2 c:32@2-2 z:0@0-9")
	want := Simulation{64, 64, 64, 64}
	if got := MallocFirstFit(p); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestFragmentation: the quotient, and 0 without buffers.
func TestFragmentation(t *testing.T) {
	if got := (Simulation{Reserved: 8, Allocated: 7, Load: 6}).Fragmentation(); got != 0.25 {
		t.Errorf("got %v, want 0.25", got)
	}
	for _, s := range Simulators {
		if got := s.Func(Problem{}); got != (Simulation{}) || got.Fragmentation() != 0 {
			t.Errorf("%s: no buffers: %+v", s.Name, got)
		}
	}
}

// TestSimulatorsProperties: an allocator reserves at least the bytes of its blocks in use,
// and these are at least the bytes asked for, for sizes of any magnitude.
func TestSimulatorsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 30)
		unit := rapid.SampledFrom([]int64{1, 300, 100 * kib, 3 * mib, 1 << 54}).Draw(t, "unit")
		for i := range p.Buffers {
			p.Buffers[i].Size *= unit
		}
		plain := Problem{Buffers: make([]Buffer, len(p.Buffers)), Alignment: 1}
		for i, b := range p.Buffers {
			plain.Buffers[i] = Buffer{Size: b.Size, First: b.First, Last: b.Last}
		}
		load := plain.MaxLoad()
		for _, s := range Simulators {
			got := s.Func(p)
			if got.Reserved < got.MaxAllocated || got.MaxAllocated < got.Allocated || got.Allocated < got.Load || got.MaxAllocated < load {
				t.Fatalf("%s: %+v, largest load %d", s.Name, got, load)
			}
			if f := got.Fragmentation(); f < 0 || f > 1 {
				t.Fatalf("%s: fragmentation %v", s.Name, f)
			}
		}
	})
}

// TestSimulatorsOverflow: sums stop at the largest int64.
func TestSimulatorsOverflow(t *testing.T) {
	p := parse(t, "a:1@0-9 b:1@1-1")
	p.Buffers[0].Size = math.MaxInt64 - 600
	for _, s := range Simulators {
		if got := s.Func(p); got.Reserved < math.MaxInt64-600 {
			t.Errorf("%s: %+v", s.Name, got)
		}
	}
}
