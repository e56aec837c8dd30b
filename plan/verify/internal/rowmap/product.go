package rowmap

import "strings"

func init() {
	register(matMul, "MatMul")
	register(gemm, "Gemm")
	register(einsum, "Einsum")
	register(integerProduct(0, 1, []int{2}, []int{3}), "MatMulInteger")
	register(integerProduct(0, 3, []int{1, 2}, []int{4, 5}), "QLinearMatMul")
}

// integerProduct describes a product of integers, inputs a and b: as MatMul. Scales and zero
// points of a have one element, or one for each of its rows, those of b one for each of its
// columns.
func integerProduct(a, b int, ofA, ofB []int) func(n *Node, s *sheet) bool {
	return func(n *Node, s *sheet) bool {
		two := &sheet{in: [][]letter{s.in[a], s.in[b]}, out: s.out}
		factors := *n
		factors.In = []Arg{n.In[a], n.In[b]}
		if !matMul(&factors, two) {
			return false
		}
		rank := len(s.out[0])
		for i, list := range [][]int{ofA, ofB} {
			for _, j := range list {
				if !n.has(j) || n.single(j) {
					continue
				}
				if len(s.in[j]) != 1 {
					return false
				}
				s.in[j][0] = s.out[0][rank-2+i]
			}
		}
		return true
	}
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
		s.sum = &adder{Sum{By: "Add", Third: true}, map[letter]bool{inner: true}}
	}
	return true
}

// einsum has its letters in an equation. What stands for the axes of an ellipsis are letters from
// the last of these on. A letter that the output lacks is added over.
func einsum(n *Node, s *sheet) bool {
	equation := strings.ReplaceAll(n.text("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(n.In) {
		return false
	}
	const hidden letter = 256 // letters of the equation are bytes
	spell := func(term string, rank int) ([]letter, bool) {
		before, after, dots := strings.Cut(term, "...")
		own := rank - len(before) - len(after)
		if own < 0 || own > 0 && !dots {
			return nil, false
		}
		var list []letter
		for i := range len(before) {
			list = append(list, letter(before[i]))
		}
		for k := range own {
			list = append(list, hidden+letter(own-k))
		}
		for i := range len(after) {
			list = append(list, letter(after[i]))
		}
		return list, true
	}
	times, over := map[letter]int{}, map[letter]bool{}
	for i, term := range terms {
		letters, ok := spell(term, len(s.in[i]))
		if !ok {
			return false
		}
		for k, l := range letters {
			if times[l]++; n.length(i, k) != 1 {
				s.in[i][k] = l
			}
			over[l] = true
		}
	}
	if !explicit { // the ellipsis, then the letters that occur once, in their order
		for b := range hidden {
			if times[b] == 1 {
				right += string(rune(b))
			}
		}
		right = "..." + right
	}
	letters, ok := spell(right, len(s.out[0]))
	if !ok {
		return false
	}
	copy(s.out[0], letters)
	for _, l := range letters {
		delete(over, l)
	}
	s.sum = &adder{Sum{By: "Add"}, over}
	return true
}
