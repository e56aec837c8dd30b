package autodiff

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// LossScale multiplies the loss before differentiation, so that small gradients of
// 16-bit types do not become 0, and divides the gradients again, in float32.
//
// A dynamic scale is that of torch.amp.GradScaler: a state of the step. If a gradient is
// infinite or not a number, no parameter and no state of the optimizer changes, and the scale is
// multiplied by Backoff; after Interval updates in a row it is multiplied by Growth.
type LossScale struct {
	Initial         float64 // of a fixed scale: its value
	Dynamic         bool
	Growth, Backoff float64
	Interval        int64
}

// DynamicScale is a dynamic scale with the constants of torch.amp.GradScaler.
func DynamicScale() *LossScale {
	return &LossScale{Initial: 65536, Dynamic: true, Growth: 2, Backoff: 0.5, Interval: 2000}
}

const (
	scaleName       = "loss_scale"
	scaleStepsName  = "loss_scale.steps"
	largestFloat32  = math.MaxFloat32
	smallestFloat32 = 0x1p-126
)

// check refuses constants with which the scale makes no sense.
func (l *LossScale) check() error {
	switch {
	case l == nil:
	case !(l.Initial >= smallestFloat32 && l.Initial <= 0x1p126):
		return optionf("loss scale %g: expected a number above 0 and its reciprocal in float32", l.Initial)
	case l.Dynamic && !(l.Growth >= 1 && l.Growth <= 0x1p20):
		return optionf("loss scale: growth is %g: expected 1 or more", l.Growth)
	case l.Dynamic && !(l.Backoff > 0 && l.Backoff < 1):
		return optionf("loss scale: backoff is %g: expected more than 0 and less than 1", l.Backoff)
	case l.Dynamic && l.Interval < 1:
		return optionf("loss scale: interval is %d: expected 1 or more", l.Interval)
	}
	return nil
}

// widened converts a 16-bit tensor to float32 if the loss is scaled: the loss itself is
// computed in float32, as under PyTorch's autocast.
func (s *trainer) widened(t ID) ID {
	if s.opt.LossScale == nil || s.typeOf(t).Elem.Bits() >= 32 {
		return t
	}
	return s.castTo(t, graph.Float32)
}

// seed is the gradient of what is differentiated: 1, times the loss scale, divided by
// the number of runs of an update.
func (s *trainer) seed() (ID, error) {
	of := 1.0
	if n := s.opt.Accumulate; n > 1 {
		of = 1 / float64(n)
	}
	l := s.opt.LossScale
	if l == nil {
		return s.reals(s.typeOf(s.loss).Elem, nil, []float64{of}), nil
	}
	s.scale = s.number(l.Initial)
	if l.Dynamic {
		s.scale = s.newTensor("", graph.TensorOf(graph.Float32), nil)
		raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(l.Initial)))
		s.g.Tensors[s.scale].Data = &graph.Data{Type: graph.Float32, Raw: raw, Bytes: 4}
		if err := s.claimName(s.scale, scaleName); err != nil {
			return graph.None, err
		}
	}
	s.of, s.scope = scaleName, scaleName+"/"
	defer func() { s.of, s.scope = "", "" }()
	s.unscale = s.number(1 / l.Initial)
	if l.Dynamic {
		s.unscale = s.div(s.number(1), s.scale)
	}
	if of == 1 {
		return s.scale, nil
	}
	if !l.Dynamic {
		return s.number(l.Initial * of), nil
	}
	return s.times(s.scale, of), nil
}

// unscaled divides a gradient by the loss scale. One of 16 bits becomes float32.
func (s *trainer) unscaled(d ID) ID {
	if s.unscale == graph.None {
		return d
	}
	d = s.widened(d)
	d = s.mul(d, s.castLike(s.unscale, d))
	s.unnamed[d] = true
	return d
}

// magnitude is a number that is finite if all elements of a tensor are. Of float16 it is their mean, which is
// no larger than the largest of them: their magnitudes would be widened to be added.
func (s *trainer) magnitude(t ID) ID {
	if s.typeOf(t).Elem == graph.Float16 {
		return s.castTo(s.op("Abs", s.reduce("ReduceMean", t, axes(0, s.rank(t)), false)), graph.Float32)
	}
	return s.reduce("ReduceL1", s.castTo(t, graph.Float32), axes(0, s.rank(t)), false)
}

// halfOf is the 16-bit tensor that was widened to a gradient, and, if scaled, then divided by the loss
// scale; graph.None if there is none.
func (s *trainer) halfOf(d ID) (half ID, scaled bool) {
	n := s.makers[d]
	if n != nil && ops.Copies(n) { // it names the gradient
		n = s.makers[n.Inputs[0]]
	}
	if !s.saves(savingCast) || n == nil {
		return graph.None, false
	}
	if scaled = s.unscale != graph.None && slices.Contains(n.Inputs, s.unscale); scaled {
		n = s.makers[n.Inputs[0]]
	}
	if n != nil && ops.Casts(n) && is16Bits(s.typeOf(n.Inputs[0]).Elem) {
		return n.Inputs[0], scaled
	}
	return graph.None, false
}

// widenedTwice is a gradient, made once more from 16 bits if it was widened from them: while it waits for
// the norm of all, which reads it first, these are kept in its place. Gradients that are results are
// kept anyway.
func (s *trainer) widenedTwice(d ID) ID {
	half, scaled := s.halfOf(d)
	if half == graph.None || s.opt.KeepGradients {
		return d
	}
	again := s.castTo(half, s.typeOf(d).Elem)
	if scaled {
		again = s.mul(again, s.castLike(s.unscale, again))
	}
	return again
}

// decide finds out whether this run updates: it is an n-th one, and all gradients are
// finite. The sum of all magnitudes is finite if they are, unless it is above the
// largest float32 itself.
func (s *trainer) decide() error {
	s.updating = s.due
	l := s.opt.LossScale
	if l == nil || !l.Dynamic || len(s.reduced) == 0 {
		return nil
	}
	checks := make([][]ID, len(s.reduced))
	for i, d := range s.reduced {
		checks[i] = s.checks(d)
	}
	s.repeatGradients(checks)
	s.phase, s.of, s.scope = phaseBackward, scaleName, scaleName+"/"
	defer func() { s.of, s.scope = "", "" }()
	total := ID(graph.None)
	for _, t := range slices.Concat(checks...) {
		sum := s.magnitude(t)
		if total == graph.None {
			total = sum
		} else {
			total = s.add(total, sum)
		}
	}
	finite := s.op("LessOrEqual", total, s.number(largestFloat32)) // false for what is no number
	steps, err := s.counter(scaleStepsName)
	if err != nil {
		return err
	}
	s.phase = phaseUpdate
	full := s.op("And", finite, s.op("Equal", steps, s.index(l.Interval-1)))
	grows := s.op("And", full, s.op("LessOrEqual", s.scale, s.number(largestFloat32/l.Growth)))
	factor := s.where(finite, s.where(grows, s.number(l.Growth), s.number(1)), s.number(l.Backoff))
	next := s.where(s.op("And", finite, s.op("Not", full)), s.add(steps, s.index(1)), s.index(0))
	s.updating = finite
	if s.due != graph.None {
		s.updating = s.op("And", finite, s.due)
		factor = s.where(s.due, factor, s.number(1))
		next = s.where(s.due, next, steps)
	}
	s.replace(s.scale, s.mul(s.scale, factor))
	s.replace(steps, next)
	return nil
}
