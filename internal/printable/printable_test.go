package printable

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a path", `zoo/übung 1.onnx`, `zoo/übung 1.onnx`},
		{"quotes and backslashes stay", `C:\zoo\"a".onnx`, `C:\zoo\"a".onnx`},
		{"colours, a bell, a rubbed-out word", "\x1b[31mred\x07\b\x7f", `\x1b[31mred\a\b\x7f`},
		{"lines", "a\r\nb\tc\u2028d", `a\r\nb\tc\u2028d`},
		{"C1 controls, as UTF-8 and as bytes", "\u009b31m\x9b", `\u009b31m\x9b`},
		{"the direction of writing", "ab\u202egnp.onnx", `ab\u202egnp.onnx`},
		{"invisible characters", "a\u200bb\u00a0c\U000e0001", `a\u200bb\u00a0c\U000e0001`},
		{"not UTF-8", "caf\xe9\xff", `caf\xe9\xff`},
		{"the replacement character", "\ufffd", "\ufffd"},
		{"200 characters", strings.Repeat("é", 200), strings.Repeat("é", 200)},
		{"201 characters", strings.Repeat("a", 100) + "b" + strings.Repeat("c", 100), strings.Repeat("a", 99) + "…" + strings.Repeat("c", 100)},
		{"escapes are not cut", "a" + strings.Repeat("\x1b", 100), "a" + strings.Repeat(`\x1b`, 24) + "…" + strings.Repeat(`\x1b`, 25)},
		{"escapes fill it exactly", strings.Repeat("\x1b", 50), strings.Repeat(`\x1b`, 50)},
		{"escapes at the cut", strings.Repeat("a", 98) + "\n" + strings.Repeat("b", 100), strings.Repeat("a", 98) + `\n` + strings.Repeat("b", 100)},
		{"empty", "", ""},
	} {
		got := Text(c.in)
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if again := Text(got); again != got {
			t.Errorf("%s: the text of %q is %q", c.name, got, again)
		}
	}
}

func TestEscapeKeepsAll(t *testing.T) {
	long := strings.Repeat("x\n", 10_000)
	if got, want := Escape(long), strings.Repeat(`x\n`, 10_000); got != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
}

// For any name, Text returns at most 200 characters, all of them printable, and
// does not look at more of the name than it needs.
func FuzzText(f *testing.F) {
	f.Add("a\x1b[2Jb")
	f.Add(strings.Repeat("\u202e", 300))
	f.Add(strings.Repeat("\xff", 151))
	f.Fuzz(func(t *testing.T, s string) {
		for range 3 {
			got := Text(s)
			if n := utf8.RuneCountInString(got); n > most || !isPrintable(got) {
				t.Fatalf("%q: %d characters: %q", s, n, got)
			}
			if Text(got) != got || isPrintable(s) && utf8.RuneCountInString(s) <= most && got != s {
				t.Fatalf("%q: %q, then %q", s, got, Text(got))
			}
			if len(Escape(s)) <= most && Escape(s) != got {
				t.Fatalf("%q: %q, without a cut %q", s, got, Escape(s))
			}
			s += s
		}
	})
}

// TestShowFull: names keep their length if the user asks for it, but nothing that is
// not printable, and data do not change.
func TestShowFull(t *testing.T) {
	long := strings.Repeat("a", 300) + "\n"
	short := CutAlways(long)
	ShowFull(true)
	defer ShowFull(false)
	for name, got := range map[string]string{"Text": Text(long), "Line": Line(long)} {
		if got != strings.Repeat("a", 300)+`\n` {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if Cut(long) != long || CutAlways(long) != short {
		t.Errorf("Cut: %q, CutAlways: %q", Cut(long), CutAlways(long))
	}
	ShowFull(false)
	if Cut(long) != short || Text(long) == long {
		t.Error("names are still full")
	}
}
