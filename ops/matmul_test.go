package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestMatMul(t *testing.T) {
	u8 := func(shape ...graph.Dim) Arg { return arg(graph.Uint8, shape...) }
	i8 := func(shape ...graph.Dim) Arg { return arg(graph.Int8, shape...) }
	runCases(t, []opCase{
		{op: "MatMul", in: in(arg(f32, 2, 3), arg(f32, 3, 4)), want: "float32[2,4]"},
		{doc: "batches broadcast", op: "MatMul", in: in(arg(f32, 5, 1, 2, 3), arg(f32, upTo5, 3, 4)), want: "float32[5,<=5,2,4]"},
		{doc: "a row", op: "MatMul", in: in(arg(f32, 3), arg(f32, 7, 3, 4)), want: "float32[7,4]"},
		{doc: "a column", op: "MatMul", in: in(arg(f32, 7, 2, 3), arg(f32, 3)), want: "float32[7,2]"},
		{doc: "two vectors", op: "MatMul", in: in(arg(f32, 3), arg(f32, u)), want: "float32[]"},
		{doc: "unknown rank", op: "MatMul", in: in(argUnranked(f32), arg(f32, 3)), want: "float32[...]"},
		{doc: "a mismatch", op: "MatMul", in: in(arg(f32, 2, 4), arg(f32, 5, 4)), want: "error: expected 4 rows to match input 0 [2,4]"},
		{doc: "batches that do not broadcast", op: "MatMul", in: in(arg(f32, 2, 2, 3), arg(f32, 5, 3, 4)), want: "error: axis 2 from the right"},
		{doc: "a scalar", op: "MatMul", in: in(arg(f32), arg(f32, 5)), want: "error: at least rank 1"},
		{doc: "two types", op: "MatMul", in: in(arg(f32, 2, 3), arg(i64, 3, 4)), want: "error: int64"},
		{op: "MatMulInteger", in: in(u8(2, 3), i8(3, 4)), want: "int32[2,4]"},
		{op: "QLinearMatMul", in: in(u8(2, 3), arg(f32), u8(), i8(3, 4), arg(f32), i8(), arg(f32), i8()), want: "int8[2,4]"},
		{doc: "without zero point", op: "QLinearMatMul", in: in(u8(2, 3), arg(f32), u8(), i8(3, 4), arg(f32), i8(), arg(f32)), want: "error: input 7 is missing"},
	})
}

func TestGemm(t *testing.T) {
	a, b := arg(f32, 2, 3), arg(f32, 3, 4)
	runCases(t, []opCase{
		{op: "Gemm", in: in(a, b), want: "float32[2,4]"},
		{doc: "both transposed", op: "Gemm", in: in(arg(f32, 3, upTo5), arg(f32, 4, u)), attrs: attrs(attrInt("transA", 1), attrInt("transB", 1)), want: "float32[<=5,4]"},
		{doc: "a row added", op: "Gemm", in: in(a, b, arg(f32, 4)), want: "float32[2,4]"},
		{doc: "a column added", op: "Gemm", in: in(a, b, arg(f32, 2, 1)), want: "float32[2,4]"},
		{doc: "C is needed before opset 11", op: "Gemm", version: 9, in: in(a, b), want: "error: input 2 is missing"},
		{doc: "C must not widen the product", op: "Gemm", in: in(arg(f32, 1, 3), b, arg(f32, 2, 4)), want: "error: broadcasts to [1,4]"},
		{doc: "C of a third axis", op: "Gemm", in: in(a, b, arg(f32, 1, 2, 4)), want: "error: broadcasts to [2,4]"},
		{doc: "a mismatch", op: "Gemm", in: in(a, arg(f32, 4, 3)), want: "error: to match input 0 [2,3]"},
		{doc: "a vector", op: "Gemm", in: in(a, arg(f32, 3)), want: "error: expected rank 2"},

		{doc: "of each matrix", op: "Det", in: in(arg(f32, 5, 3, 3)), want: "float32[5]"},
		{doc: "of one", op: "Det", in: in(arg(f32, 3, u)), want: "float32[]"},
		{doc: "of none", op: "Det", in: in(arg(f32, 3, 4)), want: "error: square"},
	})
}

func TestEinsum(t *testing.T) {
	eq := func(s string) []*graph.Attr { return attrs(attrString("equation", s)) }
	a, b := arg(f32, 2, 3), arg(f32, 3, 4)
	runCases(t, []opCase{
		{doc: "a product", op: "Einsum", in: in(a, b), attrs: eq("ij, jk -> ik"), want: "float32[2,4]"},
		{doc: "the right-hand side left out", op: "Einsum", in: in(a, b), attrs: eq("zj,jB"), want: "float32[4,2]"},
		{doc: "batches", op: "Einsum", in: in(arg(f32, 5, 1, 2, 3), arg(f32, upTo5, 3, 4)), attrs: eq("...ij,...jk->...ik"), want: "float32[5,<=5,2,4]"},
		{doc: "batches, the right-hand side left out", op: "Einsum", in: in(arg(f32, 5, 2, 3), b), attrs: eq("...ij,jk"), want: "float32[5,2,4]"},
		{doc: "a diagonal", op: "Einsum", in: in(arg(f32, 3, 3)), attrs: eq("ii->i"), want: "float32[3]"},
		{doc: "a trace", op: "Einsum", in: in(arg(f32, 3, u)), attrs: eq("ii"), want: "float32[]"},
		{doc: "a transpose", op: "Einsum", in: in(arg(f32, u, 3)), attrs: eq("ij->ji"), want: "float32[3,?]"},
		{doc: "an axis that another input knows", op: "Einsum", in: in(arg(f32, 2, u), b), attrs: eq("ij,jk->j"), want: "float32[3]"},
		{doc: "unknown rank", op: "Einsum", in: in(argUnranked(f32), b), attrs: eq("ij,jk->ijk"), want: "float32[?,3,4]"},
		{doc: "unknown rank of the dots", op: "Einsum", in: in(argUnranked(f32)), attrs: eq("...i->..."), want: "float32[...]"},
		{doc: "a mismatch", op: "Einsum", in: in(a, a), attrs: eq("ij,jk->ik"), want: "error: 3 for j"},
		{doc: "another rank", op: "Einsum", in: in(a, b), attrs: eq("ij,jkl->ik"), want: "error: as many axes as its term \"jkl\""},
		{doc: "another number of terms", op: "Einsum", in: in(a, b), attrs: eq("ij->ij"), want: "error: 1 terms, expected 2"},
		{doc: "a letter from nowhere", op: "Einsum", in: in(a), attrs: eq("ij->k"), want: "error: from the left"},
		{doc: "a letter twice on the right", op: "Einsum", in: in(a), attrs: eq("ij->ii"), want: "error: each letter once"},
		{doc: "no letter", op: "Einsum", in: in(a), attrs: eq("i1->i"), want: "error: expected letters"},
		{doc: "no equation", op: "Einsum", in: in(a), want: "error: equation is missing"},
	})
}
