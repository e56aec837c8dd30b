package training

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/graph"
)

// Names that a step adds.
const (
	rate       = "learning_rate"
	stepName   = "step"
	microName  = "micro_step"
	scaleName  = "loss_scale"
	scaleSteps = "loss_scale.steps"
	sumSuffix  = ".grad_sum"
)

// constants of an optimizer, as the metadata have them.
type constants struct {
	Name    string  `json:"name"`
	Rate    string  `json:"learning_rate"`
	Decay   float64 `json:"weight_decay"`
	Keep    float64 `json:"momentum"`
	Beta1   float64 `json:"beta1"`
	Beta2   float64 `json:"beta2"`
	Epsilon float64 `json:"epsilon"`
}

// optimizer is what the metadata say of the updates.
type optimizer struct {
	constants
	ClipNorm   float64 `json:"clip_norm"`
	Accumulate int64   `json:"accumulate"`
	LossScale  *struct {
		Initial  float64 `json:"initial"`
		Growth   float64 `json:"growth"`
		Backoff  float64 `json:"backoff"`
		Interval int64   `json:"interval"` // 0: the scale does not change
	} `json:"loss_scale"`
	Groups []struct {
		constants
		Parameters []string `json:"parameters"`
	} `json:"groups"`
}

// states are what an optimizer keeps of each parameter.
var states = map[string][]string{"sgd": nil, "momentum": {".momentum"}, "adam": {".adam_m", ".adam_v"}, "adamw": {".adam_m", ".adam_v"}}

// readOptimizer reads the metadata: the optimizer, and its constants for each parameter.
func (p *prover) readOptimizer() (o *optimizer, of map[string]constants, wrong string) {
	text, _ := p.Model.Prop("onnxmem.optimizer")
	o = &optimizer{}
	err := json.Unmarshal([]byte(text), o)
	if _, known := states[o.Name]; err != nil || !known || o.Accumulate < 0 {
		return nil, nil, fmt.Sprintf("onnxmem.optimizer: expected an optimizer, found %q", graph.Short(text))
	}
	o.Accumulate = max(o.Accumulate, 1)
	of = map[string]constants{}
	for name := range p.step.Trained {
		of[name] = o.constants
	}
	for _, g := range o.Groups {
		for _, name := range g.Parameters {
			of[name] = g.constants
		}
	}
	for name, c := range of {
		if c.Rate == "" {
			c.Rate = rate
		}
		c.Name = o.Name // that of a group is the group's
		of[name] = c
	}
	return o, of, ""
}

// dynamic reports whether the scale of the loss changes.
func (o *optimizer) dynamic() bool { return o.LossScale != nil && o.LossScale.Interval > 0 }

// counts reports whether updates depend on their number.
func (o *optimizer) counts() bool { return len(states[o.Name]) == 2 }

// parameter is one that is trained, with what belongs to it.
type parameter struct {
	name    string
	raw     graph.TensorID   // its gradient before it is scaled and clipped; none: it is not listed
	checked []graph.TensorID // what else is read to find out whether it is finite
	count   int64            // of elements
	states  []string
	sum     string // of gradients; "": none
	narrow  bool   // of a type of 16 bits
	constants
}

// parameters finds what belongs to each parameter, and accounts for all that is updated.
func (p *prover) parameters(o *optimizer, of map[string]constants) (list []*parameter, wrong string) {
	for _, name := range sorted(p.step.Trained) {
		w := &parameter{name: name, constants: of[name]}
		if wrong := p.find(w, o); wrong != "" {
			return nil, fmt.Sprintf("parameter %q: %s", graph.Short(name), wrong)
		}
		list = append(list, w)
	}
	p.known[stepName] = p.known[stepName] || o.counts()
	p.known[microName] = p.known[microName] || o.Accumulate > 1
	for _, name := range []string{scaleName, scaleSteps} {
		p.known[name] = p.known[name] || o.dynamic()
	}
	for _, name := range sorted(p.step.Updates) {
		if !p.known[name] {
			return nil, fmt.Sprintf("update of %q: expected a parameter, a statistic, or a state of the optimizer", graph.Short(name))
		}
	}
	return list, ""
}

// find finds what belongs to a parameter: its gradient and its states.
func (p *prover) find(w *parameter, o *optimizer) string {
	t, there := p.byName[w.name]
	if !there || p.step.Updates[w.name] == "" {
		return "expected an input with an updated value"
	}
	if p.pairs[t] == none && len(p.claimed) == 0 {
		return "expected one that the loss depends on"
	}
	p.known[w.name] = true
	w.count, w.narrow, w.raw = p.elements(t), p.g.Tensors[t].Type.Elem.Bits() < 32, none
	for _, suffix := range states[o.Name] {
		name := p.state(w.name + suffix)
		if name == "" {
			return fmt.Sprintf("expected a state %q", graph.Short(w.name+suffix))
		}
		w.states = append(w.states, name)
	}
	if o.Accumulate > 1 {
		if w.sum = p.state(w.name + sumSuffix); w.sum == "" {
			return fmt.Sprintf("expected a state %q", graph.Short(w.name+sumSuffix))
		}
	}
	d, listed := p.grads[w.name]
	if !listed {
		return ""
	}
	if o.ClipNorm > 0 && o.Accumulate == 1 {
		d = p.unscaled(d)
	}
	if o.LossScale != nil {
		d = p.unscaled(d)
	}
	if w.raw = d; d < 0 && p.Plan.Slices == nil { // what scales a gradient may run in slices, too
		return "gradient: expected a product with one number, found another node"
	}
	if o.dynamic() && d >= 0 {
		w.checked = p.checkedFor(d)
	}
	return ""
}

// state finds an updated input of a name, or of that name with a number, which no other parameter has.
func (p *prover) state(name string) string {
	for k := range 100 {
		try := name
		if k > 0 {
			try += "_" + strconv.Itoa(k+1)
		}
		if p.step.Updates[try] != "" && !p.known[try] {
			p.known[try] = true
			return try
		}
	}
	return ""
}

// unscaled is what a node multiplies by one number; none if no such node makes a tensor.
func (p *prover) unscaled(t graph.TensorID) graph.TensorID {
	for p.node(t, "Identity", 1) != nil {
		t = p.operand(t, "Identity")
	}
	n := p.node(t, "Mul", 2)
	if n == nil || slices.Contains(n.Inputs, graph.TensorID(none)) || len(p.g.Tensors[n.Inputs[1]].Type.Shape) > 0 {
		return none
	}
	return p.cast(n.Inputs[0])
}
