package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestText(t *testing.T) {
	str := func(shape ...graph.Dim) []Arg { return []Arg{arg(graph.String, shape...)} }
	stop := &graph.Attr{Name: "stopwords", Type: graph.AttrStrings, Strings: []string{"monday"}}
	runCases(t, []opCase{
		{doc: "stop words bound the length", op: "StringNormalizer", in: str(4), attrs: []*graph.Attr{stop}, want: "string[<=4]"},
		{doc: "without them it stays", op: "StringNormalizer", in: str(1, 4), want: "string[1,4]"},
		{doc: "of nothing one empty string is left", op: "StringNormalizer", in: str(0), want: "string[1]"},
		{doc: "a list of lists", op: "StringNormalizer", in: str(2, 4), want: "error: expected [C] or [1,C]"},
		{doc: "numbers", op: "StringNormalizer", in: []Arg{arg(graph.Float32, 4)}, want: "error: expected strings"},
		{doc: "strings side by side", op: "StringConcat", in: []Arg{arg(graph.String, 3, 1), arg(graph.String, 4)}, want: "string[3,4]"},
		{doc: "as many parts as the data say", op: "StringSplit", in: str(3), outs: 2, want: "string[3,?], int64[3]"},
		{doc: "or as maxsplit allows", op: "StringSplit", in: str(3), outs: 2, attrs: []*graph.Attr{attrInt("maxsplit", 1)}, want: "string[3,<=2], int64[3]"},
		{doc: "an absurd maxsplit", op: "StringSplit", in: str(3), outs: 2, attrs: []*graph.Attr{attrInt("maxsplit", 1<<62)}, want: "string[3,?], int64[3]"},
		{doc: "no strings, no parts", op: "StringSplit", in: str(0), outs: 2, want: "string[0,0], int64[0]"},
		{doc: "a match each", op: "RegexFullMatch", in: str(2, 3), want: "bool[2,3]"},
		{doc: "a count for each place", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 2, 6)}, attrs: []*graph.Attr{attrInts("ngram_indexes", 0, 6, 3)}, want: "float32[2,7]"},
		{doc: "one list", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 6)}, attrs: []*graph.Attr{attrInts("ngram_indexes", 2)}, want: "float32[3]"},
		{doc: "no places", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 6)}, want: `error: attribute "ngram_indexes" is missing`},
		{doc: "a place that is absurd", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 6)}, attrs: []*graph.Attr{attrInts("ngram_indexes", 1<<63-1)}, want: "error: ngram_indexes"},
		{doc: "rank 3", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 1, 2, 3)}, attrs: []*graph.Attr{attrInts("ngram_indexes", 2)}, want: "error: expected [C] or [N,C]"},
	})
}
