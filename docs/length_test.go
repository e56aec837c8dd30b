package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lengths are the pages that stay short enough to be read whole, by pattern.
var lengths = []struct {
	pattern string
	words   int // at most; 0: any number
	lines   int // at most; 0: any number
}{
	{"../README.md", 900, 0},
	{"architecture.md", 1500, 0},
	{"design/*.md", 1000, 0},
	{"proofs.md", 1000, 0},
	{"formats.md", 4000, 0},
	{"formats/*.md", 2500, 0},
	{"../CHANGELOG.md", 0, 150},
}

// TestLengths: the pages of lengths are no longer than that.
func TestLengths(t *testing.T) {
	for _, l := range lengths {
		found, err := filepath.Glob(l.pattern)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: no page (%v)", l.pattern, err)
		}
		for _, page := range found {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if words := len(strings.Fields(string(text))); l.words > 0 && words > l.words {
				t.Errorf("%s has %d words: expected at most %d (move what only some readers need to another page)", page, words, l.words)
			}
			if lines := strings.Count(string(text), "\n"); l.lines > 0 && lines > l.lines {
				t.Errorf("%s has %d lines: expected at most %d", page, lines, l.lines)
			}
		}
	}
}
