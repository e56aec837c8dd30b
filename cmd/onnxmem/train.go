package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/onnxmem/onnxmem/autodiff"
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
	for i, t := range r.Step.Tied {
		if i == most {
			e.say("… and %d more parameters that several nodes read (--json)", len(r.Step.Tied)-most)
			break
		}
		e.say("%s", t)
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
	fmt.Fprintf(w, "trained              %s\n", byKind(r.Step.Trained))
	if len(r.Step.NotTrained) > 0 {
		fmt.Fprintf(w, "not trained          %s\n", byKind(r.Step.NotTrained))
	}
	if n := len(r.Step.Tied); n > 0 {
		nodes, equal := 0, 0
		for _, t := range r.Step.Tied {
			nodes += len(t.Nodes)
			if t.Equal {
				equal++
			}
		}
		fmt.Fprintf(w, "tied                 %d of these are read by %d nodes; all elements are equal in %d (--untie)\n", n, nodes, equal)
	}
	if n := len(r.Step.Copies); n > 0 {
		fmt.Fprintf(w, "untied               %d copies of merged initializers\n", n)
	}
}

// byKind lists initializers by kind.
func byKind(list []autodiff.Count) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("%s %d (%s elements)", c.Kind, c.Initializers, units.Group(c.Elements)))
	}
	return strings.Join(parts, ", ")
}
