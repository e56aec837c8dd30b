package rowmap

func init() {
	register(attention, "Attention")
	register(rotaryEmbedding, "RotaryEmbedding")
}

// The letters of attention. Keys and values belong to all queries.
const (
	batches letter = 1
	heads   letter = 2
	queries letter = 3
)

// attention: [batch heads queries size] [batch keyheads keys size] [batch keyheads keys size], or
// each of [batch places heads·size]. The mask, input 3, broadcasts to [batch heads queries keys].
// Several heads may share one of the keys. Where the place of a query decides which keys it sees,
// or where keys of before and the scores are outputs, too, only the batch has copies.
func attention(n *Node, s *sheet) bool {
	rank := len(s.out[0])
	for i := range 3 {
		if !n.has(i) || len(s.in[i]) != rank {
			return false
		}
	}
	together := []letter{batches, heads, queries, 0}
	if rank == 3 {
		together = []letter{batches, 0, queries, 0}
	}
	for k := range n.Out {
		if k > 0 && n.made(k) {
			together[1], together[2] = 0, 0
			s.out[k][0] = batches
		}
	}
	if n.integer("is_causal", 0) != 0 || n.integer("left_window_size", -1) >= 0 || n.integer("right_window_size", -1) >= 0 {
		together[2] = 0
	}
	for _, i := range []int{1, 2, 4, 5, 6} {
		if n.has(i) && len(s.in[i]) > 0 {
			s.in[i][0] = batches
		}
	}
	if rank == 4 && together[1] != 0 {
		if keys := n.length(1, 1); keys == 0 || n.length(0, 1)%keys != 0 {
			together[1] = 0
		} else {
			for _, i := range []int{1, 2, 4, 5} {
				if n.has(i) {
					s.in[i][1], s.rows[place{i, 1}] = heads, Rows{Mul: 1, Div: n.length(0, 1) / keys}
				}
			}
		}
	}
	aligned(n, s, 3, together)
	if rank == 3 {
		s.out[0][0], s.out[0][1] = batches, together[2]
	} else {
		copy(s.out[0], together)
	}
	copy(s.in[0], s.out[0])
	return true
}

// rotaryEmbedding: [batch heads places size] or [batch places heads·size]. The angles are those of
// each batch and place, or of positions, input 3, which each batch and place has.
func rotaryEmbedding(n *Node, s *sheet) bool {
	rank := len(s.out[0])
	if len(s.in[0]) != rank || rank < 3 {
		return false
	}
	s.out[0][0], s.out[0][rank-2] = batches, queries
	if rank == 4 {
		s.out[0][1] = heads
	}
	copy(s.in[0], s.out[0])
	of := []int{1, 2}
	if n.has(3) {
		of = []int{3}
	}
	for _, i := range of {
		if !n.has(i) || len(s.in[i]) < 2 {
			return false
		}
		s.in[i][0], s.in[i][1] = batches, queries
	}
	return true
}
