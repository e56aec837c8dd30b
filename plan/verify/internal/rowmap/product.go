package rowmap

func init() {
	register(matMul, "MatMul")
	register(gemm, "Gemm")
}

// matMul: [b m k] [b k n] -> [b m n].
func matMul(n *Node, s *sheet) bool {
	if len(n.In) != 2 || len(n.In[0].Shape) < 2 || len(n.In[1].Shape) < 2 {
		return false
	}
	each(s.out[0], 1)
	rank, x, y := len(s.out[0]), len(s.in[0]), len(s.in[1])
	aligned(n, s, 0, s.out[0])
	aligned(n, s, 1, s.out[0])
	k := letter(rank + 1)
	s.in[0][x-2], s.in[0][x-1] = s.out[0][rank-2], k
	s.in[1][y-2], s.in[1][y-1] = k, s.out[0][rank-1]
	s.sum = &adder{Sum{By: "Add"}, map[letter]bool{k: true}}
	return true
}

// gemm: [m k] [k n] [m n] -> [m n]. Copies that each read some of k would each add a
// third input.
func gemm(n *Node, s *sheet) bool {
	if len(n.In) < 2 || len(n.In[0].Shape) != 2 || len(n.In[1].Shape) != 2 {
		return false
	}
	const rows, columns, inner letter = 1, 2, 3
	s.in[0], s.in[1], s.out[0] = []letter{rows, inner}, []letter{inner, columns}, []letter{rows, columns}
	if n.integer("transA", 0) != 0 {
		s.in[0] = []letter{inner, rows}
	}
	if n.integer("transB", 0) != 0 {
		s.in[1] = []letter{columns, inner}
	}
	aligned(n, s, 2, s.out[0])
	if !n.has(2) {
		s.sum = &adder{Sum{By: "Add"}, map[letter]bool{inner: true}}
	}
	return true
}
