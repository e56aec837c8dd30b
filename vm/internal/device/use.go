package device

import (
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// Use says what a session takes and does on its GPU. Sizes are in bytes.
type Use struct {
	Name string // of the GPU
	// Machine is what kept the order of the nodes, in the steps that were not replayed:
	// "gorgonia's tape machine", or "gorgonia's CUDA machine" in the CUDA build.
	Machine       string
	ArenaBytes    int64
	ResidentBytes int64 // parameters, states, and the constants that the plan places
	ConstantBytes int64 // constants that the plan gives no place, such as those of bodies, and tables of kernels
	SharedBytes   int64 // of both: the program's constants, which all its sessions on the device share
	ScratchBytes  int64
	// WorkspaceBytes is the scratch that lies in the arena, where the plan has workspaces for
	// it: that of the node with the most.
	WorkspaceBytes int64
	ContextBytes   int64 // in use before the session: the context, and what other processes have
	// TakenBytes is what is in use now beyond ContextBytes, as the driver says: the blocks
	// above, kernels and recorded graphs, other sessions, and what other processes took
	// since. 0 if the driver does not say.
	TakenBytes int64
	Measured   Measured
	// FallbackNodes is the number of nodes that run on the host, of the operators in
	// FallbackOps, and FallbackBytes what the last run copied between the memories for
	// nodes, of the host as of the device. Syncs is how often the host waited.
	FallbackNodes int
	FallbackOps   []string
	FallbackBytes int64
	Syncs         int
	ReplayedSteps int // steps that ran as a recorded CUDA graph
	// Library computed the products of LibraryNodes nodes, such as "cuBLAS 13.1.0" in the
	// file LibraryPath; "" if none did. NoLibrary is then why, if there are products that it
	// could compute.
	Library, LibraryPath string
	LibraryNodes         int
	NoLibrary            error
	// ConvolutionLibrary computed ConvolutionNodes convolutions and gradients of such, likewise,
	// as "cuDNN 9.28.1". RefusedConvolutions counts those that it was asked for and that stayed
	// in onnxmem's own kernels, by the reason.
	ConvolutionLibrary, ConvolutionLibraryPath string
	ConvolutionNodes                           int
	NoConvolutionLibrary                       error
	RefusedConvolutions                        map[string]int
	// Computed says how products and convolutions were computed, and of how many nodes.
	Computed []gpu.Computed
}

// Measured is what the driver took for the parts of a session when they were made, by its
// account of free memory (cuda.Device.Measure). It takes pages of up to 2 MiB, so a small
// part may count for more than it has, or for nothing. Sizes are in bytes.
type Measured struct {
	ArenaBytes, ResidentBytes, ConstantBytes, ScratchBytes int64

	KernelBytes  int64 // of all sessions on the device
	LibraryBytes int64 // the states of cuBLAS and cuDNN
	GraphBytes   int64 // the recorded steps
}

// Uses returns what the memory holds, but for what steps do. resident is the resident pool.
func (g *Memory) Uses(resident *store.Block) *Use {
	u := &Use{
		Name: g.Device.Name(), ConstantBytes: g.Queue.TableBytes(), ScratchBytes: g.Queue.ScratchBytes(), ContextBytes: g.Device.ContextBytes(),
		FallbackBytes: g.Bytes, Syncs: g.Syncs,
	}
	u.Library, u.LibraryPath, u.LibraryNodes, u.NoLibrary = g.Kernels.Library()
	u.ConvolutionLibrary, u.ConvolutionLibraryPath, u.ConvolutionNodes, u.NoConvolutionLibrary = g.Kernels.ConvolutionLibrary()
	u.RefusedConvolutions, u.Computed = g.Kernels.RefusedConvolutions(), g.Kernels.Computed()
	m := &u.Measured
	m.ScratchBytes, m.ConstantBytes, m.LibraryBytes = g.Queue.Taken()
	for _, t := range g.tables {
		u.ConstantBytes += t.block.Bytes
		m.ConstantBytes += t.block.Taken
	}
	m.KernelBytes = g.Device.KernelBytes()
	if g.made != nil {
		u.ConstantBytes += g.made.Bytes
		m.ConstantBytes += g.made.Taken
	}
	if g.Constants.Block != nil {
		m.ResidentBytes += g.Constants.Block.Taken
	}
	u.SharedBytes = g.Constants.Bytes()
	u.ResidentBytes += g.Constants.Planned
	u.ConstantBytes += u.SharedBytes - g.Constants.Planned
	for _, b := range g.mirrors {
		if b.host == resident {
			u.ResidentBytes += b.dev.Bytes
			m.ResidentBytes += b.dev.Taken
		} else {
			u.ArenaBytes += b.dev.Bytes
			m.ArenaBytes += b.dev.Taken
		}
	}
	u.WorkspaceBytes = g.inWorkspaces
	u.TakenBytes = g.taken()
	return u
}
