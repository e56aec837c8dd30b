package autodiff

import (
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
)

// optimizer computes the new value of a parameter from its gradient.
type optimizer struct {
	name      string
	constants map[string]float64
	states    []string // states of each parameter
	// update emits the new value of parameter w with gradient d, and the new
	// values of its states.
	update func(s *trainer, g *rateGroup, w, d ID, states []ID) (ID, []ID)
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

// describeUpdates is describe with the groups and with what happens to gradients before
// the updates.
func (s *trainer) describeUpdates() map[string]any {
	d := s.groups[len(s.groups)-1].optimizer.describe()
	if list := describeGroups(s.groups); list != nil {
		d["groups"] = list
	}
	if s.opt.ClipNorm > 0 {
		d["clip_norm"] = s.opt.ClipNorm
	}
	if s.opt.Accumulate > 1 {
		d["accumulate"] = s.opt.Accumulate
	}
	if l := s.opt.LossScale; l != nil {
		scale := map[string]any{"initial": l.Initial}
		if l.Dynamic {
			scale["growth"], scale["backoff"], scale["interval"] = l.Growth, l.Backoff, l.Interval
		}
		d["loss_scale"] = scale
	}
	return d
}

// update emits the updates of all parameters, each as soon as its gradient
// exists.
func (s *trainer) update() error {
	s.phase = phaseUpdate
	defer func() { s.of, s.scope = "", "" }()
	for _, g := range s.groups {
		if len(g.parameters) > 0 {
			g.rate = s.input(g.inputName(), graph.Float32, []int64{})
		}
	}
	s.scope, s.of = updatingScope+"/", updatingScope
	for _, g := range s.groups {
		if len(g.parameters) > 0 && s.updating != graph.None {
			g.rate = s.where(s.updating, g.rate, s.number(0))
		}
	}
	s.scope, s.of = "", ""
	if s.groups[0].optimizer.counts && len(s.parameters) > 0 {
		old, err := s.counter(stepName)
		if err != nil {
			return err
		}
		s.of, s.scope = stepName, stepName+"/"
		next := s.add(old, s.index(1))
		s.stepped = s.castTo(next, graph.Float64)
		if s.updating != graph.None {
			next = s.where(s.updating, next, old)
		}
		s.replace(old, next)
	}
	for i, w := range s.parameters {
		name, g, d := s.g.Tensors[w].Name, s.groupOf[w], s.reduced[i]
		s.of, s.scope = name, name+".update/"
		var states []ID
		for _, state := range g.optimizer.states {
			states = append(states, s.state(d, name+"."+state))
		}
		if s.updating != graph.None {
			d = s.where(s.updating, d, s.scalar(d, 0))
		}
		updated, newStates := g.optimizer.update(s, g, w, d, states)
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

// state adds a state of the shape and type of a gradient, initially zero.
func (s *trainer) state(d ID, name string) ID {
	typ := s.typeOf(d)
	t := s.newTensor(s.unique(name), typ, nil)
	x := &graph.Data{Name: name, Type: typ.Elem, Dims: s.shape(d)}
	x.Bytes, _ = typ.Elem.SizeBytes(elements(x.Dims))
	constant.Zero(x)
	s.g.Tensors[t].Data = x
	return t
}

// A run that does not update (Options.Accumulate, LossScale) computes all updates with a
// gradient, a learning rate and a decay of 0 and factors of 1: every parameter and state keeps its
// value, still in place. A Where between old and new values would need both: three
// temporaries for a parameter under Adam instead of one.

// updatingScope is the scope of what depends on whether a run updates.
const updatingScope = "updating"

// factor is a constant of the optimizer as a scalar of the type of like, or otherwise in a
// run that does not update.
func (s *trainer) factor(v, otherwise float64, like ID) ID {
	if s.updating == graph.None {
		return s.scalar(like, v)
	}
	key := [3]float64{v, otherwise, float64(s.typeOf(like).Elem)}
	t, ok := s.factors[key]
	if !ok {
		scope, of := s.scope, s.of
		s.scope, s.of = updatingScope+"/", updatingScope
		t = s.where(s.updating, s.scalar(like, v), s.scalar(like, otherwise))
		s.factors[key] = t
		s.scope, s.of = scope, of
	}
	return t
}

// Updates are computed in the type of the gradient: that of the parameter, or float32 if
// the loss is scaled, with the states of the optimizer.

// decay is the weight decay of a parameter; 0 if decay does not apply to it.
func (s *trainer) decay(g *rateGroup, w ID) float64 {
	if s.noDecay[w] && !g.decays {
		return 0
	}
	return g.optimizer.constants["weight_decay"]
}

// decayed is w·(1 - rate·decay). It can overwrite w and needs no temporary. In 16 bits
// the factor would be 1, so less decays.
func (s *trainer) decayed(g *rateGroup, w, d ID, decay float64) ID {
	if decay == 0 || s.typeOf(w).Elem != s.typeOf(d).Elem {
		return w
	}
	return s.mul(w, s.castLike(s.sub(s.number(1), s.times(g.rate, decay)), w))
}

// less is w - by, after decayed.
func (s *trainer) less(g *rateGroup, w, by ID, decay float64) ID {
	if s.typeOf(w).Elem != s.typeOf(by).Elem {
		if decay != 0 {
			by = s.add(by, s.mul(s.castLike(w, by), s.castLike(s.times(g.rate, decay), by)))
		}
		by = s.castLike(by, w)
	}
	return s.sub(w, by)
}

// sgd: w - rate·(d + decay·w).
func sgd(s *trainer, g *rateGroup, w, d ID, _ []ID) (ID, []ID) {
	decay := s.decay(g, w)
	w = s.decayed(g, w, d, decay)
	return s.less(g, w, s.mul(d, s.castLike(g.rate, d)), decay), nil
}

// momentum: m' = momentum·m + d + decay·w; w - rate·m' (PyTorch's form, without
// dampening). Decay is added last: by then d is no longer live.
func momentum(s *trainer, g *rateGroup, w, d ID, states []ID) (ID, []ID) {
	m := s.add(s.mul(states[0], s.factor(g.optimizer.constants["momentum"], 1, d)), d)
	if decay := s.decay(g, w); decay != 0 {
		m = s.add(m, s.mul(s.castLike(w, d), s.factor(decay, 0, d)))
	}
	return s.less(g, w, s.mul(m, s.castLike(g.rate, m)), 0), []ID{m}
}

// adam is Kingma & Ba 2015, algorithm 1, in PyTorch's form. adamw decouples the
// decay from the gradient (Loshchilov & Hutter 2019, algorithm 2). The second
// moment squares (1-beta1)·d, which the first moment has already computed,
// instead of d: then everything can overwrite d, and an update needs one
// temporary of the parameter's size instead of two.
func adam(s *trainer, g *rateGroup, w, d ID, states []ID) (ID, []ID) {
	c, decay := g.optimizer.constants, s.decay(g, w)
	from := w
	if g.optimizer.name == "adamw" {
		from = s.decayed(g, w, d, decay)
	} else if decay != 0 {
		d = s.add(d, s.mul(s.castLike(w, d), s.factor(decay, 0, d)))
		decay = 0
	}
	part := 1 - c["beta1"]
	d = s.times(d, part)
	m := s.add(s.mul(states[0], s.factor(c["beta1"], 1, d)), d)
	v := s.add(s.mul(states[1], s.factor(c["beta2"], 1, d)), s.times(s.mul(d, d), (1-c["beta2"])/(part*part)))
	rate, root := s.corrections(g)
	norm := s.plus(s.div(s.op("Sqrt", v), s.castLike(root, d)), c["epsilon"])
	return s.less(g, from, s.mul(s.div(m, norm), s.castLike(rate, d)), decay), []ID{m, v}
}

// corrections are rate/(1-beta1^t) and sqrt(1-beta2^t) for step t, in float32.
// They are computed once for a group, in float64: 1-beta2 has few significant digits in
// float32.
func (s *trainer) corrections(g *rateGroup) (rate, root ID) {
	if g.corrected[0] == graph.None {
		scope, of := s.scope, s.of
		s.scope, s.of = stepName+"/", stepName
		part := func(beta float64) ID {
			return s.sub(s.scalar(s.stepped, 1), s.op("Pow", s.scalar(s.stepped, beta), s.stepped))
		}
		g.corrected[0] = s.castTo(s.div(s.castLike(g.rate, s.stepped), part(g.optimizer.constants["beta1"])), graph.Float32)
		g.corrected[1] = s.castTo(s.op("Sqrt", part(g.optimizer.constants["beta2"])), graph.Float32)
		s.scope, s.of = scope, of
	}
	return g.corrected[0], g.corrected[1]
}
