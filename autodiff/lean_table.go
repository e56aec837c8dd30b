package autodiff

import "slices"

// A table of embeddings that a language model also reads transposed, for the logits, is its
// largest parameter, and its gradient is the largest tensor of a small batch. Two savings
// keep one copy of it: the product that makes the gradient of the transposed table makes it
// as the table lies, and the rows that the embeddings contribute are added into it.

// turns reports whether a Gemm of two operands makes gradient d of a transposed matrix, and
// nothing else reads it: a single node of the forward pass reads the matrix, a product.
func (e *emitter) turns(d, matrix ID) bool {
	n := e.makers[d]
	if !e.saves(savingProduct) || n == nil || n.Domain != "" || n.Op != "Gemm" || len(n.Inputs) != 2 {
		return false
	}
	readers, products := 0, 0
	for _, n := range e.g.Nodes {
		if !slices.Contains(n.Inputs, matrix) || len(n.Outputs) > 0 && e.makers[n.Outputs[0]] != nil {
			continue
		}
		if readers++; n.Domain == "" && (n.Op == "MatMul" || n.Op == "Gemm") {
			products++
		}
	}
	return readers == 1 && products == 1
}

// turned returns the transpose of a matrix that such a Gemm makes: (A·B)ᵀ is Bᵀ·Aᵀ. The Gemm
// goes, since nothing else reads it.
func (e *emitter) turned(d ID) ID {
	n, a := e.makers[d], attrs{}
	for from, to := range map[string]string{"transA": "transB", "transB": "transA"} {
		if x := n.Attr(from); x == nil || x.Int == 0 {
			a[to] = 1
		}
	}
	if x := n.Attr("alpha"); x != nil {
		a["alpha"] = float64(x.Float)
	}
	return e.with("Gemm", a, n.Inputs[1], n.Inputs[0])
}

// scattered returns the positions and the rows that a ScatterND adds into zeros; ok is
// false if another node makes the tensor.
func (e *emitter) scattered(t ID) (at, rows ID, ok bool) {
	n := e.makers[t]
	if n == nil || n.Domain != "" || n.Op != "ScatterND" || len(n.Inputs) != 3 {
		return 0, 0, false
	}
	if by := n.Attr("reduction"); by == nil || by.String != "add" {
		return 0, 0, false
	}
	zeros := e.makers[n.Inputs[0]]
	if zeros == nil || zeros.Op != "ConstantOfShape" || zeros.Domain != "" {
		return 0, 0, false
	}
	if v := zeros.Attr("value"); v != nil && (v.Tensor == nil || slices.ContainsFunc(v.Tensor.Raw, func(b byte) bool { return b != 0 })) {
		return 0, 0, false
	}
	return n.Inputs[1], n.Inputs[2], true
}

// sumOf adds tensors one after the other. Rows that are scattered into zeros come last and
// are added into the sum of the others.
func (e *emitter) sumOf(list []ID) ID {
	var whole, scattered []ID
	for _, t := range list {
		if _, _, ok := e.scattered(t); ok && e.saves(savingInPlace) {
			scattered = append(scattered, t)
		} else {
			whole = append(whole, t)
		}
	}
	if len(whole) == 0 {
		whole, scattered = scattered[:1], scattered[1:]
	}
	sum := whole[0]
	for _, t := range whole[1:] {
		sum = e.add(sum, t)
	}
	for _, t := range scattered {
		at, rows, _ := e.scattered(t)
		sum = e.with("ScatterND", attrs{"reduction": "add"}, sum, at, rows)
	}
	return sum
}
