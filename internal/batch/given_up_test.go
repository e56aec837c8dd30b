package batch

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestGivenUp: the tables of a batch say which models were planned without a feature, since
// the plan with it was not valid, and why.
func TestGivenUp(t *testing.T) {
	table, err := NewTable([]Entry{
		{Model: "a.onnx", Status: StatusOK, Result: json.RawMessage(`{"nodes": 3, "given_up": [{"feature": "slices", "code": "overlap", "message": "x and y overlap"}, {"feature": "aliases", "code": "alias", "message": "z"}]}`)},
		{Model: "b.onnx", Status: StatusOK, Result: json.RawMessage(`{"nodes": 3}`)},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	if n := table.Totals()["given_up"]; n != 1 {
		t.Errorf("given up in %v models, expected 1", n)
	}
	var out bytes.Buffer
	table.Print(&out)
	if !strings.Contains(out.String(), "not as asked         1 models: ") {
		t.Errorf("%s: expected the number of models", &out)
	}
	files, err := table.Files()
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(files["results.csv"]), "\n")
	if !strings.HasSuffix(rows[0], ",given_up") || !strings.HasSuffix(rows[1], `,"slices, aliases"`) || !strings.HasSuffix(rows[2], ",") {
		t.Errorf("%q: expected the features in the last column", rows)
	}
	page := string(files["index.html"])
	for _, want := range []string{"ok, without slices, aliases<", "with them, the plan is not valid: overlap: x and y overlap"} {
		if strings.Count(page, want) != 1 {
			t.Errorf("%s: expected %q once", page, want)
		}
	}
}
