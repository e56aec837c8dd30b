package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// document is what a run writes to results.json (docs/formats/gpu-results.md describes it). Sizes are
// in bytes, times in seconds, extra times in per cent.
type document struct {
	Format  string  `json:"format"` // "onnxmem/gpu"
	Version int     `json:"version"`
	Tool    string  `json:"tool"`
	Started string  `json:"started"` // RFC 3339
	Seconds float64 `json:"seconds"`
	Fake    bool    `json:"fake"` // a driver that runs kernels on the CPU: no figure is one of a GPU
	Machine machine `json:"machine"`
	Device  *device `json:"device"` // null: there is none, and Parts says why
	Parts   []*part `json:"parts"`
	Suites  []suite `json:"suites"`
	Runs    []*run  `json:"runs"`
}

// machine is what the device is in.
type machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Cores int    `json:"cores"`
}

// device is the GPU, its driver and its compiler.
type device struct {
	Name            string `json:"name"`
	Compute         string `json:"compute_capability"`
	Multiprocessors int    `json:"multiprocessors"`
	Driver          string `json:"driver_cuda_version"` // the newest CUDA that the driver supports
	Compiler        string `json:"nvrtc_version"`
	MemoryBytes     int64  `json:"memory_bytes"`
	ContextBytes    int64  `json:"context_bytes"` // in use before any block: the context, and other processes
	Link            link   `json:"link"`
}

// link is the measured rate of copies between the device and pinned memory, in bytes a
// second: one way alone, and of either way while both are busy.
type link struct {
	Bytes int64   `json:"bytes"` // of a copy
	Up    float64 `json:"up_bytes_per_second"`
	Down  float64 `json:"down_bytes_per_second"`
	Both  float64 `json:"both_bytes_per_second"`
}

// The ends of a part.
const (
	done   = "done"
	failed = "failed" // something in it failed: Message, or the errors of its runs
	cut    = "cut"    // its share of the time limit was over
	absent = "absent" // what it needs is not on this machine
)

// part is how a part of the program ended.
type part struct {
	Name    string  `json:"name"`
	Status  string  `json:"status"`
	Seconds float64 `json:"seconds"`
	Message string  `json:"message,omitempty"`
}

// suite is a run of a test binary, plain or under one of compute-sanitizer's tools.
type suite struct {
	Part    string  `json:"part"`
	Name    string  `json:"name"`
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Skipped int     `json:"skipped"`
	Faults  *int    `json:"faults,omitempty"` // errors or hazards that the tool's summary counts
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// run is a measurement of one plan, or of PyTorch. Figures that it has not are null or 0.
type run struct {
	Part    string `json:"part"`
	Network string `json:"network"`
	Mode    string `json:"mode"` // inference, sgd, momentum, adamw
	Batch   int    `json:"batch"`
	What    string `json:"what,omitempty"` // the variant: "replay no", "limit 50%", "PyTorch eager"
	Error   string `json:"error,omitempty"`

	PlannedBytes int64    `json:"planned_bytes,omitempty"` // the plan's arena and resident pool
	OwnBytes     int64    `json:"own_bytes,omitempty"`     // what the session asked for: also other constants and scratch
	TakenBytes   int64    `json:"taken_bytes,omitempty"`   // beyond the context, by the driver; PyTorch: reserved
	Deviation    *float64 `json:"deviation_percent,omitempty"`
	KernelBytes  int64    `json:"kernel_bytes,omitempty"` // of TakenBytes, for modules, recorded steps and the states of cuBLAS and cuDNN
	GraphBytes   int64    `json:"graph_bytes,omitempty"`
	LibraryBytes int64    `json:"library_bytes,omitempty"`

	Machine       string   `json:"machine,omitempty"`      // what kept the order of nodes, where steps were not replayed
	Products      string   `json:"products,omitempty"`     // the library of matrix products
	Convolutions  string   `json:"convolutions,omitempty"` // that of convolutions
	Arithmetic    []string `json:"arithmetic,omitempty"`   // of products and convolutions
	ArenaBytes    int64    `json:"arena_bytes,omitempty"`
	FallbackNodes *int     `json:"fallback_nodes,omitempty"`
	FallbackOps   []string `json:"fallback_operators,omitempty"`
	Syncs         int      `json:"syncs,omitempty"`
	ReplayedSteps int      `json:"replayed_steps,omitempty"`
	SameBits      *bool    `json:"same_bits,omitempty"`

	Prepare float64 `json:"prepare_seconds,omitempty"`
	Step    float64 `json:"step_seconds,omitempty"` // the fastest
	Base    float64 `json:"base_seconds,omitempty"` // what Step is to be compared with: the step without what What says

	OfTorch float64 `json:"of_pytorch,omitempty"` // our step in times of PyTorch's

	Recomputed    int      `json:"recomputed_nodes,omitempty"`
	SwappedBytes  int64    `json:"swapped_bytes,omitempty"`
	Promised      *float64 `json:"promised_extra_percent,omitempty"`
	Measured      *float64 `json:"measured_extra_percent,omitempty"`
	TransferTime  float64  `json:"transfer_seconds,omitempty"`   // the longer way's, at the measured rate
	Overlapped    *float64 `json:"overlapped_percent,omitempty"` // of it, hidden behind kernels
	ProfileSum    float64  `json:"nodes_seconds,omitempty"`      // the nodes' times by events, together
	SlowestNode   string   `json:"slowest_node,omitempty"`
	SlowestNodeIn float64  `json:"slowest_node_seconds,omitempty"`
}

// name is how tables and messages call a run.
func (r *run) name() string {
	s := fmt.Sprintf("%s, batch %d", r.Network, r.Batch)
	if r.Mode != inference {
		s += ", " + r.Mode + " step"
	}
	if r.What != "" {
		s += ", " + r.What
	}
	return s
}

// write replaces results.json and results.md in a folder, so that what is there is whole at
// any time.
func (d *document) write(folder string) error {
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"results.json": append(text, '\n'), "results.md": []byte(d.table())} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path+".new", data, 0o644); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

// failures counts the parts, suites and runs that failed, or whose bits differ.
func (d *document) failures() (n int) {
	for _, p := range d.Parts {
		if p.Status == failed {
			n++
		}
	}
	return n
}
