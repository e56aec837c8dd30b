package alloc

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/internal/units"
)

// Simulation is the memory that an allocator takes from its device when it learns
// of each buffer at its first step, and of its end at its last step, and plans
// nothing.
//
// All allocators but [NoReuse] keep the memory they have taken, so Reserved is also
// the memory that they hold at the end.
type Simulation struct {
	Reserved     int64 // bytes taken from the device, at the peak
	Allocated    int64 // bytes of the blocks in use when Reserved reached its peak
	Load         int64 // bytes that the buffers in these blocks asked for
	MaxAllocated int64 // the largest sum of the bytes of blocks in use
}

// Fragmentation returns (MR - RS) / MR at the peak of MR, from 0 to 1, where MR is
// the reserved memory and RS the resident set of OLLA (Steiner et al. 2022, section
// 5.4). The bytes of a block beyond its buffer count as fragmentation, too.
func (s Simulation) Fragmentation() float64 {
	if s.Reserved == 0 {
		return 0
	}
	return float64(s.Reserved-s.Load) / float64(s.Reserved)
}

// Simulator simulates an allocator.
type Simulator struct {
	Name   string
	Doc    string // its rule, in a line
	Source string // the allocator, and where its rules are written
	Func   func(Problem) Simulation
	Naive  bool // it uses no byte twice, so it needs more for every buffer
}

// Simulators lists the allocators to compare a placement with. Each takes a valid
// problem and follows its lifetimes in the order of execution: at each step it
// allocates the buffers that begin there, by index, then frees those that end there,
// by index. Sizes are not rounded by the problem's alignment, and alignments, fixed
// offsets, hints and gaps are ignored: such an allocator does not know them. Buffers
// of 0 bytes are not allocated. The device has no limit and returns ascending
// addresses. Sums stop at the largest int64. Each takes O(n log n).
var Simulators = []Simulator{
	{Name: "pytorch", Func: PyTorch, Doc: "best fit in 2 MiB segments for up to 1 MiB, 20 MiB or own ones above", Source: "PyTorch, c10/cuda/CUDACachingAllocator.cpp, default settings"},
	{Name: "pytorch-expandable", Func: PyTorchExpandable, Doc: "best fit in two ranges that grow by 2 and 20 MiB", Source: "PyTorch, c10/cuda/CUDACachingAllocator.cpp, expandable_segments:True"},
	{Name: "tensorflow-bfc", Func: TensorFlowBFC, Doc: "best fit in regions that double from 2 MiB", Source: "TensorFlow, core/common_runtime/bfc_allocator.cc, growth allowed"},
	{Name: "onnxruntime-bfc", Func: ONNXRuntimeBFC, Doc: "best fit in regions that double from 1 MiB", Source: "ONNX Runtime, core/framework/bfc_arena.cc, kNextPowerOfTwo"},
	{Name: "onnxruntime-bfc-exact", Func: ONNXRuntimeBFCExact, Doc: "best fit in regions of the sizes asked for", Source: "ONNX Runtime, core/framework/bfc_arena.cc, kSameAsRequested"},
	{Name: "cnmem", Func: CnMem, Doc: "best fit in one pool, counted to the highest byte used", Source: "NVIDIA, cnmem.cpp, one pool set aside beforehand"},
	{Name: "cnmem-grow", Func: CnMemGrow, Doc: "best fit in device blocks of the sizes asked for", Source: "NVIDIA, cnmem.cpp, growing from nothing"},
	{Name: "malloc-first-fit", Func: MallocFirstFit, Doc: "lowest hole of a heap that grows at its top", Source: "Knuth, volume 1, section 2.5, algorithms A and B"},
	{Name: "malloc-best-fit", Func: MallocBestFit, Doc: "smallest hole of a heap that grows at its top", Source: "Knuth, volume 1, section 2.5"},
	{Name: "no-reuse", Func: NoReuse, Naive: true, Doc: "each buffer has bytes of its own", Source: "naive: Pisarchyk & Lee 2020, tables 1 and 2"},
}

// allocator is the state of a simulated allocator.
type allocator interface {
	alloc(size int64) (block int32) // size is greater than 0
	free(block int32)
	reserved() int64
	inUse(block int32) int64 // bytes of a block that alloc returned
}

// simulate runs the lifetimes of a problem through an allocator.
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
		allocated = units.Add(allocated, a.inUse(block[i]))
		load += p.Buffers[i].Size
		s.MaxAllocated = max(s.MaxAllocated, allocated)
		if r := a.reserved(); r > s.Reserved {
			s.Reserved, s.Allocated, s.Load = r, allocated, load
		}
	}
	return s
}

// roundUpSaturating returns the smallest multiple of unit that is at least x, or the
// largest int64 if there is none.
func roundUpSaturating(x, unit int64) int64 {
	if rest := x % unit; rest > 0 {
		return units.Add(x, unit-rest)
	}
	return x
}
