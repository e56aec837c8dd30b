//go:build unix

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/printable"
)

// Models may have any name: each is planned, the next run finds it again, and its name
// is shown without controlling a terminal, a spreadsheet or a browser.
func TestBatchTakesAnyName(t *testing.T) {
	names := []string{
		"caf\xe9", "dir\xff/b", "esc\x1b[31m", "new\nline", "a:b", "javascript:alert(1)", "100%25", "q?x#y", "<b>&amp;", `back\slash`,
		"=1+1", "@sum", "-x", "+y", "\tz", "long" + strings.Repeat("g", 230), "gewöhnlich",
	}
	z := newZoo(t, names...)
	for i := range names {
		names[i] += ".onnx"
	}
	slices.Sort(names)
	if err := syscall.Mkfifo(filepath.Join(z.in, "p\x1bipe.onnx"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, ran := range []int{len(names), 0} {
		c := z.command("batch", z.in, z.out, "--effort", "fast", "--json")
		var errs bytes.Buffer
		c.Stderr = &errs
		text, err := c.Output()
		var totals struct{ Ran int }
		if err != nil || json.Unmarshal(text, &totals) != nil || totals.Ran != ran {
			t.Fatalf("%v: %s%s", err, text, &errs)
		}
		for line := range strings.Lines(errs.String()) {
			line = strings.TrimSuffix(line, "\n")
			if line != printable.Escape(line) || utf8.RuneCountInString(line) > 400 {
				t.Errorf("printed %q", line)
			}
		}
		if !strings.Contains(errs.String(), `p\x1bipe.onnx: is a pipe, expected a model: skipped`) {
			t.Errorf("the pipe is not named: %s", &errs)
		}
	}
	z.check()

	text, err := os.ReadFile(filepath.Join(z.out, "journal.jsonl"))
	if err != nil || !utf8.Valid(text) {
		t.Errorf("the journal is not UTF-8 (%v)", err)
	}
	var found []string
	for line := range bytes.Lines(text) {
		var e batch.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		found = append(found, e.Model)
	}
	slices.Sort(found)
	if !slices.Equal(found, names) {
		t.Errorf("the journal names %q, expected %q", found, names)
	}

	f, err := os.Open(filepath.Join(z.out, "results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != len(names)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		if cell := row[0]; strings.ContainsAny(cell[:1], "=+-@\t\r") || printable.Escape(cell) != cell {
			t.Errorf("the table names %q", cell)
		}
	}

	page, err := os.ReadFile(filepath.Join(z.out, "index.html"))
	if err != nil || !utf8.Valid(page) {
		t.Errorf("the page is not UTF-8 (%v)", err)
	}
	links := regexp.MustCompile(`href="([^"]*)"`).FindAllSubmatch(page, -1)
	if len(links) != len(names) {
		t.Errorf("%d links, expected %d", len(links), len(names))
	}
	for _, link := range links {
		u, err := url.Parse(html.UnescapeString(string(link[1])))
		if err != nil || u.Scheme != "" {
			t.Errorf("link %s: %v", link[1], err)
			continue
		}
		if _, err := os.Stat(filepath.Join(z.out, u.Path)); err != nil {
			t.Errorf("link %s: %v", link[1], err)
		}
	}
}
