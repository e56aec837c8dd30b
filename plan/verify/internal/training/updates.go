package training

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// updates computes all updates twice for some values: by their formulas, and by the nodes of the step.
func (p *prover) updates() (string, error) {
	o, of, wrong := p.readOptimizer()
	if wrong != "" {
		return wrong, nil
	}
	list, wrong := p.parameters(o, of)
	if wrong != "" {
		return wrong, nil
	}
	p.optimizer = o.Name
	// A gradient that is a constant is not listed, nor known: what sums up all gradients then is not.
	if slices.ContainsFunc(list, func(w *parameter) bool { return w.raw < 0 }) && (o.ClipNorm > 0 || o.dynamic()) {
		p.claimed["updates"] = true
		return "", nil
	}
	// Whether a parameter's weights decay, the file does not say: each is held to one of both.
	decays := make([][2]bool, len(list))
	for k := range decays {
		decays[k] = [2]bool{true, true}
	}
	for k, at := range points(o) {
		s := &sample{p: p, o: o, list: list, point: at, values: uniform{p, map[graph.TensorID]float64{}}, in: map[string]float64{}}
		s.draw(rand.New(rand.NewPCG(uint64(k), 1)))
		s.decide()
		if wrong := s.compare(decays); wrong != "" {
			return wrong, nil
		}
	}
	for _, w := range list {
		if !p.claimed[updateOf(w.name)] {
			p.updated++
		}
	}
	return "", nil
}

// point is a state of the counters, and whether gradients are finite.
type point struct {
	micro, steps float64
	infinite     bool
}

// points are those at which updates are compared: between them, each branch is taken.
func points(o *optimizer) (list []point) {
	n := float64(o.Accumulate)
	for _, k := range []float64{0, math.Floor(n / 2), n - 1} {
		if !o.dynamic() {
			list = append(list, point{micro: k})
			continue
		}
		for _, steps := range []float64{0, float64(o.LossScale.Interval - 1)} {
			list = append(list, point{k, steps, false}, point{k, steps, true})
		}
	}
	return list
}

// sample are the updates at one point, from random values.
type sample struct {
	p    *prover
	o    *optimizer
	list []*parameter
	point
	values uniform            // of the step's tensors
	in     map[string]float64 // inputs
	raw    []float64          // gradients, as they flow
	d      []float64          // the same, as they update

	updating bool
	want     map[string]float64 // next values, but those of parameters and of states of the optimizer
}

// draw draws the inputs and the gradients.
func (s *sample) draw(r *rand.Rand) {
	set := func(name string, v float64) {
		if t, there := s.p.byName[name]; there {
			s.values.values[t], s.in[name] = v, v
		}
	}
	for _, name := range sorted(s.p.step.Updates) {
		set(name, 0.5+r.Float64())
	}
	for _, t := range s.p.g.Inputs {
		if name := s.p.g.Tensors[t].Name; s.p.step.Updates[name] == "" && s.p.ofUpdates(name) {
			set(name, 0.25+r.Float64()/2)
		}
	}
	set(stepName, float64(r.IntN(8)))
	set(microName, s.micro)
	if s.o.dynamic() {
		set(scaleName, math.Ldexp(1, r.IntN(4)))
		set(scaleSteps, s.steps)
	}
	at := map[graph.TensorID]float64{} // two parameters may have one gradient
	for _, w := range s.list {
		d, drawn := at[w.raw]
		if !drawn {
			d = (0.5 + r.Float64()) * float64(1-2*r.IntN(2))
			if s.infinite {
				d = math.Inf(1)
			}
		}
		if w.raw >= 0 {
			at[w.raw], s.values.values[w.raw] = d, d
		}
		for _, t := range w.checked {
			s.values.values[t] = d
		}
		s.raw = append(s.raw, d)
	}
}

// decide computes what all parameters share: sums of gradients, whether this run updates, the scales.
func (s *sample) decide() {
	n := float64(s.o.Accumulate)
	s.want = map[string]float64{}
	due := s.micro == n-1
	factor := 1.0
	if l := s.o.LossScale; l != nil {
		factor = 1 / l.Initial
		if s.o.dynamic() {
			factor = 1 / s.in[scaleName]
		}
	}
	magnitudes, squares := 0.0, 0.0
	for k, w := range s.list {
		d := s.raw[k] * factor
		if n > 1 {
			if s.micro > 0 {
				d += s.in[w.sum]
			}
			if w.raw >= 0 {
				s.want[w.sum] = d
			}
		}
		s.d = append(s.d, d)
		magnitudes += float64(w.count) * math.Abs(d)
		squares += float64(w.count) * d * d
	}
	s.updating = due
	if n > 1 {
		s.want[microName] = s.micro + 1
		if due {
			s.want[microName] = 0
		}
	}
	if s.o.dynamic() {
		s.scale(magnitudes <= math.MaxFloat32, due)
	}
	if clip := s.o.ClipNorm; clip > 0 {
		for k := range s.d {
			s.d[k] *= math.Min(clip/(math.Sqrt(squares)+1e-6), 1)
		}
	}
	if s.o.counts() {
		s.want[stepName] = s.in[stepName] + truth(s.updating)
	}
}

// scale computes the next scale of the loss, as torch.amp.GradScaler does.
func (s *sample) scale(finite, due bool) {
	l, steps, factor := s.o.LossScale, 0.0, 1.0
	switch {
	case !finite:
		factor = l.Backoff
	case s.steps == float64(l.Interval-1):
		factor = l.Growth
	default:
		steps = s.steps + 1
	}
	if !due {
		steps, factor = s.steps, 1
	}
	s.updating = finite && due
	s.want[scaleName], s.want[scaleSteps] = s.in[scaleName]*factor, steps
}

// compare says which next value of the step is not that of the formulas, "" if all are.
func (s *sample) compare(decays [][2]bool) string {
	for _, name := range slices.Sorted(maps.Keys(s.want)) {
		if wrong := s.differs(name, s.want[name], 1e-5); wrong != "" {
			return wrong
		}
	}
	for k, w := range s.list {
		if w.raw < 0 {
			s.p.claimed[updateOf(w.name)] = true
			continue
		}
		wrong := ""
		for i, decay := range []float64{w.Decay, 0} {
			if x := s.parameter(k, decay); x != "" {
				decays[k][i] = false
				if wrong == "" {
					wrong = x
				}
			}
		}
		if decays[k] == [2]bool{} && s.p.Plan.Slices != nil && s.p.slicedUpdate(w.name) {
			s.p.claimed[updateOf(w.name)] = true
			decays[k] = [2]bool{true, true}
		}
		if decays[k] == [2]bool{} {
			return fmt.Sprintf("%s is not %s: %s", updateOf(w.name), s.o.Name, wrong)
		}
	}
	return ""
}

func updateOf(name string) string { return fmt.Sprintf("update of %q", graph.Short(name)) }

// slicedUpdate reports whether some node of the update of a parameter runs in slices.
func (p *prover) slicedUpdate(name string) bool {
	for i, needed := range p.ancestors([]graph.TensorID{p.byName[p.step.Updates[name]]}) {
		if of, _ := p.g.Nodes[i].Prop("onnxmem.of"); needed && of == name && p.isSliced(p.g.Nodes[i]) {
			return true
		}
	}
	return false
}

// parameter compares a parameter and its states.
func (s *sample) parameter(k int, decay float64) string {
	w := s.list[k]
	tolerance := 1e-5
	if w.narrow { // the constants of the optimizer are rounded
		tolerance = 0.02
	}
	next, kept := s.in[w.name], []float64(nil)
	for _, name := range w.states {
		kept = append(kept, s.in[name])
	}
	if s.updating {
		next, kept = s.update(w, s.in[w.name], s.d[k], kept, decay)
	}
	for i, name := range w.states {
		if wrong := s.differs(name, kept[i], tolerance); wrong != "" {
			return wrong
		}
	}
	return s.differs(w.name, next, tolerance)
}

// update is one update of a parameter v with gradient d, and of its states.
func (s *sample) update(w *parameter, v, d float64, kept []float64, decay float64) (float64, []float64) {
	r := s.in[w.Rate]
	switch s.o.Name {
	case "sgd": // w - rate·(d + decay·w)
		return v - r*(d+decay*v), nil
	case "momentum": // PyTorch's form
		m := w.Keep*kept[0] + d + decay*v
		return v - r*m, []float64{m}
	}
	// Kingma & Ba 2015, algorithm 1; adamw: Loshchilov & Hutter 2019, algorithm 2.
	from, t := v, s.in[stepName]+1
	if s.o.Name == "adamw" {
		from -= r * decay * v
	} else {
		d += decay * v
	}
	m := w.Beta1*kept[0] + (1-w.Beta1)*d
	n := w.Beta2*kept[1] + (1-w.Beta2)*d*d
	first, second := m/(1-math.Pow(w.Beta1, t)), n/(1-math.Pow(w.Beta2, t))
	return from - r*first/(math.Sqrt(second)+w.Epsilon), []float64{m, n}
}

// differs says how the next value of an input differs from a number.
func (s *sample) differs(name string, want, tolerance float64) string {
	to := s.p.step.Updates[name]
	got, err := s.values.value(s.p.byName[to])
	switch {
	case err != nil:
		return err.Error()
	case got == want, finite(want) && math.Abs(got-want) <= tolerance*(math.Abs(want)+0.01):
		return ""
	}
	return fmt.Sprintf("expected %q to be %g for some values, found %g", graph.Short(to), want, got)
}
