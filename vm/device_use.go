package vm

import "github.com/onnxmem/onnxmem/plan"

// DeviceUse says what a session takes and does on its GPU. Sizes are in bytes.
type DeviceUse struct {
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
	Measured   DeviceMemory
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
	// Arithmetic says how products and convolutions were computed, that of most nodes first.
	Arithmetic []Arithmetic
}

// Arithmetic says how products and convolutions of some nodes were computed on a device. Sums are
// float32, but for float64 and integers.
type Arithmetic struct {
	In    string // what operands are rounded to: their dtype, or TF32 (Options.TF32)
	By    string // cuBLAS, cuDNN or onnxmem
	Nodes int
}

// DeviceMemory is what the driver took for the parts of a session when they were made, by its
// account of free memory (cuda.Device.Measure). It takes pages of up to 2 MiB, so a small
// part may count for more than it has, or for nothing. Sizes are in bytes.
type DeviceMemory struct {
	ArenaBytes, ResidentBytes, ConstantBytes, ScratchBytes int64

	KernelBytes  int64 // of all sessions on the device
	LibraryBytes int64 // the states of cuBLAS and cuDNN
	GraphBytes   int64 // the recorded steps
}

// DeviceUse returns what the session takes and does on its GPU; nil if it has none.
func (s *Session) DeviceUse() *DeviceUse {
	u := s.x.DeviceUse()
	if u == nil {
		return nil
	}
	var arithmetic []Arithmetic
	for _, c := range u.Computed {
		arithmetic = append(arithmetic, Arithmetic{c.In, c.By, c.Nodes})
	}
	return &DeviceUse{
		Name:                   u.Name,
		Machine:                u.Machine,
		ArenaBytes:             u.ArenaBytes,
		ResidentBytes:          u.ResidentBytes,
		ConstantBytes:          u.ConstantBytes,
		SharedBytes:            u.SharedBytes,
		ScratchBytes:           u.ScratchBytes,
		WorkspaceBytes:         u.WorkspaceBytes,
		ContextBytes:           u.ContextBytes,
		TakenBytes:             u.TakenBytes,
		FallbackNodes:          u.FallbackNodes,
		FallbackOps:            u.FallbackOps,
		FallbackBytes:          u.FallbackBytes,
		Syncs:                  u.Syncs,
		ReplayedSteps:          u.ReplayedSteps,
		Library:                u.Library,
		LibraryPath:            u.LibraryPath,
		LibraryNodes:           u.LibraryNodes,
		NoLibrary:              u.NoLibrary,
		ConvolutionLibrary:     u.ConvolutionLibrary,
		ConvolutionLibraryPath: u.ConvolutionLibraryPath,
		ConvolutionNodes:       u.ConvolutionNodes,
		NoConvolutionLibrary:   u.NoConvolutionLibrary,
		RefusedConvolutions:    u.RefusedConvolutions,
		Arithmetic:             arithmetic,
		Measured:               DeviceMemory(u.Measured),
	}
}

// Workspaces returns the scratch that the kernels of the nodes take on the session's GPU,
// for passes.Options.Workspaces; nil if it has none. Tool is the caller's to set.
func (s *Session) Workspaces() *plan.Recording { return s.x.Workspaces() }
