package main

import (
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// warnTraining reports tensors that are not trained, and oddities.
func warnTraining(e *env, r *passes.Result) {
	if r.Step == nil {
		return
	}
	const most = 10
	for i, t := range r.Step.LeftOut {
		if i == most {
			e.say("… and %d more that are not trained (--trainable, -v)", len(r.Step.LeftOut)-most)
			break
		}
		e.say("not trained: %s", units.Name(t))
	}
	for i, w := range r.Step.Warnings {
		if i == most {
			e.say("… and %d more of this kind", len(r.Step.Warnings)-most)
			break
		}
		e.say("%s", w)
	}
}

// printStep describes a training graph.
func printStep(w io.Writer, r *passes.Result) {
	var parameters, states int64
	for _, b := range r.Plan.Buffers {
		switch b.Kind {
		case plan.KindParameter:
			parameters += b.Bytes
		case plan.KindState:
			states += b.Bytes
		}
	}
	fmt.Fprintf(w, "training step        %d nodes, %d parameters of %s, states of %s\n",
		r.Plan.Summary.Nodes, len(r.Step.Parameters), units.Bytes(parameters), units.Bytes(states))
}
