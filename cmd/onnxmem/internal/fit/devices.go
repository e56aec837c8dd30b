package fit

import (
	"fmt"
	"path"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/internal/strictjson"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// Kind says what shares a device's memory with a plan.
type Kind string

// The kinds of devices.
const (
	// Microcontroller has its weights in flash, and its arena in RAM.
	Microcontroller Kind = "microcontroller"
	// Process is a process of onnxmem run on a CPU that may take so much: a container, a small
	// computer, what a phone leaves to one program.
	Process Kind = "process"
	// GPU has arena and weights in its own memory.
	GPU Kind = "gpu"
)

// Device is a memory that a model is to fit.
type Device struct {
	Name  string
	Kind  Kind
	Bytes int64 // of a microcontroller: RAM
	Flash int64 // of a microcontroller: what holds the weights; 0: not compared
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	gb  = 1_000_000_000
)

// Devices lists devices by kind and memory. RAM and flash of microcontrollers are those of their
// makers' data sheets. A card of N GB has N * 10^9 bytes here: most have 7 % more, which the driver's
// context and what else is on the card may take.
func Devices() []Device {
	return []Device{
		{"nRF52840 (Nano 33 BLE)", Microcontroller, 256 * kib, 1 * mib},
		{"RP2040 (Pico)", Microcontroller, 264 * kib, 2 * mib},
		{"STM32F746", Microcontroller, 320 * kib, 1 * mib},
		{"ESP32-S3", Microcontroller, 512 * kib, 8 * mib},
		{"STM32H743", Microcontroller, 1 * mib, 2 * mib},
		{"128 MiB", Process, 128 * mib, 0},
		{"512 MiB", Process, 512 * mib, 0},
		{"2 GiB", Process, 2 * gib, 0},
		{"8 GiB", Process, 8 * gib, 0},
		{"8 GB card", GPU, 8 * gb, 0},
		{"16 GB card", GPU, 16 * gb, 0},
		{"24 GB card", GPU, 24 * gb, 0},
		{"48 GB card", GPU, 48 * gb, 0},
		{"80 GB card", GPU, 80 * gb, 0},
		{"141 GB card", GPU, 141 * gb, 0},
	}
}

// gpuBytes is what onnxmem run takes of a GPU beside its plan and the driver's context: 66 MiB are
// cuBLAS's, up to 2 those of kernels, up to 4 those of a recorded graph; measured on an H200
// (docs/results/gpu.md).
const gpuBytes = 72 * mib

// Taken returns the bytes of a device that the runtime, onnxmem run, takes for itself at most. Of a
// microcontroller that is nothing: its program's own variables are not known here.
func (d *Device) Taken(p *plan.Plan) int64 {
	switch d.Kind {
	case Process:
		return memory.RunBytes(0, len(p.Steps))
	case GPU:
		return gpuBytes
	}
	return 0
}

// Match returns the devices whose names contain one of the words or match it as a pattern
// (path.Match), or whose kind begins with it, in any case. An error names a word that no device has.
func Match(devices []Device, words []string) ([]Device, error) {
	if len(words) == 0 {
		return devices, nil
	}
	taken := make([]bool, len(devices))
	for _, word := range words {
		found := false
		for i := range devices {
			if devices[i].named(word) {
				taken[i], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("no device is called %q: expected a kind (%s, %s, %s) or a part of one of %s", graph.Short(word), Microcontroller, Process, GPU, names(devices))
		}
	}
	var list []Device
	for i := range devices {
		if taken[i] {
			list = append(list, devices[i])
		}
	}
	return list, nil
}

func (d *Device) named(word string) bool {
	name, word := strings.ToLower(d.Name), strings.ToLower(word)
	matched, err := path.Match(word, name)
	return strings.Contains(name, word) || err == nil && matched || strings.HasPrefix(string(d.Kind), word)
}

func names(devices []Device) string {
	list := make([]string, len(devices))
	for i := range devices {
		list[i] = fmt.Sprintf("%q", devices[i].Name)
	}
	return strings.Join(list, ", ")
}

// mostFile limits the size of a file of devices, and mostDevices their number.
const (
	mostFile    = 1 << 20
	mostDevices = 1000
)

// Read reads devices from a file of JSON:
//
//	[{"name": "my board", "kind": "microcontroller", "memory": "320KiB", "flash": "1MiB"}]
//
// Sizes are as on the command line. flash is for microcontrollers alone. Errors name the file, and the device
// by its number.
func Read(file string) ([]Device, error) {
	refuse := func(err error) ([]Device, error) { return nil, &graph.Error{File: file, Offset: -1, Err: err} }
	f, err := readable.Open(file)
	if err != nil {
		return refuse(err)
	}
	defer f.Close()
	var found struct {
		Devices []struct {
			Name   string `json:"name"`
			Kind   string `json:"kind"`
			Memory string `json:"memory"`
			Flash  string `json:"flash,omitempty"`
		} `json:"devices"`
	}
	text, err := strictjson.ReadObject(f, mostFile)
	if err == nil {
		err = strictjson.Rules{Complete: true}.Unmarshal(text, &found)
	}
	if err != nil {
		return refuse(fmt.Errorf(`expected {"devices": [{"name": "my board", "kind": "microcontroller", "memory": "320KiB", "flash": "1MiB"}]}: %w`, err))
	}
	if n := len(found.Devices); n == 0 || n > mostDevices {
		return refuse(fmt.Errorf("expected 1 to %d devices, found %d", mostDevices, n))
	}
	var list []Device
	for i, d := range found.Devices {
		var memory, flash units.Size
		err := memory.UnmarshalText([]byte(d.Memory))
		if err == nil && d.Flash != "" {
			err = flash.UnmarshalText([]byte(d.Flash))
		}
		switch kind := Kind(d.Kind); {
		case d.Name == "":
			return refuse(fmt.Errorf("device %d: expected a name", i+1))
		case err != nil:
			return refuse(fmt.Errorf("device %d, %q: %w", i+1, graph.Short(d.Name), err))
		case kind != Microcontroller && kind != Process && kind != GPU:
			return refuse(fmt.Errorf("device %d, %q: kind %q: expected %q, %q or %q", i+1, graph.Short(d.Name), graph.Short(d.Kind), Microcontroller, Process, GPU))
		case memory == 0:
			return refuse(fmt.Errorf("device %d, %q: expected a memory of at least one byte", i+1, graph.Short(d.Name)))
		case d.Flash != "" && kind != Microcontroller:
			return refuse(fmt.Errorf("device %d, %q: flash is for a microcontroller, and its kind is %q", i+1, graph.Short(d.Name), d.Kind))
		}
		list = append(list, Device{d.Name, Kind(d.Kind), int64(memory), int64(flash)})
	}
	return list, nil
}
