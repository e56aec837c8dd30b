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
		{doc: "as many tokens as the data say", op: "com.microsoft.Tokenizer", in: str(2, 3), want: "string[2,3,?]"},
		{doc: "no strings, no tokens", op: "com.microsoft.Tokenizer", in: str(0), want: "string[0,0]"},
		{doc: "tokens of lists of lists", op: "com.microsoft.Tokenizer", in: str(1, 2, 3), want: "error: expected [C] or [N,C]"},
		{doc: "a match each", op: "RegexFullMatch", in: str(2, 3), want: "bool[2,3]"},
		{doc: "a count for each place", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 2, 6)}, attrs: []*graph.Attr{attrInts("ngram_indexes", 0, 6, 3)}, want: "float32[2,7]"},
		{doc: "one list", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 6)}, attrs: []*graph.Attr{attrInts("ngram_indexes", 2)}, want: "float32[3]"},
		{doc: "no places", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 6)}, want: `error: attribute "ngram_indexes" is missing`},
		{doc: "a place that is absurd", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 6)}, attrs: []*graph.Attr{attrInts("ngram_indexes", 1<<63-1)}, want: "error: ngram_indexes"},
		{doc: "rank 3", op: "TfIdfVectorizer", in: []Arg{arg(graph.Int32, 1, 2, 3)}, attrs: []*graph.Attr{attrInts("ngram_indexes", 2)}, want: "error: expected [C] or [N,C]"},
	})
}

func TestTokenizerChecks(t *testing.T) {
	x := in(arg(graph.String, 2))
	separators := func(list ...string) *graph.Attr {
		return &graph.Attr{Name: "separators", Type: graph.AttrStrings, Strings: list}
	}
	with := func(list ...*graph.Attr) []*graph.Attr { return list }
	runGate(t, []opCase{
		{op: "com.microsoft.Tokenizer", in: x, attrs: with(separators(" ", ",")), want: "string[2,?]"},
		{op: "com.microsoft.Tokenizer", in: x, attrs: with(attrString("tokenexp", "[a-z]+"), attrInt("mincharnum", 2)), want: "string[2,?]"},
		{doc: "nothing that says what a token is", op: "com.microsoft.Tokenizer", in: x, want: "error: expected separators or tokenexp, found neither"},
		{doc: "tokens of nothing", op: "com.microsoft.Tokenizer", in: x, attrs: with(separators(" "), attrInt("mincharnum", 0)), want: "error: mincharnum is 0, expected at least 1"},
		{doc: "long characters", op: "com.microsoft.Tokenizer", in: x, attrs: with(separators(""), attrInt("mincharnum", 2)), want: "error: mincharnum is 2, but each character is a token"},
	})
}

func TestTfIdfVectorizerChecks(t *testing.T) {
	x := in(arg(i64, 2, 6))
	with := func(list ...*graph.Attr) []*graph.Attr {
		return append([]*graph.Attr{attrInts("pool_int64s", 2, 3, 5, 4, 5, 6), attrInts("ngram_counts", 0, 2), attrInts("ngram_indexes", 0, 1, 2, 3)}, list...)
	}
	other := func(k int, a *graph.Attr) []*graph.Attr { l := with(); l[k] = a; return l }
	runGate(t, []opCase{
		{op: "TfIdfVectorizer", in: x, attrs: with(), want: "float32[2,4]"},
		{doc: "a mode that is not there", op: "TfIdfVectorizer", in: x, attrs: with(attrString("mode", "DF")), want: `error: mode is "DF"`},
		{doc: "n-grams of no words", op: "TfIdfVectorizer", in: x, attrs: with(attrInt("min_gram_length", 0)), want: "error: n-grams of 0 to 1 words"},
		{doc: "skips below 0", op: "TfIdfVectorizer", in: x, attrs: with(attrInt("max_skip_count", -1)), want: "error: with up to -1 skips"},
		{doc: "n-grams behind the pool", op: "TfIdfVectorizer", in: x, attrs: other(1, attrInts("ngram_counts", 0, 8)), want: "error: ngram_counts[0] is 0, and what follows 8, expected a multiple of 1 words in a pool of 6"},
		{doc: "before it", op: "TfIdfVectorizer", in: x, attrs: other(1, attrInts("ngram_counts", -1, 2)), want: "error: ngram_counts[0] is -1"},
		{doc: "half an n-gram", op: "TfIdfVectorizer", in: x, attrs: other(1, attrInts("ngram_counts", 0, 3)), want: "error: ngram_counts[1] is 3"},
		{doc: "too few places", op: "TfIdfVectorizer", in: x, attrs: other(2, attrInts("ngram_indexes", 0, 1, 2)), want: "error: ngram_indexes has 3 places, expected one for each of 4 n-grams"},
		{doc: "too few weights", op: "TfIdfVectorizer", in: x, attrs: with(&graph.Attr{Name: "weights", Type: graph.AttrFloats, Floats: []float32{1}}), want: "error: weights has 1 numbers, expected 4"},
	})
}
