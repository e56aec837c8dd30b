//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestProcess: the resident memory of a run is never above the plan's total by more than
// bench/process.py allows any model. All have weights that kernels pack, 45 to 57 MB, so
// that weights which lie in memory twice are beyond it.
func TestProcess(t *testing.T) {
	script, err := os.ReadFile("../../bench/process.py")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^PROMISE_MIB = (\d+)\b`).FindSubmatch(script)
	if found == nil {
		t.Fatal("bench/process.py has no PROMISE_MIB")
	}
	promise, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, model, plan string }{
		{"convolutions", "resnet18", ""},
		{"products of many rows", "bert --set layers=2 --set vocab=1000", "--dim sequence=64"},
		{"products of one row", "vgg16 --set width=0.5 --set size=64", ""},
		{"a training step", "resnet18 --set size=64", "--train --optimizer momentum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inProcess(t, dir, "model "+c.model+" m.onnx")
			inProcess(t, dir, "optimize m.onnx p.onnx --effort fast "+c.plan)
			var r struct {
				Total int64 `json:"total_bytes"`
				Peak  int64 `json:"process_peak_bytes"`
			}
			if err := json.Unmarshal(inProcess(t, dir, "run p.onnx --steps 2 --json"), &r); err != nil {
				t.Fatal(err)
			}
			if r.Peak == 0 || r.Total == 0 || r.Peak > r.Total+promise<<20 {
				t.Errorf("the process had %d MiB and the plan's total is %d MiB, expected at most %d more", r.Peak>>20, r.Total>>20, promise)
			}
		})
	}
}

// inProcess runs a command line in a process of its own, as users do who set nothing of Go's,
// and returns its standard output.
func inProcess(t *testing.T, dir, line string) []byte {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe)
	var out, errs bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = dir, &out, &errs
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GOGC=") && !strings.HasPrefix(v, "GOMEMLIMIT=") { // make test sets them
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, lineVariable+"="+strings.Join(strings.Fields(line), "\n"))
	if err := c.Run(); err != nil {
		t.Fatalf("onnxmem %s: %v: %s", line, err, &errs)
	}
	return out.Bytes()
}
