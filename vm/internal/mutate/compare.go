package mutate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// Differ compares the results of a mutant on the host and on a device. It returns how they
// differ, or "": both are refused, or both ran and their outputs agree. Results that a
// limit of memory or time prevents say nothing.
func Differ(host, device *Result) string {
	switch {
	case device.Finding != "":
		return "device: " + device.Finding
	case device.Refusal != nil && strings.Contains(device.Refusal.Error(), "CUDA_ERROR"):
		return "the driver refuses: " + device.Refusal.Error()
	case limited(host.Refusal) || limited(device.Refusal):
		return ""
	case host.Refusal == nil && device.Refusal != nil:
		return "only the device refuses: " + device.Refusal.Error()
	case host.Refusal != nil && device.Refusal == nil:
		return "only the host refuses: " + host.Refusal.Error()
	}
	for _, name := range slices.Sorted(maps.Keys(host.Outputs)) {
		if what := differ(device.Outputs[name], host.Outputs[name]); what != "" {
			return fmt.Sprintf("output %s: %s", name, what)
		}
	}
	return ""
}

// limited reports whether an error says that memory or time does not suffice.
func limited(err error) bool {
	var l *vm.LimitError
	return errors.As(err, &l) || errors.Is(err, context.DeadlineExceeded)
}

// differ compares two values: reals by the largest finite one of them, others in all bits.
func differ(got, want vm.Value) string {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("got %v of shape %v, want %v of shape %v", got.Type, got.Shape, want.Type, want.Shape)
	}
	a, isReal := got.Reals()
	b, _ := want.Reals()
	if !isReal || !want.Type.Floating() { // any byte but 0 is true
		for i := range b {
			if a[i] != b[i] {
				return fmt.Sprintf("element %d of shape %v: got %v, want %v", i, want.Shape, a[i], b[i])
			}
		}
		if want.Type != graph.Bool && (!bytes.Equal(got.Data, want.Data) || !slices.Equal(got.Strings, want.Strings)) {
			return "other bytes"
		}
		return ""
	}
	part := map[graph.DType]float64{graph.Float64: 1e-6, graph.Float32: 1e-4, graph.BFloat16: 3e-2}[want.Type]
	if part == 0 {
		part = 4e-3
	}
	size := 0.0
	for _, x := range b {
		if !math.IsInf(x, 0) && x == x {
			size = max(size, math.Abs(x))
		}
	}
	for i := range b {
		if a[i] != b[i] && !(math.Abs(a[i]-b[i]) <= part*size) && (a[i] == a[i] || b[i] == b[i]) {
			return fmt.Sprintf("element %d of shape %v: got %v, want %v", i, want.Shape, a[i], b[i])
		}
	}
	return ""
}
