package rowmap

func init() {
	register(likeFirst, "com.microsoft.Gelu", "com.microsoft.QuickGelu")
	register(biased, "com.microsoft.BiasGelu", "com.microsoft.FastGelu")
	register(skipNorm, "com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
	register(layerNorm, "com.microsoft.SimplifiedLayerNormalization")
	register(fusedMatMul, "com.microsoft.FusedMatMul", "com.microsoft.FusedMatMulActivation")
	register(fusedGemm, "com.microsoft.FusedGemm")
	register(fusedConv, "com.microsoft.FusedConv")
	register(packedProduct, "com.microsoft.MatMulNBits")
}

// biased: a row, input 1, is added to the last axis.
func biased(n *Node, s *sheet) bool {
	each(s.out[0], 1)
	for i := range n.In {
		aligned(n, s, i, s.out[0])
	}
	return true
}

// skipNorm: two tensors are added, and the last axis of the sum is mixed. Further outputs
// are the sum and its statistics.
func skipNorm(n *Node, s *sheet) bool {
	rank := len(s.in[0])
	each(s.out[0], 1)
	s.out[0][rank-1] = 0
	for i := range n.In {
		aligned(n, s, i, s.out[0])
	}
	for k := range s.out {
		s.out[k] = s.out[0]
	}
	return true
}

// fusedMatMul: what is transposed has no copies.
func fusedMatMul(n *Node, s *sheet) bool {
	for _, name := range []string{"transA", "transB", "transBatchA", "transBatchB"} {
		if n.integer(name, 0) != 0 {
			return false
		}
	}
	return notSummed(matMul)(n, s)
}

// fusedGemm applies a function to the sum, so no parts of it may be added.
func fusedGemm(n *Node, s *sheet) bool { return notSummed(gemm)(n, s) }

// notSummed describes an operator like another one, whose copies add up nothing.
func notSummed(describe func(n *Node, s *sheet) bool) func(n *Node, s *sheet) bool {
	return func(n *Node, s *sheet) bool {
		ok := describe(n, s)
		s.sum = nil
		return ok
	}
}

// fusedConv: input 3 is added to the convolution.
func fusedConv(n *Node, s *sheet) bool {
	if !n.convolves(s, 1, 2) {
		return false
	}
	if n.has(3) {
		s.in[3] = s.out[0]
	}
	return true
}

// packedProduct: the rows of input 0. The packed weights are read whole.
func packedProduct(n *Node, s *sheet) bool {
	rank := len(s.out[0])
	if len(s.in[0]) != rank || rank == 0 {
		return false
	}
	each(s.out[0], 1)
	s.out[0][rank-1] = 0
	copy(s.in[0], s.out[0])
	return true
}
