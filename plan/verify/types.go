package verify

import (
	"encoding/json"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// types infers the model. It cannot be checked further if the plan's dims or values do not
// fit.
func (v *verifier) types() (ok bool) {
	ok, v.err = v.infer()
	return ok
}

// infer sets the types of m for the plan's dims and compares the dims with the
// model's. If the dims cause an error, that is a violation, and ok is false.
func (v *verifier) infer() (ok bool, err error) {
	dims := map[string]int64{}
	for name, d := range v.Plan.Dims {
		if !d.Assumed {
			dims[name] = d.Value
		}
	}
	mode, _ := v.Model.Prop(keyMode)
	// Of a training graph's dimensions, those without a range were bound when it was made.
	inf, err := ops.Infer(v.Model, ops.Options{Dims: dims, Values: v.Plan.Values, SpareDims: mode == modeTraining})
	if err != nil {
		without := func(opt ops.Options) bool {
			_, err := ops.Infer(v.Model, opt)
			return err == nil
		}
		switch {
		case len(v.Plan.Values) > 0 && without(ops.Options{Dims: dims}):
			v.Fault(CodeValues, "values: the model cannot be inferred with them: %v", err)
		case len(dims)+len(v.Plan.Values) > 0 && without(ops.Options{}), without(ops.Options{Dims: v.annotatedDims(), Values: v.Plan.Values}):
			v.Fault(CodeDims, "dims: the model cannot be inferred with them: %v", err)
		default:
			return false, err
		}
		return false, nil
	}
	v.keepRuntime()
	v.values(inf.Given)
	have := map[string]bool{}
	for _, d := range inf.Dims {
		have[d.Name] = true
		found, stated := v.Plan.Dims[d.Name]
		switch {
		case !stated:
			v.Fault(CodeDims, "dims: %q is missing: expected %d", graph.Short(d.Name), d.Value)
		case found.Value != d.Value || found.Assumed != d.Assumed:
			v.Fault(CodeDims, "dims: %q: expected %d (assumed: %t), found %d (assumed: %t)",
				graph.Short(d.Name), d.Value, d.Assumed, found.Value, found.Assumed)
		}
	}
	for _, name := range sortedKeys(v.Plan.Dims) {
		switch d := v.Plan.Dims[name]; {
		case have[name]:
		case mode != modeTraining:
			v.Fault(CodeDims, "dims: %q is no dimension of the model's inputs", graph.Short(name))
		case d.Value < 0:
			v.Fault(CodeDims, "dims: %q: expected a length >= 0, found %d", graph.Short(name), d.Value)
		default: // it was bound before the training graph was made
			v.Claim("dims")
		}
	}
	return true, nil
}

// annotatedDims returns the lengths with which the file was planned, as it says itself.
func (v *verifier) annotatedDims() map[string]int64 {
	text, _ := v.Model.Prop(keyDims)
	var list map[string]plan.Dim
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	dims := map[string]int64{}
	for name, d := range list {
		if !d.Assumed {
			dims[name] = d.Value
		}
	}
	return dims
}

// values compares the plan's values of inputs with the form that the element types
// of the inputs give them. A parameter or state changes from step to step: it has no
// value of its own.
func (v *verifier) values(want map[string]graph.Literal) {
	for _, name := range sortedKeys(v.Plan.Values) {
		if found := v.Plan.Values[name]; !found.Equal(want[name]) {
			v.Fault(CodeValues, "values: %q: expected %v, found shape %v and %d numbers", graph.Short(name), want[name], found.Shape, len(found.Data))
		}
		for i := range v.Plan.Buffers {
			if b := &v.Plan.Buffers[i]; plan.Stays(b.Kind) && slices.Contains(b.Tensors, name) {
				v.Fault(CodeValues, "values: %q is a %s, which changes: expected an input", graph.Short(name), b.Kind)
			}
		}
	}
}
