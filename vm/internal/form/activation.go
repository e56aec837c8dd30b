package form

import (
	"math"
	"slices"
)

// Activation is an activation that an attribute of a recurrent layer, or of ONNX
// Runtime's fused operators, names. Alpha and Beta are its parameters or their defaults; for Clip, the bounds.
type Activation struct {
	Name        string // "" for none
	Alpha, Beta float32
}

// Activations are the activations that an attribute can name, with the defaults of their
// parameters: in the order of the constants of vm/cuda/kernels/finish.cu, and last those that
// clamp, which need none there.
var Activations = []Activation{
	{Name: "Sigmoid"},
	{Name: "Tanh"},
	{Name: "HardSwish"},
	{"HardSigmoid", 0.2, 0.5},
	{"LeakyRelu", 0.01, 0},
	{"Elu", 1, 0},
	{"ThresholdedRelu", 1, 0},
	{Name: "Softplus"},
	{Name: "Softsign"},
	{Name: "Relu"},
	{"Clip", float32(math.Inf(-1)), float32(math.Inf(1))},
}

// Clamp returns the bounds of an activation that is min(max(x, low), high); false for others.
func (a *Activation) Clamp() (low, high float32, clamps bool) {
	switch a.Name {
	case "Relu":
		return 0, float32(math.Inf(1)), true
	case "Clip":
		return a.Alpha, a.Beta, true
	}
	return 0, 0, false
}

// Kind is the number of the activation in vm/cuda/kernels/finish.cu; 0 for none.
func (a *Activation) Kind() int {
	if _, _, clamps := a.Clamp(); clamps {
		return 0
	}
	return slices.IndexFunc(Activations, func(n Activation) bool { return n.Name == a.Name }) + 1
}

// newActivation is the activation of a name, without parameters.
func newActivation(name string) *Activation {
	if k := slices.IndexFunc(Activations, func(n Activation) bool { return n.Name == name }); k >= 0 {
		a := Activations[k]
		return &a
	}
	return &Activation{Name: name}
}

// ListedActivation is the activation of FusedConv, whose parameters are in the list
// activation_params.
func (c *Call) ListedActivation() *Activation {
	a := newActivation(c.Str("activation", ""))
	if list := c.Node.Attr("activation_params"); list != nil {
		for i, v := range list.Floats[:min(len(list.Floats), 2)] {
			*[]*float32{&a.Alpha, &a.Beta}[i] = v
		}
	}
	return a
}

// TitledActivation is the activation of FusedGemm, whose parameters are activation_alpha
// and activation_beta.
func (c *Call) TitledActivation() *Activation {
	a := newActivation(c.Str("activation", ""))
	a.Alpha, a.Beta = c.Float("activation_alpha", a.Alpha), c.Float("activation_beta", a.Beta)
	return a
}
