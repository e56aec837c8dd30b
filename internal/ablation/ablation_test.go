package ablation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A part whose absence makes a problem worse gets a row, a part that makes no
// difference gets none, and the sections of other sets do not change.
func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := write(path, "other", "kept\n"); err != nil {
		t.Fatal(err)
	}
	whole := []Outcome{{Value: 10, Found: true, Bound: 10, Proven: true, Work: 1e6}, {Value: 20, Found: true, Bound: 15, Work: 1e6}}
	worse := loss{part: "needed"}
	worse.add(whole[0], Outcome{Value: 11, Found: true, Bound: 10, Work: 2e6})
	worse.add(whole[1], Outcome{Bound: 16, Work: 1e6})
	same := loss{part: "idle"}
	for _, x := range whole {
		same.add(x, x)
	}
	set := Set{Title: "some", Doc: "problems", Proofs: "proofs", Values: "peaks"}
	text := set.text(whole, []loss{{part: "nothing"}, worse, same}, []string{"needed", "idle", "slow"})
	for range 2 { // the second replaces the first
		if err := write(path, set.Title, text); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 problems. The whole search: 1 proofs.",
		"| needed | 1 | 0 | 2 (+10.00 %) | 0 | 0 | 1 | 0 | 0 | 3.0 |",
		"Nothing changes without: idle (2.0).",
		"Not left out here: slow.",
		"## other\n\nkept\n",
	} {
		if strings.Count(string(page), want) != 1 {
			t.Errorf("%q: not once in the page:\n%s", want, page)
		}
	}
}
