package vm

import (
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
)

// Options says how a session runs. The zero value is a sound default.
type Options struct {
	Workers int    // goroutines that share the work of a kernel; 0: one for each core
	Seed    uint64 // of the operators that draw random numbers
	// MemoryLimit is the number of bytes by which all sessions of the program may enlarge the
	// process together. It counts arenas, parameters and states, scratch, host pools in
	// memory, and tensors whose size depends on data. It counts decoded or prepacked
	// constants, pages of mapped files, and Go's heap for nodes and tensors, which is
	// estimated. Pages are those of constants that kernels read in place, or of 16 MiB that
	// are being packed. Of a table from which only Gather and its like read rows, as many
	// rows count as one run reads, since the system takes pages back that stay from earlier
	// runs. What Go's runtime takes once in a process, some MiB, is not among them.
	//
	// An allocation beyond the limit is not made: NewSession or Run returns an error
	// that wraps a *LimitError. 0: the memory that the machine, or the container, has
	// free at the program's first allocation, against which pages of files do not count;
	// negative: no limit. With a Device it is a limit on the device's memory, and the
	// device's free memory counts.
	MemoryLimit int64
	// Held is the number of bytes that the caller holds, such as the values of
	// inputs. They also count against a MemoryLimit above 0, except on a Device.
	Held int64
	// Separate gives every tensor its own storage and runs the nodes in another
	// topological order. CheckRun compares a planned run with such a run.
	Separate bool
	// Poison fills the bytes of a buffer with signalling NaNs as soon as the buffer dies, and
	// a kernel's scratch before the kernel runs. It checks that no byte outside the live
	// buffers was written. Each part of the arena is checked before it is used again, and all
	// of it at the end of a run. To name the node, it is checked after every step of a second
	// run with the same inputs. With Separate, it checks the margins around each tensor when
	// the tensor is produced, and poisons with other numbers, so that CheckRun sees results
	// that were computed from poison.
	Poison bool
	// Guard puts every tensor, including constants and kernels' scratch, on pages
	// of its own, with one end against a page that cannot be accessed. An access
	// past that end stops the run with an error that wraps ErrFault and names the
	// node and the tensor; a write past the other end gives ErrStray. It combines
	// with Separate, and makes Poison redundant.
	Guard Guard
	// HostFile is the path of the file that holds the plan's host pool. The file
	// must not exist yet; it is mapped, and removed by Close at the latest. "": the
	// host pool lies in ordinary memory.
	HostFile string
	// NoPack leaves the constant weights of convolutions and matrix products in the
	// layout of the file. That takes no memory beyond the plan's, but is slower.
	// The results are the same bits.
	NoPack bool
	// PackMore packs a weight in several forms, too, if its readers want them, and computes
	// dequantized weights once. That is faster, and takes more memory than the plan says.
	PackMore bool
	// Without names rewriters of the lowering that are left out ([Lowering]), to find the one
	// at fault. An unknown name, or a needed rewriter, is an error ([CheckWithout]).
	Without []string
	// CheckLowering checks, before the first and after each rewriter, that each node is in
	// exactly one task, and that what a task reads is there when it runs, in the layout in which it
	// is read. Without it, that is checked after the rewriters that changed something, in graphs of
	// at most 2,048 nodes.
	CheckLowering bool

	// Device is the GPU that runs the nodes; nil: the cores of this machine. It must
	// stay open until the session is closed. Nodes without a device kernel run on the
	// host. NoPack and Guard have no meaning on a device.
	Device *cuda.Device
	// NoReplay keeps gorgonia's machine in charge of every step on a device. Else the
	// steps from the third on are launched as one CUDA graph, recorded from the second,
	// where no node depends on the host. The results are the same bits.
	NoReplay bool

	// LeaveUpdates leaves the new values of parameters, states and caches out of what Run
	// returns; Updates returns them. They stay where the next run reads them. A session on
	// a device would else copy all of them to the host at every run, which may take longer
	// than the run itself.
	LeaveUpdates bool

	// NoBLAS keeps products on a device in onnxmem's own kernels. Else cuBLAS computes those
	// of float32, float16 and bfloat16 where it is there: the results differ in rounding.
	NoBLAS bool

	// NoDNN keeps convolutions on a device in onnxmem's own kernels. Else cuDNN computes those
	// of float16 and bfloat16 where it is there: the results differ in rounding.
	NoDNN bool

	// TF32 has products and convolutions of float32 on a device round their operands to TF32,
	// the 19 bits of NVIDIA's tensor cores: 10 of the fraction. Sums stay float32, and a plan has
	// the same bits at every run. It implies DNNFloat32, and does nothing on a GPU of compute
	// capability 7.5, which has no TF32.
	TF32 bool

	// DNNFloat32 has cuDNN compute convolutions of float32, too. Without TF32 it was slower
	// than onnxmem's own kernels on the GPU that was measured (docs/gpu.md).
	DNNFloat32 bool
}

// below is what the rooms below this package take.
func (o *Options) below() lower.Options {
	return lower.Options{
		Workers: o.Workers, Seed: o.Seed, MemoryLimit: o.MemoryLimit, Held: o.Held, Separate: o.Separate, Poison: o.Poison, Guard: lower.Guard(o.Guard),
		HostFile: o.HostFile, NoPack: o.NoPack, PackMore: o.PackMore, Without: o.Without, CheckLowering: o.CheckLowering, Device: o.Device, NoReplay: o.NoReplay,
		LeaveUpdates: o.LeaveUpdates, NoBLAS: o.NoBLAS, NoDNN: o.NoDNN, DNNFloat32: o.DNNFloat32 || o.TF32, TF32: o.TF32,
	}
}

// Guard says whether tensors lie on pages of their own, and at which end of them.
type Guard int

// The kinds of guard.
const (
	GuardOff   = Guard(lower.GuardOff)
	GuardEnd   = Guard(lower.GuardEnd)   // a tensor ends where its pages end
	GuardFront = Guard(lower.GuardFront) // a tensor begins where its pages begin
)
