package printable

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	words := strings.Repeat("word ", 100)
	for _, c := range []struct{ name, in, want string }{
		{"a message", `in.onnx: node "a b": not known`, `in.onnx: node "a b": not known`},
		{"many words", words, words},
		{"a second line, and a colour", "a\nonnxmem: ok\x1b[32m", `a\nonnxmem: ok\x1b[32m`},
		{"a long name", "in.onnx: " + strings.Repeat("x", 300) + ": not known", "in.onnx: " + strings.Repeat("x", 99) + "…" + strings.Repeat("x", 99) + ": not known"},
		{"not UTF-8", "caf\xe9: not found", `caf\xe9: not found`},
	} {
		if got := Line(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	for _, s := range []string{strings.Repeat("x ", 1_000_000), strings.Repeat("\x1b ", 3000), strings.Repeat("é ", 1500), strings.Repeat("\xff", 9000)} {
		got := Line(s)
		if n := utf8.RuneCountInString(got); n > longest || !isPrintable(got) || Line(got) != got || !strings.Contains(got, "…") {
			t.Errorf("%d bytes: %d characters: %.50q", len(s), n, got)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"a\nb", "a\nb"},
		{strings.Repeat("é", 200), strings.Repeat("é", 200)},
		{strings.Repeat("é", 100) + "b" + strings.Repeat("ü", 100), strings.Repeat("é", 99) + "…" + strings.Repeat("ü", 100)},
		{strings.Repeat("\xff", 300), strings.Repeat("\xff", 99) + "…" + strings.Repeat("\xff", 100)},
	} {
		if got := Cut(c.in); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
