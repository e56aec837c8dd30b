package autodiff

import "fmt"

var matmulCases = func() []ruleCase {
	cases := []ruleCase{
		{op: "MatMul", name: "two matrices", in: []operand{param(2, 3), param(3, 4)}, opsets: []int64{7, 9, 13, 18, 21}},
		{op: "MatMul", name: "a batch by one matrix", in: []operand{param(2, 5, 2, 3), param(3, 4)}},
		{op: "MatMul", name: "one matrix by a batch", in: []operand{param(2, 3), param(5, 3, 4)}},
		{op: "MatMul", name: "batches", in: []operand{param(2, 2, 3), param(2, 3, 4)}},
		{op: "MatMul", name: "batches broadcast", in: []operand{param(2, 1, 2, 3), param(5, 3, 4)}},
		{op: "MatMul", name: "vectors", in: []operand{param(3), param(3)}},
		{op: "MatMul", name: "vector by matrix", in: []operand{param(3), param(3, 4)}},
		{op: "MatMul", name: "matrix by vector", in: []operand{param(2, 3), param(3)}},
		{op: "MatMul", name: "vector by batch", in: []operand{param(3), param(2, 5, 3, 4)}},
		{op: "MatMul", name: "batch by vector", in: []operand{param(2, 5, 4, 3), param(3)}},
		{op: "MatMul", name: "one input", in: []operand{param(3, 3), same(0)}},
		{op: "MatMul", name: "vector by itself", in: []operand{param(3), same(0)}},
		{op: "MatMul", name: "second alone", in: []operand{param(2, 3).fed(), param(3, 4)}},
		{op: "MatMul", name: "a batch that is data", in: []operand{param(4, 2, 3).fed(), param(3, 4)}},

		{op: "Einsum", name: "product", in: []operand{param(2, 3), param(3, 4)}, attrs: attrs{"equation": "ij,jk->ik"}, opsets: []int64{12, 18}},
		{op: "Einsum", name: "no arrow", in: []operand{param(2, 3), param(3, 4)}, attrs: attrs{"equation": "ba, ac"}},
		{op: "Einsum", name: "attention", in: []operand{param(2, 2, 3, 4), param(2, 2, 5, 4)}, attrs: attrs{"equation": "bhqd,bhkd->bhqk"}},
		{op: "Einsum", name: "a label is summed alone", in: []operand{param(2, 3, 4), param(4)}, attrs: attrs{"equation": "ijk,k->k"}},
		{op: "Einsum", name: "three operands", in: []operand{param(2, 3), param(3, 4), param(4, 2)}, attrs: attrs{"equation": "ij,jk,kl->il"}},
		{op: "Einsum", name: "transpose", in: []operand{param(2, 3)}, attrs: attrs{"equation": "ij->ji"}},
		{op: "Einsum", name: "sum", in: []operand{param(2, 3)}, attrs: attrs{"equation": "ij->"}},
		{op: "Einsum", name: "outer product", in: []operand{param(2), param(3)}, attrs: attrs{"equation": "i,j->ij"}},
		{op: "Einsum", name: "one input", in: []operand{param(3, 3), same(0)}, attrs: attrs{"equation": "ij,jk->ik"}},
		{op: "Einsum", name: "length 1 broadcasts", in: []operand{param(2, 1), param(2, 3)}, attrs: attrs{"equation": "ij,ij->ij"}},
		{op: "Einsum", name: "length 1 broadcasts, no arrow", in: []operand{param(2, 1), param(3, 4)}, attrs: attrs{"equation": "ij,jk"}},
		{op: "Einsum", name: "diagonal", in: []operand{param(3, 3)}, attrs: attrs{"equation": "ii->i"}},
		{op: "Einsum", name: "trace", in: []operand{param(3, 3), param(3)}, attrs: attrs{"equation": "ii,j->j"}},
		{op: "Einsum", name: "a label thrice", in: []operand{param(2, 2, 2)}, attrs: attrs{"equation": "iii->i"}},
		{op: "Einsum", name: "diagonals of a batch", in: []operand{param(2, 3, 3), param(3)}, attrs: attrs{"equation": "...ii,i->...i"}},
		{op: "Einsum", name: "ellipsis", in: []operand{param(2, 5, 2, 3), param(5, 3, 4)}, attrs: attrs{"equation": "...ij,...jk->...ik"}},
		{op: "Einsum", name: "ellipsis broadcasts", in: []operand{param(2, 1, 2, 3), param(5, 3)}, attrs: attrs{"equation": "...ij,...j->...i"}},
		{op: "Einsum", name: "ellipsis, no arrow", in: []operand{param(2, 2, 3), param(3, 4)}, attrs: attrs{"equation": "...ij,jk"}},
		{op: "Einsum", name: "ellipsis is summed", in: []operand{param(2, 4, 3)}, attrs: attrs{"equation": "...j->j"}},
	}
	shape := func(rows, columns, transposed int) operand {
		if transposed == 1 {
			return param(columns, rows)
		}
		return param(rows, columns)
	}
	for transA := range 2 {
		for transB := range 2 {
			in := []operand{shape(2, 3, transA), shape(3, 4, transB)}
			a := attrs{"transA": transA, "transB": transB, "alpha": 0.5, "beta": 2.0}
			name := func(what string) string { return fmt.Sprintf("%s, transA=%d, transB=%d", what, transA, transB) }
			cases = append(
				cases,
				ruleCase{op: "Gemm", name: name("bias"), in: append(in[:2:2], param(4)), attrs: a, opsets: []int64{7, 9, 11, 13, 18}},
				ruleCase{op: "Gemm", name: name("no bias"), in: in, attrs: a, opsets: []int64{11, 18}},
				ruleCase{op: "Gemm", name: name("bias of each row"), in: append(in[:2:2], param(2, 1)), attrs: a},
				ruleCase{op: "Gemm", name: name("one input"), in: []operand{param(3, 3), same(0)}, attrs: attrs{"transA": transA, "transB": transB}},
			)
		}
	}
	return append(cases, ruleCase{op: "Gemm", name: "plain", in: []operand{param(2, 3), param(3, 4), param(2, 4)}})
}()
