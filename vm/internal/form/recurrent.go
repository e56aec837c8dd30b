package form

import (
	"fmt"
	"slices"
	"strings"
)

// Recurrent is what the shapes and attributes of a recurrent node say; layouts are
// those of sequence.
type Recurrent struct {
	Gates, Steps, Batch, Input, Hidden int
	Directions                         int
	BatchFirst                         bool // layout 1
	Backward                           bool // the only direction begins at the end
	Before                             bool // GRU resets the product with the state, not the state
	Couple                             bool // LSTM forgets what its input gate does not take
	Clip                               float64
	// Activations are those of each direction in turn: of gates, of the candidate, and of
	// LSTM's output. Their names are in lower case.
	Activations []Activation
}

// Recurrent reads the form of a node with that many gates.
func (c *Call) Recurrent(gates int) (*Recurrent, error) {
	x, w, r := c.In[0], c.In[1], c.In[2]
	f := &Recurrent{
		Gates: gates, Steps: x.Shape[0], Batch: x.Shape[1], Input: x.Shape[2], Hidden: r.Shape[2], Directions: w.Shape[0],
		BatchFirst: c.Int("layout", 0) != 0, Backward: c.Str("direction", "forward") == "reverse",
		Before: c.Int("linear_before_reset", 0) != 0, Couple: c.Int("input_forget", 0) != 0, Clip: float64(c.Float("clip", 0)),
	}
	if f.BatchFirst {
		f.Steps, f.Batch = f.Batch, f.Steps
	}
	var err error
	f.Activations, err = c.RecurrentActivations(gates, f.Directions)
	return f, err
}

// RecurrentActivations reads the activations of each direction: f for gates, g for the
// candidate, h for the LSTM's output.
func (c *Call) RecurrentActivations(gates, directions int) ([]Activation, error) {
	a := c.Node.Attr("activations")
	defaults := map[int][]string{1: {"Tanh"}, 3: {"Sigmoid", "Tanh"}, 4: {"Sigmoid", "Tanh", "Tanh"}}[gates]
	names := slices.Repeat(defaults, directions)
	if a != nil {
		names = a.Strings
	}
	var alphas, betas []float32
	if a := c.Node.Attr("activation_alpha"); a != nil {
		alphas = a.Floats
	}
	if a := c.Node.Attr("activation_beta"); a != nil {
		betas = a.Floats
	}
	if len(names) != len(defaults)*directions {
		return nil, fmt.Errorf("%d activations, expected %d", len(names), len(defaults)*directions)
	}
	take := func(list *[]float32, otherwise float32) float32 {
		if len(*list) == 0 {
			return otherwise
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return v
	}
	var all []Activation
	for _, name := range names {
		a := Activation{Name: strings.ToLower(name)}
		switch a.Name {
		case "sigmoid", "tanh", "relu", "softsign", "softplus":
		case "affine":
			a.Alpha, a.Beta = take(&alphas, 1), take(&betas, 0)
		case "leakyrelu":
			a.Alpha = take(&alphas, 0.01)
		case "thresholdedrelu", "elu":
			a.Alpha = take(&alphas, 1)
		case "scaledtanh":
			a.Alpha, a.Beta = take(&alphas, 1), take(&betas, 1)
		case "hardsigmoid":
			a.Alpha, a.Beta = take(&alphas, 0.2), take(&betas, 0.5)
		default:
			return nil, Unsupportedf("activation %q", name)
		}
		all = append(all, a)
	}
	return all, nil
}
