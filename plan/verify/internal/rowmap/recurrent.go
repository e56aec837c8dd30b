package rowmap

func init() {
	register(recurrent, "RNN", "GRU", "LSTM")
}

// recurrent: sequences of a batch do not depend on each other. Weights, biases and
// peepholes are read whole.
//
//	X [s b .]  lengths [b]  states [. b .]  ->  Y [s . b .]  Y_h, Y_c [. b .]
//	X [b s .]  lengths [b]  states [b . .]  ->  Y [b s . .]  Y_h, Y_c [b . .]   with layout 1
func recurrent(n *Node, s *sheet) bool {
	const batch letter = 1
	x, y, state := []letter{0, batch, 0}, []letter{0, 0, batch, 0}, []letter{0, batch, 0}
	if n.integer("layout", 0) != 0 {
		x, y, state = []letter{batch, 0, 0}, []letter{batch, 0, 0, 0}, []letter{batch, 0, 0}
	}
	s.in[0], s.out[0] = x, y
	if n.has(4) {
		s.in[4] = []letter{batch}
	}
	for i := 5; i < 7; i++ {
		if n.has(i) {
			s.in[i] = state
		}
	}
	for k := 1; k < len(s.out); k++ {
		s.out[k] = state
	}
	return true
}
