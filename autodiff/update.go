package autodiff

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// optimizer computes the new value of a parameter from its gradient.
type optimizer struct {
	name      string
	constants map[string]float64
	states    []string // states of each parameter
	// update emits the new value of parameter w with gradient d, and the new
	// values of its states.
	update func(s *trainer, o *optimizer, w, d ID, states []ID) (ID, []ID)
	counts bool // it needs the number of the step
}

// optimizers are the values of Options.Optimizer. The defaults of their constants
// are PyTorch's.
var optimizers = []optimizer{
	{name: "sgd", constants: map[string]float64{"weight_decay": 0}, update: sgd},
	{name: "momentum", constants: map[string]float64{"momentum": 0.9, "weight_decay": 0}, states: []string{"momentum"}, update: momentum},
	{
		name: "adam", constants: map[string]float64{"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0},
		states: []string{"adam_m", "adam_v"}, update: adam, counts: true,
	},
	{
		name: "adamw", constants: map[string]float64{"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01},
		states: []string{"adam_m", "adam_v"}, update: adam, counts: true,
	},
}

// Optimizers returns the values of Options.Optimizer.
func Optimizers() []string {
	var names []string
	for _, o := range optimizers {
		names = append(names, o.name)
	}
	return names
}

// newOptimizer finds an optimizer and sets its constants.
func newOptimizer(name string, constants map[string]float64) (*optimizer, error) {
	if name == "" {
		name = "sgd"
	}
	for _, o := range optimizers {
		if o.name != name {
			continue
		}
		o.constants = maps.Clone(o.constants)
		for _, key := range slices.Sorted(maps.Keys(constants)) {
			if _, ok := o.constants[key]; !ok {
				return nil, optionf("optimizer %s has no constant %q: expected one of %s", name, key, strings.Join(slices.Sorted(maps.Keys(o.constants)), ", "))
			}
			v := constants[key]
			if beta := strings.HasPrefix(key, "beta"); !(v >= 0) || v > 1e6 || beta && v >= 1 {
				return nil, optionf("optimizer %s: %s is %g: expected 0 or more, and less than 1 for beta1 and beta2", name, key, v)
			}
			o.constants[key] = v
		}
		return &o, nil
	}
	return nil, optionf("optimizer %q: expected one of %s", name, strings.Join(Optimizers(), ", "))
}

// describe returns the optimizer in the form of the model's metadata.
func (o *optimizer) describe() map[string]any {
	d := map[string]any{"name": o.name}
	for k, v := range o.constants {
		d[k] = v
	}
	return d
}

// update emits the updates of all parameters, each as soon as its gradient
// exists.
func (s *trainer) update() error {
	s.phase = phaseUpdate
	defer func() { s.of, s.scope = "", "" }()
	s.rate = s.input(rateName, graph.Float32, []int64{})
	if s.optimizer.counts && len(s.parameters) > 0 {
		old := s.newTensor("", graph.TensorOf(graph.Int64), nil)
		s.g.Tensors[old].Data = &graph.Data{Type: graph.Int64, Raw: make([]byte, 8), Bytes: 8}
		if err := s.claimName(old, stepName); err != nil {
			return err
		}
		s.of, s.scope = stepName, stepName+"/"
		updated := s.add(old, s.index(1))
		s.stepped = s.castTo(updated, graph.Float64)
		s.replace(old, updated)
	}
	for i, w := range s.parameters {
		name := s.g.Tensors[w].Name
		s.of, s.scope = name, name+".update/"
		var states []ID
		for _, state := range s.optimizer.states {
			states = append(states, s.state(w, name+"."+state))
		}
		updated, newStates := s.optimizer.update(s, s.optimizer, w, s.grads[i], states)
		if s.err != nil {
			return s.err
		}
		for k, st := range states {
			s.replace(st, newStates[k])
		}
		s.replace(w, updated)
	}
	return nil
}

// replace records that updated is the new value of old.
func (s *trainer) replace(old, updated ID) {
	if s.err == nil {
		s.g.Tensors[updated].Name = s.unique(s.g.Tensors[old].Name + ".new")
		s.updates = append(s.updates, update{old, updated})
	}
}

// state adds a state of the shape and type of w, initially zero.
func (s *trainer) state(w ID, name string) ID {
	typ := s.typeOf(w)
	t := s.newTensor(s.unique(name), typ, nil)
	d := &graph.Data{Name: name, Type: typ.Elem, Dims: s.shape(w)}
	d.Bytes, _ = typ.Elem.SizeBytes(elements(d.Dims))
	d.Generate = func(out io.Writer) error { return writeZeros(out, d.Bytes) }
	s.g.Tensors[t].Data = d
	return t
}

// writeZeros writes n zero bytes.
func writeZeros(w io.Writer, n int64) error {
	block := make([]byte, min(n, 1<<16))
	for n > 0 {
		k, err := w.Write(block[:min(n, int64(len(block)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// rateFor is the learning rate in the element type of a parameter.
func (s *trainer) rateFor(w ID) ID { return s.castLike(s.rate, w) }

// decay is the weight decay of a parameter; 0 if decay does not apply to it.
func (s *trainer) decay(o *optimizer, w ID) float64 {
	if s.noDecay[w] && !s.opt.DecayAll {
		return 0
	}
	return o.constants["weight_decay"]
}

// decayed is w·(1 - rate·decay). It can overwrite w and needs no temporary.
func (s *trainer) decayed(o *optimizer, w ID) ID {
	decay := s.decay(o, w)
	if decay == 0 {
		return w
	}
	return s.mul(w, s.castLike(s.sub(s.number(1), s.times(s.rate, decay)), w))
}

// sgd: w - rate·(d + decay·w).
func sgd(s *trainer, o *optimizer, w, d ID, _ []ID) (ID, []ID) {
	return s.sub(s.decayed(o, w), s.mul(d, s.rateFor(w))), nil
}

// momentum: m' = momentum·m + d + decay·w; w - rate·m' (PyTorch's form, without
// dampening). Decay is added last: by then d is no longer live.
func momentum(s *trainer, o *optimizer, w, d ID, states []ID) (ID, []ID) {
	m := s.add(s.times(states[0], o.constants["momentum"]), d)
	if decay := s.decay(o, w); decay != 0 {
		m = s.add(m, s.times(w, decay))
	}
	return s.sub(w, s.mul(m, s.rateFor(w))), []ID{m}
}

// adam is Kingma & Ba 2015, algorithm 1, in PyTorch's form. adamw decouples the
// decay from the gradient (Loshchilov & Hutter 2019, algorithm 2). The second
// moment squares (1-beta1)·d, which the first moment has already computed,
// instead of d: then everything can overwrite d, and an update needs one
// temporary of the parameter's size instead of two.
func adam(s *trainer, o *optimizer, w, d ID, states []ID) (ID, []ID) {
	c := o.constants
	from := w
	if o.name == "adamw" {
		from = s.decayed(o, w)
	} else if decay := s.decay(o, w); decay != 0 {
		d = s.add(d, s.times(w, decay))
	}
	part := 1 - c["beta1"]
	d = s.times(d, part)
	m := s.add(s.times(states[0], c["beta1"]), d)
	v := s.add(s.times(states[1], c["beta2"]), s.times(s.mul(d, d), (1-c["beta2"])/(part*part)))
	rate, root := s.corrections(o)
	norm := s.plus(s.div(s.op("Sqrt", v), s.castLike(root, w)), c["epsilon"])
	return s.sub(from, s.mul(s.div(m, norm), s.castLike(rate, w))), []ID{m, v}
}

// corrections are rate/(1-beta1^t) and sqrt(1-beta2^t) for step t, in float32.
// They are computed once, in float64: 1-beta2 has few significant digits in
// float32.
func (s *trainer) corrections(o *optimizer) (rate, root ID) {
	if s.corrected[0] == graph.None {
		scope, of := s.scope, s.of
		s.scope, s.of = stepName+"/", stepName
		part := func(beta float64) ID {
			return s.sub(s.scalar(s.stepped, 1), s.op("Pow", s.scalar(s.stepped, beta), s.stepped))
		}
		s.corrected[0] = s.castTo(s.div(s.castLike(s.rate, s.stepped), part(o.constants["beta1"])), graph.Float32)
		s.corrected[1] = s.castTo(s.op("Sqrt", part(o.constants["beta2"])), graph.Float32)
		s.scope, s.of = scope, of
	}
	return s.corrected[0], s.corrected[1]
}
