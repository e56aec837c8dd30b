package gpu

import "github.com/onnxmem/onnxmem/vm/internal/form"

// take makes the result that of an activation: a clamp becomes part of the finish,
// anything else follows the product.
func (r *result) take(a *form.Activation) error {
	low, high, clamps := a.Clamp()
	switch {
	case a.Name == "":
	case clamps:
		r.finish.clamp(low, high)
	case a.Kind() > 0 && isFloat(r.y):
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
	k := n.kernel("finish.cu", "activate", "ELEMENT="+cType[r.y.Type], "ACTIVATES")
	return n.launch(k, blocksFor(r.y.Len()), threadsPerBlock, at, int64(r.y.Len()), int32(r.then.Kind()), r.then.Alpha, r.then.Beta)
}
