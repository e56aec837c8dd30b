package optimize

import (
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/internal/units"
)

// Accuracy compares the outputs of a model in 16 bits with those of the model in float32.
type Accuracy struct {
	Inputs  string        `json:"inputs,omitempty"`  // their file, or "random"
	Skipped string        `json:"skipped,omitempty"` // why they were not compared; "": they were
	Outputs []OutputError `json:"outputs,omitempty"` // of floating-point types
}

// OutputError says how far an output is from that in float32.
type OutputError struct {
	Output   string  `json:"output"`
	Max      float64 `json:"max_error"`          // the largest difference; 0 if some are infinite
	Mean     float64 `json:"mean_error"`         // of the magnitudes of those that are not
	Largest  float64 `json:"largest"`            // the largest magnitude in float32
	Infinite int     `json:"infinite,omitempty"` // elements that are infinite, or no number, in one of both
}

// print prints one line for each output.
func (a *Accuracy) print(w io.Writer) {
	switch {
	case a == nil:
	case a.Skipped != "":
		fmt.Fprintf(w, "accuracy             not compared with float32: %s\n", a.Skipped)
	case len(a.Outputs) == 0:
		fmt.Fprintln(w, "accuracy             no output is of a floating-point type")
	}
	if a == nil {
		return
	}
	for _, x := range a.Outputs {
		if x.Infinite > 0 {
			fmt.Fprintf(w, "accuracy             %s: %d elements are infinite or no number, and not in float32; others differ by %.3g on average (%s inputs)\n", units.Name(x.Output), x.Infinite, x.Mean, a.Inputs)
			continue
		}
		fmt.Fprintf(w, "accuracy             %s: at most %.3g from float32, %.3g on average, of at most %.3g (%s inputs)\n", units.Name(x.Output), x.Max, x.Mean, x.Largest, a.Inputs)
	}
}
