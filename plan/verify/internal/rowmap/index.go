package rowmap

func init() {
	register(gather, "Gather")
	register(gatherElements, "GatherElements")
	register(gatherND, "GatherND")
	register(oneHot, "OneHot")
	register(scatterElements, "Scatter", "ScatterElements")
	register(scatterND, "ScatterND")
	register(tensorScatter, "TensorScatter")
}

// gather: the axes of the indices stand in the place of the data's axis.
func gather(n *Node, s *sheet) bool {
	if len(n.In) != 2 {
		return false
	}
	along := n.axis("axis", 0, len(s.in[0]))
	if along == Whole || len(s.out[0]) != len(s.in[0])-1+len(s.in[1]) {
		return false
	}
	each(s.out[0], 1)
	copy(s.in[0], s.out[0][:along])
	copy(s.in[1], s.out[0][along:])
	copy(s.in[0][along+1:], s.out[0][along+len(s.in[1]):])
	return true
}

// gatherElements: each index stands at its element's place, but along one axis.
func gatherElements(n *Node, s *sheet) bool {
	if len(n.In) != 2 || len(s.in[0]) != len(s.in[1]) {
		return false
	}
	along := n.axis("axis", 0, len(s.in[0]))
	if along == Whole || len(s.out[0]) != len(s.in[1]) {
		return false
	}
	each(s.out[0], 1)
	each(s.in[0], 1)
	each(s.in[1], 1)
	s.in[0][along] = 0
	return true
}

// gatherND: batches, then the axes of the tuples, then those of the data behind what a
// tuple selects.
func gatherND(n *Node, s *sheet) bool {
	if len(n.In) != 2 || len(s.in[1]) == 0 {
		return false
	}
	batch, last := n.integer("batch_dims", 0), len(s.in[1])-1
	tuple := n.length(1, last)
	behind := batch + tuple
	if batch < 0 || batch > int64(last) || tuple < 0 || tuple > int64(len(s.in[0])) || behind > int64(len(s.in[0])) || len(s.out[0]) != last+len(s.in[0])-int(behind) {
		return false
	}
	each(s.out[0], 1)
	copy(s.in[1][:last], s.out[0])
	copy(s.in[0][:batch], s.out[0])
	copy(s.in[0][behind:], s.out[0][last:])
	return true
}

// oneHot: the axes of the indices.
func oneHot(n *Node, s *sheet) bool {
	along := n.axis("axis", -1, len(s.out[0]))
	if along == Whole || len(s.in[0])+1 != len(s.out[0]) {
		return false
	}
	each(s.in[0], 1)
	copy(s.out[0], s.in[0][:along])
	copy(s.out[0][along+1:], s.in[0][along:])
	return true
}

// scatterElements: the axes along which the indices are as long as the data.
func scatterElements(n *Node, s *sheet) bool {
	rank := len(s.in[0])
	along := n.axis("axis", 0, rank)
	if along == Whole || len(s.in) != 3 || len(s.in[1]) != rank || len(s.in[2]) != rank || !likeFirst(n, s) {
		return false
	}
	each(s.in[1], 1)
	each(s.in[2], 1)
	for k := range rank {
		if k == along || n.length(1, k) != n.length(0, k) {
			s.in[0][k], s.in[1][k], s.in[2][k], s.out[0][k] = 0, 0, 0, 0
		}
	}
	return true
}

// scatterND: the axes of what a tuple selects.
func scatterND(n *Node, s *sheet) bool {
	rank := len(s.in[0])
	if len(s.in) != 3 || len(s.in[1]) == 0 || !likeFirst(n, s) {
		return false
	}
	last := len(s.in[1]) - 1
	tuple := n.length(1, last)
	if tuple < 0 || tuple > int64(rank) || len(s.in[2]) != last+rank-int(tuple) {
		return false
	}
	for k := range int(tuple) {
		drop(s, k)
	}
	copy(s.in[2][last:], s.in[0][tuple:])
	return true
}

// tensorScatter: any axis but that of the sequence. Each image has an index of its own.
func tensorScatter(n *Node, s *sheet) bool {
	along := n.axis("axis", -2, len(s.in[0]))
	if along == Whole || len(s.in) < 2 || len(s.in[1]) != len(s.in[0]) || !likeFirst(n, s) {
		return false
	}
	each(s.in[1], 1)
	s.in[1][along] = 0
	drop(s, along)
	if n.has(2) && len(s.in[2]) == 1 {
		s.in[2][0] = s.in[0][0]
	}
	return true
}
