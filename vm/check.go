package vm

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/vm/internal/exec"
)

// Difference compares one output of a planned run with that of a run in which every
// tensor has its own storage and the nodes run in another order.
type Difference struct {
	Name        string
	Identical   bool // bit for bit
	MaxAbsError float64
}

// Check is the result of CheckRun.
type Check struct {
	Outputs []Difference
	// Runs is the number of runs that were compared, up to the first that differs.
	Runs int
	// First names the first node of that run, in the planned order, and the tensor,
	// whose result differs although its inputs do not; nil if there is none.
	First error
}

// Identical reports whether all outputs are identical, bit for bit.
func (c *Check) Identical() bool {
	return !slices.ContainsFunc(c.Outputs, func(d Difference) bool { return !d.Identical })
}

// CheckRun runs the program twice: as planned, and with separate tensors in another
// topological order (Options.Separate). runs are the inputs of successive runs, as for
// Session.Run; each side keeps its parameters and states from run to run. A stray
// write that Options.Poison finds is an error. ctx stops the runs as in Session.Run. With
// a plan for ranges of dimensions, all runs have the same lengths. If an output differs,
// both run again, and their nodes are compared; on a device that is without replay.
func (p *Program) CheckRun(ctx context.Context, runs []map[string]Value, opt Options) (*Check, error) {
	x, err := exec.CheckRun(ctx, p.p, innerRuns(runs), opt.below())
	if err != nil {
		return nil, err
	}
	c := &Check{Runs: x.Runs, First: x.First}
	for _, d := range x.Outputs {
		c.Outputs = append(c.Outputs, Difference(d))
	}
	return c, nil
}

// ReferenceCheck is the result of CheckReference. A node of a body counts once,
// however often it runs; a node of a local function counts once per call in the
// graph.
type ReferenceCheck struct {
	Runs       int
	Compared   int               // nodes whose results were compared, with the evaluator's or as copies
	Uncompared map[string]int    // nodes whose results were not compared, by operator
	Reasons    map[string]string // why the first node of each such operator was not
	Idle       int               // nodes that never ran: in branches not taken, in loops without an iteration
	Wrong      int               // nodes with at least one wrong element
	// First describes the first wrong node in the order of execution: a *graph.Error
	// with the tensor, the element, and the expected and the found value. It is nil
	// if no node is wrong.
	First error
	// Worst is the largest error of a right element, as a fraction of its tolerance,
	// from 0 to 1. WorstAt is the element's node.
	Worst   float64
	WorstAt string
}

// CheckReference runs the program as planned and recomputes every node with a plain
// float64 evaluator, from the same inputs. runs and opt are as for CheckRun. Nodes of
// bodies and local functions are compared each time they run. A convolution or
// product is compared together with the activation that is fused into it. Tensors
// that If, Loop, Scan and calls copy must arrive bit for bit.
//
// An element's tolerance is some roundings of its dtype and of its summands. The
// check takes some 32 bytes for each element of the inputs and outputs of one node at
// a time, in addition to the session's memory; a node for which Options.MemoryLimit
// leaves too little is not compared. The check is slow: about a nanosecond for each
// multiplication of a product, and tens of nanoseconds for each element of other
// operators. With a plan for ranges of dimensions, all runs have the same lengths.
func (p *Program) CheckReference(ctx context.Context, runs []map[string]Value, opt Options) (*ReferenceCheck, error) {
	r, err := exec.CheckReference(ctx, p.p, innerRuns(runs), opt.below())
	return (*ReferenceCheck)(r), err
}
