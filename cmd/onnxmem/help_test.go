package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/internal/optimize"
)

// TestHelp: --help of each command fits on 45 lines of 80 columns, and every flag of a
// command is in a group. --help-all has all flags, --help those that are not seldom.
func TestHelp(t *testing.T) {
	parser, err := newParser(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Children {
		t.Run(n.Name, func(t *testing.T) {
			short, whole := helpOf(t, n.Name, "--help"), helpOf(t, n.Name, "--help-all")
			if len(short) > 45 {
				t.Errorf("--help has %d lines: expected at most 45 (tag a flag as seldom)", len(short))
			}
			for _, line := range slices.Concat(short, whole) {
				if utf8.RuneCountInString(line) > 80 && !strings.Contains(line, "onnxmem "+n.Name) {
					t.Errorf("expected lines of at most 80 columns, found %d:\n%s", utf8.RuneCountInString(line), line)
				}
			}
			for _, f := range n.Flags {
				if f.Group == nil || !slices.ContainsFunc(optimize.Groups, func(g kong.Group) bool { return g.Key == f.Group.Key }) {
					t.Errorf("--%s is in none of optimize.Groups", f.Name)
				}
				if has := shows(whole, f.Name); !has {
					t.Errorf("--help-all does not show --%s", f.Name)
				}
				if has, seldom := shows(short, f.Name), f.Tag.Has("seldom"); has == seldom {
					t.Errorf("--help shows --%s: %t, and the flag is seldom: %t", f.Name, has, seldom)
				}
			}
		})
	}
}

func helpOf(t *testing.T, args ...string) []string {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(args, &out, &errs); got != 0 || errs.Len() > 0 {
		t.Fatalf("exit status %d: %s", got, &errs)
	}
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
}

// shows reports whether a line of help is that of a flag.
func shows(lines []string, name string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		first, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		first, _, _ = strings.Cut(first, "=")
		return strings.HasPrefix(line, "  ") && (first == "--"+name || first == "--[no-]"+name || strings.HasSuffix(first, ", --"+name))
	})
}
