package vm

import "github.com/onnxmem/onnxmem/graph"

// states says which values stay in a session from one run to the next, and which outputs the
// last run had.
type states struct {
	first   int             // the first step that writes over a parameter or state
	ready   map[string]bool // parameters and states that have values
	caches  map[string]bool // of a session with points: the states that are caches
	fresh   map[string]bool // of such a session: caches that hold zeros, of any shape
	outputs map[string]Value
	updates map[graph.TensorID]bool // outputs that are new values of parameters, states and caches
}
