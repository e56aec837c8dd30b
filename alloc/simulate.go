package alloc

import (
	"cmp"
	"math"
	"slices"
)

// Simulation is what an allocator takes from its device that hears of each
// buffer when it begins and of its end when it ends, and plans nothing.
//
// All but [NoReuse] keep what they have taken, so Reserved is also what they
// hold at the end.
type Simulation struct {
	Reserved      int64 // bytes taken from the device, at the peak
	Allocated     int64 // bytes of the blocks in use when Reserved reached that peak
	Load          int64 // bytes that the buffers in these blocks asked for
	MostAllocated int64 // bytes of the blocks in use, at the peak of these
}

// Fragmentation returns (MR - RS) / MR at the peak of MR, from 0 to 1, with the
// reserved memory MR and the resident set RS of OLLA (Steiner et al. 2022,
// section 5.4). What a block holds beyond its buffer is fragmentation, too.
func (s Simulation) Fragmentation() float64 {
	if s.Reserved == 0 {
		return 0
	}
	return float64(s.Reserved-s.Load) / float64(s.Reserved)
}

// Simulator is the rules of an allocator.
type Simulator struct {
	Name   string
	Doc    string // its rule, in a line
	Source string // whose, and where it is written
	Func   func(Problem) Simulation
}

// Simulators lists the allocators to compare a placement with. Each takes a
// valid problem and runs through its lifetimes in the order of execution: at
// each step it allocates the buffers that begin there, by index, then frees
// those that end there, by index. Sizes are those of the buffers as they stand;
// alignments, fixed offsets, hints and gaps are nothing that such an allocator
// is told. Buffers of 0 bytes are not allocated. The device has no limit and
// gives ascending addresses. Sums stop at the largest int64. O(n log n) each.
var Simulators = []Simulator{
	{Name: "pytorch", Func: PyTorch, Doc: "best fit in 2 MiB segments for up to 1 MiB, 20 MiB or own ones above", Source: "PyTorch, c10/cuda/CUDACachingAllocator.cpp, default settings"},
	{Name: "tensorflow-bfc", Func: TensorFlowBFC, Doc: "best fit in regions that double from 2 MiB", Source: "TensorFlow, core/common_runtime/bfc_allocator.cc, growth allowed"},
	{Name: "onnxruntime-bfc", Func: ONNXRuntimeBFC, Doc: "best fit in regions that double from 1 MiB", Source: "ONNX Runtime, core/framework/bfc_arena.cc, kNextPowerOfTwo"},
	{Name: "onnxruntime-bfc-exact", Func: ONNXRuntimeBFCExact, Doc: "best fit in regions of the sizes asked for", Source: "ONNX Runtime, core/framework/bfc_arena.cc, kSameAsRequested"},
	{Name: "cnmem", Func: CnMem, Doc: "best fit in one pool, counted to the highest byte used", Source: "NVIDIA, cnmem.cpp, one pool set aside beforehand"},
	{Name: "cnmem-grow", Func: CnMemGrow, Doc: "best fit in blocks that the device gave as asked for", Source: "NVIDIA, cnmem.cpp, growing from nothing"},
	{Name: "malloc-first-fit", Func: MallocFirstFit, Doc: "lowest hole of a heap that grows at its top", Source: "Knuth, volume 1, section 2.5, algorithms A and B"},
	{Name: "malloc-best-fit", Func: MallocBestFit, Doc: "smallest hole of a heap that grows at its top", Source: "Knuth, volume 1, section 2.5"},
	{Name: "no-reuse", Func: NoReuse, Doc: "each buffer has bytes of its own", Source: "naive: Pisarchyk & Lee 2020, tables 1 and 2"},
}

// allocator is the state of an allocator.
type allocator interface {
	alloc(size int64) (block int32) // size is greater than 0
	free(block int32)
	reserved() int64
	inUse(block int32) int64 // bytes of a block that alloc returned
}

// simulate runs a problem's lifetimes through an allocator.
func simulate(p Problem, a allocator) Simulation {
	var starts []int
	for i := range p.Buffers {
		if p.Buffers[i].Size > 0 {
			starts = append(starts, i)
		}
	}
	ends := slices.Clone(starts)
	slices.SortStableFunc(starts, func(i, j int) int { return cmp.Compare(p.Buffers[i].First, p.Buffers[j].First) })
	slices.SortStableFunc(ends, func(i, j int) int { return cmp.Compare(p.Buffers[i].Last, p.Buffers[j].Last) })
	var s Simulation
	var allocated, load int64
	block := make([]int32, len(p.Buffers))
	for _, i := range starts {
		for ; p.Buffers[ends[0]].Last < p.Buffers[i].First; ends = ends[1:] {
			e := ends[0]
			allocated -= a.inUse(block[e])
			load -= p.Buffers[e].Size
			a.free(block[e])
		}
		block[i] = a.alloc(p.Buffers[i].Size)
		allocated = atMost(allocated, a.inUse(block[i]))
		load += p.Buffers[i].Size
		s.MostAllocated = max(s.MostAllocated, allocated)
		if r := a.reserved(); r > s.Reserved {
			s.Reserved, s.Allocated, s.Load = r, allocated, load
		}
	}
	return s
}

// atMost returns a + b, or the largest int64 where that is less.
func atMost(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// roundedUp returns the least multiple of unit that is not below x, or the
// largest int64 where there is none.
func roundedUp(x, unit int64) int64 {
	if rest := x % unit; rest > 0 {
		return atMost(x, unit-rest)
	}
	return x
}
