package vm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// What ONNX Runtime 1.31 makes of these strings.
func TestTokenizer(t *testing.T) {
	by := func(list ...string) *graph.Attr {
		return &graph.Attr{Name: "separators", Type: graph.AttrStrings, Strings: list}
	}
	expr := func(text string) *graph.Attr { return attr("tokenexp", text) }
	mark := attr("mark", 1)
	for _, c := range []struct {
		doc   string
		in    []string
		attrs []*graph.Attr
		want  string // the tokens of each string between bars, and the strings between semicolons
	}{
		{"at spaces and commas", []string{"a b,c", "d"}, attrs(by(" ", ",")), "a|b|c; d|#|#"},
		{"spaces around", []string{"  a  "}, attrs(by(" ")), "a"},
		{"separators are expressions", []string{"x1y22z"}, attrs(by("[0-9]+", "z$")), "x|y"},
		{"a dot is any character", []string{"a.b"}, attrs(by(".")), ""},
		{"short ones are left out", []string{"a bb ccc d"}, attrs(by(" "), attr("mincharnum", 2)), "bb|ccc"},
		{"characters, not bytes", []string{"ä b", "äö cc"}, attrs(by(" "), attr("mincharnum", 2)), "#|#; äö|cc"},
		{"words", []string{"Foo, bar_1!", ""}, attrs(expr("[a-zA-Z0-9_]+")), "Foo|bar_1; #|#"},
		{"the longest match", []string{"ab abc"}, attrs(expr("a|ab|abc")), "ab|abc"},
		{"what is before a match counts", []string{"foobar foo"}, attrs(expr(`\bfoo\b`)), "foo"},
		{"matches of nothing are no tokens", []string{"abcab"}, attrs(expr("b*")), "b|b"},
		{"but as separators take a character away", []string{"xax", "aa"}, attrs(by("a*")), "; "},
		{"separators win over an expression", []string{"abc"}, attrs(by(" "), expr("a")), "abc"},
		{"characters", []string{"äb", "c"}, attrs(by("")), "ä|b; c|#"},
		{"marks stand before the filling", []string{"äb", "c"}, attrs(by(""), mark), "\x02|ä|b|\x03; \x02|c|\x03|#"},
		{"nothing is not marked", []string{"", " "}, attrs(by(" "), mark), "; "},
	} {
		for _, shape := range [][]int{{len(c.in)}, {len(c.in), 1}} {
			k := nodeCase{op: "com.microsoft.Tokenizer", attrs: append(attrs(attr("pad_value", "#")), c.attrs...), in: []vm.Value{vm.Texts(c.in, shape...)}}
			got, err := k.run(t, false)
			if err != nil {
				t.Errorf("%s: %v", c.doc, err)
				continue
			}
			tokens := len(got.Strings) / len(c.in)
			if want := append(slices.Clone(shape), tokens); !slices.Equal(got.Shape, want) {
				t.Errorf("%s of %v: got shape %v, want %v", c.doc, shape, got.Shape, want)
			}
			rows := make([]string, len(c.in))
			for i := range rows {
				rows[i] = strings.Join(got.Strings[i*tokens:(i+1)*tokens], "|")
			}
			if text := strings.Join(rows, "; "); text != c.want {
				t.Errorf("%s of %v: got %q, want %q", c.doc, shape, text, c.want)
			}
		}
	}
	k := nodeCase{op: "com.microsoft.Tokenizer", attrs: attrs(expr("(")), in: []vm.Value{vm.Texts([]string{"a"}, 1)}}
	if _, err := k.run(t, false); err == nil || !strings.Contains(err.Error(), `tokenexp "(": `) {
		t.Errorf("an expression that is none: got %v", err)
	}
}
