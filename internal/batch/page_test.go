package batch

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// TestPage: the head of the page counts what was planned, refused and failed. A long path is
// shown without folders in its middle, breaks after slashes, and is whole as a title. Every
// cell of a figure has the number that its column sorts by, also for a graph without nodes,
// and rows without figures have none, so that they stay last. Columns of points are there if
// a plan is for ranges; an error does not repeat the name beside it.
func TestPage(t *testing.T) {
	long := strings.Repeat("exports/of/the/team/", 8) + "encoder.onnx"
	figures := json.RawMessage(`{"nodes": 3, "program_order_peak_bytes": 4096, "peak_bytes": 1024, "lower_bound_bytes": 1024, "arena_bytes": 1024}`)
	table, err := NewTable([]Entry{
		{Model: long, Status: StatusOK, Result: figures, MS: 12.4},
		{Model: "b.onnx", Status: StatusOK, Result: figures},
		{Model: "c<b>.onnx", Status: StatusRefused, Error: "in/c<b>.onnx: node 0: " + long},
		{Model: "d.onnx", Status: StatusFailed, Error: "no space"},
		{Model: "e.onnx", Status: StatusOK, Result: json.RawMessage(`{"nodes": 0, "peak_bytes": 64}`)},
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	files, err := table.Files()
	if err != nil {
		t.Fatal(err)
	}
	page := string(files["index.html"])
	short := "exports/<wbr>of/<wbr>the/<wbr>team/<wbr>exports/<wbr>of/<wbr>the/<wbr>team/<wbr>…/<wbr>of/<wbr>the/<wbr>team/<wbr>exports/<wbr>of/<wbr>the/<wbr>team/<wbr>exports/<wbr>of/<wbr>the/<wbr>team/<wbr>exports/<wbr>of/<wbr>the/<wbr>team/<wbr>encoder.onnx"
	for _, want := range []string{
		`<p><span>3 planned</span>, <span class="refused">1 refused</span>, <span class="failed">1 failed</span></p>`,
		`<td class="text model" title="` + long + `"><a href="` + long[:len(long)-len("onnx")] + `report.html">` + short + `</a>`,
		`<td class="text model" title="c&lt;b&gt;.onnx">c&lt;b&gt;.onnx<td`,
		`<td class="text" colspan="10">node 0: exports/of`,
		`<td class="text" colspan="10">no space`,
	} {
		if strings.Count(page, want) != 1 {
			t.Errorf("expected one %q in\n%s", want, page)
		}
	}
	rows := regexp.MustCompile(`<tr><td.*`).FindAllString(page, -1)
	for i, numbers := range []int{9, 9, 0, 0, 9} { // nodes to ms
		if n := strings.Count(rows[i], "data-n="); n != numbers {
			t.Errorf("row %d: %d cells with a number, expected %d: %s", i, n, numbers, rows[i])
		}
	}
	if !strings.Contains(rows[0], `<td data-n="0.750000">75.0 % less<td data-n="1024">1.00 KiB`) {
		t.Errorf("%s: expected the numbers of the texts", rows[0])
	}
	if strings.Contains(page, "worst ratio") {
		t.Errorf("no plan is for ranges, expected no column of their ratio in\n%s", page)
	}
	ranged := json.RawMessage(`{"nodes": 3, "points": 8, "worst_ratio": 1.25}`)
	if table, err = NewTable([]Entry{{Model: "a.onnx", Status: StatusOK, Result: ranged}, {Model: "b.onnx", Status: StatusFailed, Error: "no space"}}, true); err != nil {
		t.Fatal(err)
	}
	if files, err = table.Files(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<th>points<th>worst ratio", `<td data-n="8">8<td data-n="1.250">1.250`, `colspan="12">no space`} {
		if !strings.Contains(string(files["index.html"]), want) {
			t.Errorf("expected %q in\n%s", want, files["index.html"])
		}
	}
	if table, err = NewTable(nil, false); err != nil {
		t.Fatal(err)
	}
	if files, err = table.Files(); err != nil || !strings.Contains(string(files["index.html"]), "<p><span>0 planned</span>, <span>0 refused</span>, <span>0 failed</span></p>") {
		t.Errorf("without models: %v\n%s", err, files["index.html"])
	}
}

// TestMessage: an error without the name of its model, however that is written.
func TestMessage(t *testing.T) {
	long := strings.Repeat("exports/of/the/team/", 12) + "encoder.onnx"
	for _, c := range []struct{ model, text, want string }{
		{"a/b.onnx", "in/a/b.onnx: node 0: wrong", "node 0: wrong"},
		{"a/b.onnx", "in/a/c.onnx: node 0: wrong", "in/a/c.onnx: node 0: wrong"},
		{"a/b.onnx", "no space", "no space"},
		{"a\n.onnx", `in/a\n.onnx: node 0: wrong`, "node 0: wrong"},
		{long, printable.Text("in/"+long) + ": node 0: wrong", "node 0: wrong"},
		{"b.onnx", printable.Text("in/"+long) + ": node 0: wrong", printable.Text("in/"+long) + ": node 0: wrong"},
	} {
		if got := (Entry{Model: c.model, Error: c.text}).Message(); got != c.want {
			t.Errorf("%s: %s: got %q, want %q", c.model, c.text, got, c.want)
		}
	}
}
