// Package program is a planned model, checked against its plan: where its tensors lie, which of them
// stay from run to run, the constants, and, of a plan for ranges of dimensions, the model and the
// plan at each point. Sessions share it, and change nothing of it but the constants.
package program
