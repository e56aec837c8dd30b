package autodiff

import "github.com/onnxmem/onnxmem/graph"

// clip scales all gradients so that their common norm is at most Options.ClipNorm, as
// torch.nn.utils.clip_grad_norm_ does.
func (s *trainer) clip() error {
	if s.opt.ClipNorm == 0 || len(s.reduced) == 0 {
		return nil
	}
	s.phase, s.scope = phaseBackward, "clip/"
	defer func() { s.scope = "" }()
	total := ID(graph.None)
	for _, d := range s.reduced {
		d = s.castTo(d, graph.Float32) // squares of 16 bits soon are 0 or infinite
		sum := s.reduce("ReduceSumSquare", d, axes(0, s.rank(d)), false)
		if total == graph.None {
			total = sum
		} else {
			total = s.add(total, sum)
		}
	}
	scale := s.op("Min", s.div(s.number(s.opt.ClipNorm), s.plus(s.op("Sqrt", total), 1e-6)), s.number(1))
	for i, d := range s.reduced {
		again := s.widenedTwice(d)
		s.reduced[i] = s.mul(again, s.castLike(scale, again))
		if d != s.grads[i] { // a sum over runs
			continue
		}
		name := s.g.Tensors[d].Name
		s.grads[i] = s.reduced[i]
		s.g.Tensors[d].Name = s.unique(name + ".unclipped")
		if s.err == nil {
			s.g.Tensors[s.grads[i]].Name = name
		}
	}
	return nil
}
