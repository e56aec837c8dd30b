package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/vm/kernel"
)

// A node that computes something else ends the run with status 1 and its name; the
// check of the bits cannot see it.
func TestRunNamesAWrongNode(t *testing.T) {
	dir := t.TempDir()
	command := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := run(args, &out, &errs); got != want {
			t.Fatalf("%v: exit status %d, expected %d: %s", args, got, want, errs.String())
		}
		return out.String(), errs.String()
	}
	in, planned := filepath.Join(dir, "in.onnx"), filepath.Join(dir, "out.onnx")
	command(0, "model", "mobilenet_v1", in, "--set=width=0.25", "--set=size=64", "--set=classes=10")
	command(0, "optimize", "--effort=fast", in, planned)
	pool := kernel.Lookup("", "GlobalAveragePool")
	was := pool.Make
	defer func() { pool.Make = was }()
	pool.Make = kernel.Lookup("", "GlobalMaxPool").Make
	command(0, "run", planned, "--check")
	out, errs := command(1, "run", planned, "--check=reference")
	if !strings.Contains(out, "reference            84 nodes: 1 wrong") ||
		!strings.Contains(errs, "differs from the reference: "+planned+": node ") || !strings.Contains(errs, "(GlobalAveragePool): tensor ") ||
		!strings.Contains(errs, ": element ") || !strings.Contains(errs, ", expected ") {
		t.Errorf("%s%s", out, errs)
	}
	if out, _ = command(1, "run", planned, "--check=reference", "--json"); !strings.Contains(out, `"wrong_nodes": 1`) || !strings.Contains(out, `"first_wrong": "`) {
		t.Errorf("%s", out)
	}
}
