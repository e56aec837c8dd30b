package units

import (
	"strings"
	"testing"
)

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
	if got := Name(strings.Repeat("n", 1000)); len(got) > 200 {
		t.Errorf("a long name is shown with %d bytes", len(got))
	}
}
