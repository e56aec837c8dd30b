package gpu

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// fusedActivations are the activations of a fused product in the order of the constants
// of kernels/finish.cu, beside those that clamp.
var fusedActivations = []string{"Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "LeakyRelu", "Elu", "ThresholdedRelu", "Softplus", "Softsign"}

// take makes the result that of an activation: a clamp becomes part of the finish,
// anything else follows the product.
func (r *result) take(a *kernel.NamedActivation) error {
	switch {
	case a.Name == "":
	case a.Name == "Relu":
		r.finish.clamp(0, float32(math.Inf(1)))
	case a.Name == "Clip":
		r.finish.clamp(a.Alpha, a.Beta)
	case slices.Contains(fusedActivations, a.Name) && isFloat(r.y):
		r.then = a
	default:
		return unsupportedf("activation %q of %v", a.Name, r.y.Type)
	}
	return nil
}

// clamp makes the finish end with min(max(x, low), high).
func (f *finish) clamp(low, high float32) { f.Clamps, f.Low, f.High = 1, low+0, high+0 } // no -0

// activate appends the activation that follows a product.
func (n *Node) activate(r *result) error {
	if r.then == nil {
		return nil
	}
	at, err := n.at(r.y)
	if err != nil {
		return err
	}
	kind := slices.Index(fusedActivations, r.then.Name) + 1
	k := n.kernel("finish.cu", "activate", "ELEMENT="+cType[r.y.Type], "ACTIVATES")
	return n.launch(k, blocksFor(r.y.Len()), threadsPerBlock, at, int64(r.y.Len()), int32(kind), r.then.Alpha, r.then.Beta)
}
