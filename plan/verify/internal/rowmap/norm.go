package rowmap

func init() {
	register(softmax, "Softmax", "LogSoftmax", "Hardmax")
	register(but("axis", -1), "LpNormalization", "TopK")
	register(but("axis", 0), "Split")
	register(batchNorm, "BatchNormalization")
	register(instanceNorm, "InstanceNormalization")
	register(layerNorm, "LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization")
	register(groupNorm, "GroupNormalization")
	register(meanVariance, "MeanVarianceNormalization")
	register(lrn, "LRN")
	register(cumulate, "CumSum", "CumProd")
	register(trilu, "Trilu")
}

// drop takes the letter from an axis of the first input and of all outputs.
func drop(s *sheet, axis int) {
	for _, list := range append([][]letter{s.in[0]}, s.out...) {
		if axis < len(list) {
			list[axis] = 0
		}
	}
}

// but describes operators that are like input 0, and mix the rows of one axis.
func but(name string, otherwise int64) func(n *Node, s *sheet) bool {
	return func(n *Node, s *sheet) bool {
		axis := n.axis(name, otherwise, len(s.in[0]))
		if axis == Whole || !likeFirst(n, s) {
			return false
		}
		drop(s, axis)
		return true
	}
}

// softmax: before version 13, all axes from axis on.
func softmax(n *Node, s *sheet) bool {
	if n.Version >= 13 {
		return but("axis", -1)(n, s)
	}
	axis := n.integer("axis", 1)
	if axis < 0 {
		axis += int64(len(s.in[0]))
	}
	if axis < 0 || !likeFirst(n, s) {
		return false
	}
	for k := int(min(axis, int64(len(s.in[0])))); k < len(s.in[0]); k++ {
		drop(s, k)
	}
	return true
}

// only takes the letters from all axes of input 0 and output 0 but one.
func only(s *sheet, axis int) {
	for k := range s.in[0] {
		if k != axis {
			s.in[0][k], s.out[0][k] = 0, 0
		}
	}
}

// batchNorm: in training, statistics mix all axes but that of the channels.
func batchNorm(n *Node, s *sheet) bool {
	training := n.Version >= 14 && n.integer("training_mode", 0) != 0
	if n.Version < 7 || n.Version < 9 && n.integer("spatial", 1) == 0 || !likeFirst(n, s) {
		return false
	}
	for k := 1; k < len(n.Out); k++ {
		clear(s.out[k])
		if n.made(k) && !training {
			return false
		}
	}
	if len(s.in[0]) < 2 { // one channel, whose statistics mix the only axis
		return !training
	}
	if training {
		only(s, 1)
	}
	l := s.in[0][1]
	for i := 1; i < len(s.in); i++ {
		s.in[i] = []letter{l}
	}
	for k := 1; k < len(s.out); k++ {
		if n.made(k) {
			s.out[k] = []letter{l}
		}
	}
	return true
}

// instanceNorm: statistics of each channel of each image.
func instanceNorm(n *Node, s *sheet) bool {
	if !n.imageLetters(s) || len(s.in) < 3 {
		return false
	}
	s.in[1], s.in[2] = []letter{channels}, []letter{channels}
	return true
}

// layerNorm: the axes from axis on are mixed.
func layerNorm(n *Node, s *sheet) bool {
	axis := n.axis("axis", -1, len(s.in[0]))
	if axis == Whole || !likeFirst(n, s) {
		return false
	}
	for k := axis; k < len(s.in[0]); k++ {
		drop(s, k)
	}
	for i := 1; i < len(n.In); i++ {
		aligned(n, s, i, s.in[0])
	}
	return true
}

// groupNorm: whole groups of channels.
func groupNorm(n *Node, s *sheet) bool {
	groups := n.integer("num_groups", 0)
	if !n.imageLetters(s) || len(s.in) < 3 || groups < 1 || n.length(0, 1)%groups != 0 {
		return false
	}
	width := n.length(0, 1) / groups
	n.groups(s, "num_groups", width, place{0, 1}, width)
	for i := 1; i < 3; i++ {
		if len(s.in[i]) != 1 || n.length(i, 0)%groups != 0 {
			return false
		}
		s.in[i][0] = channels
		s.rows[place{i, 0}] = Rows{Mul: n.length(i, 0) / groups, Div: width}
	}
	return true
}

// meanVariance mixes the listed axes.
func meanVariance(n *Node, s *sheet) bool {
	if !likeFirst(n, s) {
		return false
	}
	axes := []int64{0, 2, 3}
	if a := n.Attr("axes"); a != nil {
		axes = a.Ints
	}
	for _, a := range axes {
		k := axisOf(a, len(s.in[0]))
		if k == Whole {
			return false
		}
		drop(s, k)
	}
	return true
}

// lrn mixes channels.
func lrn(n *Node, s *sheet) bool {
	if !likeFirst(n, s) {
		return false
	}
	drop(s, 1)
	return true
}

// cumulate goes along an axis that is an input.
func cumulate(n *Node, s *sheet) bool {
	if !n.has(1) || !n.In[1].Known || len(n.In[1].Ints) != 1 || !likeFirst(n, s) {
		return false
	}
	axis := axisOf(n.In[1].Ints[0], len(s.in[0]))
	if axis == Whole {
		return false
	}
	drop(s, axis)
	return true
}

// trilu works on matrices.
func trilu(n *Node, s *sheet) bool {
	if len(s.in[0]) < 2 || !likeFirst(n, s) {
		return false
	}
	drop(s, len(s.in[0])-1)
	drop(s, len(s.in[0])-2)
	return true
}
