package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm"
)

// runDevice says what a run took and did on a GPU, in --json.
type runDevice struct {
	Name          string   `json:"name"`
	Machine       string   `json:"machine"`
	ArenaBytes    int64    `json:"arena_bytes"`
	ResidentBytes int64    `json:"resident_bytes"`
	ConstantBytes int64    `json:"constant_bytes"`
	ScratchBytes  int64    `json:"scratch_bytes"`
	Workspaces    int64    `json:"workspace_bytes"`
	ContextBytes  int64    `json:"context_bytes"`
	TakenBytes    int64    `json:"taken_bytes"`
	Measured      measured `json:"measured"`
	FallbackNodes int      `json:"fallback_nodes"`
	FallbackOps   []string `json:"fallback_operators,omitempty"`
	FallbackBytes int64    `json:"fallback_bytes"`
	Syncs         int      `json:"syncs"`
	ReplayedSteps int      `json:"replayed_steps"`
	Library       string   `json:"product_library,omitempty"`
	LibraryPath   string   `json:"product_library_path,omitempty"`
	LibraryNodes  int      `json:"product_library_nodes,omitempty"`
	NoLibrary     string   `json:"no_product_library,omitempty"`

	ConvolutionLibrary     string            `json:"convolution_library,omitempty"`
	ConvolutionLibraryPath string            `json:"convolution_library_path,omitempty"`
	ConvolutionNodes       int               `json:"convolution_library_nodes,omitempty"`
	NoConvolutionLibrary   string            `json:"no_convolution_library,omitempty"`
	Refused                []refusedByReason `json:"refused_convolutions,omitempty"`
	Arithmetic             []arithmetic      `json:"arithmetic,omitempty"`
}

// measured is what the driver took for the parts of a session.
type measured struct {
	ArenaBytes    int64 `json:"arena_bytes"`
	ResidentBytes int64 `json:"resident_bytes"`
	ConstantBytes int64 `json:"constant_bytes"`
	ScratchBytes  int64 `json:"scratch_bytes"`
	KernelBytes   int64 `json:"kernel_bytes"`
	LibraryBytes  int64 `json:"library_bytes"`
	GraphBytes    int64 `json:"graph_bytes"`
}

// refusedByReason counts nodes that a library was asked for and does not compute.
type refusedByReason struct {
	Reason string `json:"reason"`
	Nodes  int    `json:"nodes"`
}

// arithmetic says how products and convolutions of some nodes were computed.
type arithmetic struct {
	In    string `json:"in"`
	By    string `json:"by"`
	Nodes int    `json:"nodes"`
}

// deviceOf returns what a session took and did on its GPU; nil if it has none.
func deviceOf(s *vm.Session) *runDevice {
	u := s.DeviceUse()
	if u == nil {
		return nil
	}
	d := &runDevice{
		Name: u.Name, Machine: u.Machine, ArenaBytes: u.ArenaBytes, ResidentBytes: u.ResidentBytes, ConstantBytes: u.ConstantBytes, ScratchBytes: u.ScratchBytes,
		Workspaces: u.WorkspaceBytes, Measured: measured(u.Measured), ContextBytes: u.ContextBytes, TakenBytes: u.TakenBytes, FallbackNodes: u.FallbackNodes, FallbackOps: u.FallbackOps, FallbackBytes: u.FallbackBytes, Syncs: u.Syncs, ReplayedSteps: u.ReplayedSteps,
		Library: u.Library, LibraryPath: u.LibraryPath, LibraryNodes: u.LibraryNodes,
	}
	if u.NoLibrary != nil {
		d.NoLibrary = u.NoLibrary.Error()
	}
	d.ConvolutionLibrary, d.ConvolutionLibraryPath, d.ConvolutionNodes = u.ConvolutionLibrary, u.ConvolutionLibraryPath, u.ConvolutionNodes
	if u.NoConvolutionLibrary != nil {
		d.NoConvolutionLibrary = u.NoConvolutionLibrary.Error()
	}
	for _, reason := range slices.Sorted(maps.Keys(u.RefusedConvolutions)) {
		d.Refused = append(d.Refused, refusedByReason{reason, u.RefusedConvolutions[reason]})
	}
	for _, a := range u.Arithmetic {
		d.Arithmetic = append(d.Arithmetic, arithmetic(a))
	}
	return d
}

// workspaces says how much of the arena is scratch of kernels.
func (d *runDevice) workspaces() string {
	if d.Workspaces == 0 {
		return ""
	}
	return fmt.Sprintf(" (with workspaces of up to %s)", units.Short(d.Workspaces))
}

// print prints it.
func (d *runDevice) print(w io.Writer) {
	if d == nil {
		return
	}
	fmt.Fprintf(w, "%-20s %s\n", "device", d.Name)
	fmt.Fprintf(w, "%-20s %s\n", "nodes run by", d.Machine)
	fmt.Fprintf(w, "%-20s arena %s%s, resident %s, other constants %s, scratch %s\n", "device memory",
		units.Short(d.ArenaBytes), d.workspaces(), units.Short(d.ResidentBytes), units.Short(d.ConstantBytes), units.Short(d.ScratchBytes))
	m := d.Measured
	blocks := m.ArenaBytes + m.ResidentBytes + m.ConstantBytes + m.ScratchBytes
	fmt.Fprintf(w, "%-20s %s: these %s, kernels %s, recorded graph %s, libraries %s; before the run %s: context and others\n", "by the driver",
		units.Short(d.TakenBytes), units.Short(blocks), units.Short(m.KernelBytes), units.Short(m.GraphBytes), units.Short(m.LibraryBytes), units.Short(d.ContextBytes))
	printLibrary(w, "products", d.Library, d.LibraryPath, d.LibraryNodes, d.NoLibrary)
	printLibrary(w, "convolutions", d.ConvolutionLibrary, d.ConvolutionLibraryPath, d.ConvolutionNodes, d.NoConvolutionLibrary)
	for _, r := range d.Refused {
		fmt.Fprintf(w, "%-20s %d nodes by onnxmem's own kernels: %s\n", "convolutions", r.Nodes, r.Reason)
	}
	var list []string
	for _, a := range d.Arithmetic {
		list = append(list, fmt.Sprintf("%s for %d nodes (%s)", a.In, a.Nodes, a.By))
	}
	if len(list) > 0 {
		fmt.Fprintf(w, "%-20s %s\n", "arithmetic", strings.Join(list, ", "))
	}
	if d.ReplayedSteps > 0 {
		fmt.Fprintf(w, "%-20s %d steps as one CUDA graph\n", "replayed", d.ReplayedSteps)
	}
	if d.FallbackNodes == 0 {
		fmt.Fprintf(w, "%-20s none: every node runs on the device\n", "on the CPU")
		return
	}
	fmt.Fprintf(w, "%-20s %d nodes (%s); a run copies %s and waits %d times\n", "on the CPU", d.FallbackNodes, strings.Join(d.FallbackOps, ", "), units.Short(d.FallbackBytes), d.Syncs)
}

// printLibrary prints which library computed some nodes, or why none did.
func printLibrary(w io.Writer, what, name, path string, nodes int, missing string) {
	switch {
	case name != "":
		fmt.Fprintf(w, "%-20s %s for %d nodes (%s)\n", what, units.Name(name), nodes, units.Name(path))
	case missing != "":
		fmt.Fprintf(w, "%-20s onnxmem's own kernels: %s\n", what, missing)
	}
}
