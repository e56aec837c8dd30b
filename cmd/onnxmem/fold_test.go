package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// languageModel writes a model whose embedding is external data and, transposed, also
// the last layer; and one whose last layer has a transposed weight of its own.
func languageModel(t *testing.T, dir string, tied bool) string {
	t.Helper()
	const words, width = 1000, 64
	elements := make([]byte, 4*words*width)
	for i := range elements {
		elements[i] = byte(i * 7 / 5 & 63)
	}
	if err := os.WriteFile(filepath.Join(dir, "w.bin"), elements, 0o666); err != nil {
		t.Fatal(err)
	}
	outside := func() *graph.Data {
		return &graph.Data{Type: graph.Float32, Dims: []int64{words, width}, Bytes: int64(len(elements)), External: &graph.External{Location: "w.bin", Length: int64(len(elements))}}
	}
	b := graph.NewBuilder("lm", 17)
	ids := b.Input("ids", graph.TensorOf(graph.Int64, graph.Unknown, graph.Unknown), "batch", "sequence")
	w := b.Initializer("embedding", outside())
	last := w
	if !tied {
		last = b.Initializer("last", outside())
	}
	h := b.Node("Relu", "h", b.Node("Gather", "e", w, ids))
	b.Output(b.Node("MatMul", "logits", h, b.Node("Transpose", "wt", last)))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "lm.onnx")
	text, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFold: what is folded out of a model with external data is external, too; verify
// finds the source and computes it again; and a changed byte is found. The summary and
// explain say what --fold any would save.
func TestFold(t *testing.T) {
	command := func(status int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := run(args, &out, &errs); got != status {
			t.Fatalf("onnxmem %s: exit status %d, expected %d: %s%s", strings.Join(args, " "), got, status, &out, &errs)
		}
		return out.String()
	}
	has := func(text string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(text, p) {
				t.Errorf("expected %q in\n%s", p, text)
			}
		}
	}
	dir := t.TempDir()
	in, out := languageModel(t, dir, false), filepath.Join(dir, "out.onnx")
	has(command(0, "optimize", in, out), "folded               1 constant of 250.00 KiB computed once instead of 1 node; before: peak ")
	outside := filepath.Join(dir, "out.folded.bin")
	folded, err := os.ReadFile(outside)
	if err != nil || len(folded) != 4*1000*64 {
		t.Fatalf("%d bytes in %s, error %v", len(folded), outside, err)
	}
	if text := command(0, "verify", out); strings.Contains(text, "source") || strings.Contains(text, " folded,") {
		t.Errorf("expected verify to find the source: %s", text)
	}
	folded[4321] ^= 1
	if err := os.WriteFile(outside, folded, 0o666); err != nil {
		t.Fatal(err)
	}
	has(command(1, "verify", out), `folded: tensor "wt.folded": byte 4321 differs from what the source computes`)

	// Nothing above --fold-limit is computed.
	for limit, folds := range map[string]bool{"249KiB": false, "250KiB": true, "0": false} {
		text := command(0, "optimize", in, filepath.Join(dir, "limited.onnx"), "--fold-limit", limit)
		if strings.Contains(text, "computed once") != folds {
			t.Errorf("--fold-limit %s: expected folds: %t, found\n%s", limit, folds, text)
		}
	}

	tied := t.TempDir()
	in, out = languageModel(t, tied, true), filepath.Join(tied, "out.onnx")
	has(command(0, "optimize", in, out), "with --fold any      peak ", "products would read embedding as it lies")
	has(command(0, "explain", in), "embedding would be read as it lies, not transposed")
	var x struct {
		FoldAny struct {
			TotalBytes int64 `json:"total_bytes"`
			Tensors    []string
		} `json:"fold_any"`
	}
	if err := json.Unmarshal([]byte(command(0, "explain", in, "--json")), &x); err != nil || len(x.FoldAny.Tensors) != 1 {
		t.Errorf("%+v, error %v", x, err)
	}
	var sum struct {
		TotalBytes int64 `json:"total_bytes"`
	}
	if err := json.Unmarshal([]byte(command(0, "optimize", in, out, "--fold", "any", "--json")), &sum); err != nil || sum.TotalBytes != x.FoldAny.TotalBytes {
		t.Errorf("total %d, explain expects %d, error %v", sum.TotalBytes, x.FoldAny.TotalBytes, err)
	}
	if text := command(0, "verify", out); strings.Contains(text, "program_order") || strings.Contains(text, " folded,") {
		t.Errorf("expected verify to compare with the source: %s", text)
	}
	if _, err := os.Stat(filepath.Join(tied, "w.bin")); err != nil {
		t.Error(err)
	}
	has(command(0, "optimize", in, out, "--fold", "off"), "peak, planned order")
	has(command(0, "explain", out), "the peak is ", "wt")
}
