package verify

import (
	"sync"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/caches"
	"github.com/onnxmem/onnxmem/plan/verify/internal/folding"
	"github.com/onnxmem/onnxmem/plan/verify/internal/regions"
	"github.com/onnxmem/onnxmem/plan/verify/internal/rowmap"
	"github.com/onnxmem/onnxmem/plan/verify/internal/training"
	"github.com/onnxmem/onnxmem/plan/verify/internal/unchanged"
)

// The provers that are packages of their own, with what they need of those before them.

// knowsRows reports whether the verifier has an account of its own of the rows that an operator
// reads. A test leaves one out.
var knowsRows = rowmap.Known

// regions calls the prover of slices.
func (v *verifier) regions() bool {
	plain := v.withoutAdded()
	planned := regions.Planned{Graph: plain.g, Originals: plain.originals, Added: v.added, Knows: knowsRows}
	if v.pointsOf != nil {
		planned.Compared = &sync.Map{}
	}
	v.r.ClaimedOperators = regions.Prove(v.Subject, planned)
	if v.pointsOf != nil && v.Plan.Slices != nil && v.Source != nil {
		v.pointsOf.regions(planned)
	}
	return true
}

// folded calls the prover of folded constants.
func (v *verifier) folded() bool {
	graphs := make([]*graph.Graph, len(v.scopes))
	for i, s := range v.scopes {
		graphs[i] = s.g
	}
	folding.Prove(v.Subject, graphs)
	return true
}

// capacity calls the prover of caches.
func (v *verifier) capacity() bool {
	next := v.updates
	if v.updatesKey != keyStates {
		next = nil
	}
	caches.Prove(v.Subject, next)
	return true
}

// forward calls the prover of forward passes for a model in 16 bits, or with attention that the source
// spells out, that is no step.
func (v *verifier) forward() {
	plain := v.withoutAdded()
	main, bodies := unchanged.ReplacedBy(v.Plan.Folded)
	line := training.ProveForward(v.Subject, training.Step{
		Graph: plain.g, Originals: plain.originals, Made: training.Otherwise(main), InBodies: training.Otherwise(bodies),
	})
	if v.Plan.Precision != nil {
		v.r.Precision = line
	} else {
		v.r.Attention = line
	}
}

// step calls the prover of training steps. What runs in slices is not compared with the source.
func (v *verifier) step() {
	plain := v.withoutAdded()
	main, bodies := unchanged.ReplacedBy(v.Plan.Folded)
	v.r.Training = training.Prove(v.Subject, training.Step{
		Graph: plain.g, Originals: plain.originals, Updates: v.updates, Trained: v.trained, Made: training.Otherwise(main), InBodies: training.Otherwise(bodies),
	})
}
