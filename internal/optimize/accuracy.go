package optimize

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
