//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Every command refuses a pipe without a writer, and a device, instead of waiting
// forever.
func TestPipesWithoutWriters(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	onnxmem := func(line string) (string, int) {
		// The timeout only bounds the time of a failing test.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, exe, strings.Fields(line)...)
		c.Args[0], c.Dir = "onnxmem", dir
		var errs bytes.Buffer
		c.Stderr = &errs
		_ = c.Run()
		return errs.String(), c.ProcessState.ExitCode()
	}
	if text, status := onnxmem("model mobilenet_v1 m.onnx --set width=0.25 --set size=32"); status != 0 {
		t.Fatal(text)
	}
	if text, status := onnxmem("optimize m.onnx planned.onnx"); status != 0 {
		t.Fatal(text)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"optimize pipe out.onnx", "verify planned.onnx pipe", "verify pipe planned.plan.json", "run pipe --plan planned.plan.json",
		"run planned.onnx --plan pipe", "run planned.onnx --inputs pipe", "run planned.onnx --input input=pipe",
		"inspect pipe", "report pipe -o out.html", "explain pipe", "compare pipe", "export --to csv pipe", "diff pipe planned.plan.json",
		"check planned.onnx --baseline pipe", "order pipe", "pack pipe", "optimize m.onnx out.onnx --limit 90% --costs pipe",
	} {
		for file, want := range map[string]string{"pipe": "is a pipe", os.DevNull: "is a device"} {
			line := strings.ReplaceAll(line, "pipe", file)
			if text, status := onnxmem(line); status != exitRefused || !strings.Contains(text, file+": ") || !strings.Contains(text, want) {
				t.Errorf("onnxmem %s: exit status %d: %s", line, status, text)
			}
		}
	}
}
