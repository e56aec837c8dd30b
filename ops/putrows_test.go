package ops

import "testing"

// TestPutRows: what is known of the elements of rows stays known, such as of a list of lengths that is
// computed in slices.
func TestPutRows(t *testing.T) {
	put := func(base, part Arg, at, axis int64) []Arg { return in(base, part, argInts(at), argInts(axis)) }
	first, second := attrs(attrInt("axis", 0)), attrs(attrInt("axis", 1))
	runCases(t, []opCase{
		{doc: "first rows", op: "onnxmem.PutRows", in: put(argInts(0, 0, 0, 0), argDims(5, upTo5), 0, 0), attrs: first, want: "int64[4] = 5 <=5 0 0 over 0<0"},
		{doc: "last rows", op: "onnxmem.PutRows", in: put(argInts(5, 6, 0, 0), argInts(7, 8), 2, 0), attrs: first, want: "int64[4] = 5 6 7 8 over 0<0"},
		{doc: "another axis", op: "onnxmem.PutRows", in: put(argValue([]int64{2, 3}, 1, 2, 3, 4, 5, 6), argValue([]int64{2, 1}, 8, 9), 1, 1), attrs: second, want: "int64[2,3] = 1 8 3 4 9 6 over 0<0"},
		{doc: "into elements that are not known", op: "onnxmem.PutRows", in: put(argHidden(3), argInts(7), 1, 0), attrs: first, want: "int64[3] = ? 7 ? over 0<0"},
		{doc: "of data", op: "onnxmem.PutRows", in: put(argInts(0, 0, 0), arg(i64, 1), 1, 0), attrs: first, want: "int64[3] over 0<0"},
		{doc: "beyond the end", op: "onnxmem.PutRows", in: put(argInts(0, 0), argInts(7, 8), 1, 0), attrs: first, want: "error: expected rows of input 0"},
	})
}
