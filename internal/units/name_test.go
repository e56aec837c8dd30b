package units

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOneLine(t *testing.T) {
	name := errors.New("node \"a\nonnxmem: all is well\": unknown")
	for err, want := range map[error]string{
		name:                               `node "a\nonnxmem: all is well": unknown`,
		errors.Join(name, errors.New("b")): `node "a; onnxmem: all is well": unknown; b`,
		fmt.Errorf("f: %w", errors.Join(errors.New("a\x1b[1m"), errors.New("b"))): `f: a\x1b[1m; b`,
	} {
		if got := OneLine(err); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestNamesStayOnTheirLine(t *testing.T) {
	for name, want := range map[string]string{
		"layer.0/größe": "layer.0/größe",
		`say "x"`:       `say "x"`,
		"a\nok":         `a\nok`,
		"\x1b[31mred":   `\x1b[31mred`,
	} {
		if got := Name(name); got != want {
			t.Errorf("Name(%q) = %s, want %s", name, got, want)
		}
	}
	if got := Name(strings.Repeat("n", 1000)); utf8.RuneCountInString(got) > 200 {
		t.Errorf("a long name is shown with %d characters", utf8.RuneCountInString(got))
	}
}
