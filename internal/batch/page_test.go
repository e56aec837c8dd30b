package batch

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestPage: the head of the page counts what was planned, refused and failed. A long path is
// shown without its middle, and whole as a title. Every cell of a figure has the number that
// its column sorts by, and rows without figures have none, so that they stay last.
func TestPage(t *testing.T) {
	long := strings.Repeat("exports/of/the/team/", 8) + "encoder.onnx"
	figures := json.RawMessage(`{"nodes": 3, "program_order_peak_bytes": 4096, "peak_bytes": 1024, "lower_bound_bytes": 1024, "arena_bytes": 1024}`)
	table, err := NewTable([]Entry{
		{Model: long, Status: StatusOK, Result: figures, MS: 12.4},
		{Model: "b.onnx", Status: StatusOK, Result: figures},
		{Model: "c<b>.onnx", Status: StatusRefused, Error: "c.onnx: " + long},
		{Model: "d.onnx", Status: StatusFailed, Error: "no space"},
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	files, err := table.Files()
	if err != nil {
		t.Fatal(err)
	}
	page := string(files["index.html"])
	short := long[:mostName/3] + "…" + long[len(long)-(mostName-1-mostName/3):]
	for _, want := range []string{
		`<p><span>2 planned</span>, <span class="refused">1 refused</span>, <span class="failed">1 failed</span></p>`,
		`<td class="text model" title="` + long + `"><a href="` + long[:len(long)-len("onnx")] + `report.html">` + short + `</a>`,
		`<td class="text model" title="c&lt;b&gt;.onnx">c&lt;b&gt;.onnx<td`,
		`<td class="text" colspan="12">no space`,
	} {
		if strings.Count(page, want) != 1 {
			t.Errorf("expected one %q in\n%s", want, page)
		}
	}
	rows := regexp.MustCompile(`<tr><td.*`).FindAllString(page, -1)
	for i, numbers := range []int{9, 9, 0, 0} { // nodes to ms; points and their ratio are empty
		if n := strings.Count(rows[i], "data-n="); n != numbers {
			t.Errorf("row %d: %d cells with a number, expected %d: %s", i, n, numbers, rows[i])
		}
	}
	if !strings.Contains(rows[0], `<td data-n="0.750000">75.0 % less<td data-n="1024">1.00 KiB`) {
		t.Errorf("%s: expected the numbers of the texts", rows[0])
	}
	if table, err = NewTable(nil, false); err != nil {
		t.Fatal(err)
	}
	if files, err = table.Files(); err != nil || !strings.Contains(string(files["index.html"]), "<p><span>0 planned</span>, <span>0 refused</span>, <span>0 failed</span></p>") {
		t.Errorf("without models: %v\n%s", err, files["index.html"])
	}
}
