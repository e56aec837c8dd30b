package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// The loss falls, the trained network classifies most new pictures correctly, all files
// are written, and a second run writes the same files.
func TestTrains(t *testing.T) {
	c := settings{dir: t.TempDir(), steps: 50, every: 20, batch: 16, rate: 0.05, seed: 3, tests: 100, record: true}
	var out bytes.Buffer
	if err := run(t.Context(), c, &out); err != nil {
		t.Fatal(err)
	}
	var losses []float64
	for _, m := range regexp.MustCompile(`(?m)^step +\d+  loss ([\d.]+)$`).FindAllStringSubmatch(out.String(), -1) {
		x, _ := strconv.ParseFloat(m[1], 64)
		losses = append(losses, x)
	}
	right := 0
	if m := regexp.MustCompile(`(?m)^(\d+) of 100 new pictures read right$`).FindStringSubmatch(out.String()); m != nil {
		right, _ = strconv.Atoi(m[1])
	}
	if len(losses) != 4 || losses[3] > losses[0]/2 || right < 40 {
		t.Errorf("expected four losses that fall to half, and 40 of 100 read right:\n%s", &out)
	}
	for name, bytes := range map[string]int64{"losses.f64": 50 * 8, "labels.i64": 50 * 16 * 8, "images.f32": 50 * 16 * side * side * 4} {
		if info, err := os.Stat(filepath.Join(c.dir, name)); err != nil || info.Size() != bytes {
			t.Errorf("%s: %v, expected %d bytes", name, err, bytes)
		}
	}
	again := c
	again.dir = t.TempDir()
	if err := run(t.Context(), again, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"net.onnx", "train.onnx", "train.plan.json", "params.onnx", "trained.onnx"} {
		a, errA := os.ReadFile(filepath.Join(c.dir, name))
		b, errB := os.ReadFile(filepath.Join(again.dir, name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %v, %v, or other bytes the second time", name, errA, errB)
		}
	}
}

func TestSettings(t *testing.T) {
	if err := run(t.Context(), settings{dir: t.TempDir(), steps: 0, every: 1, batch: 1, tests: 1}, &bytes.Buffer{}); err == nil {
		t.Error("expected an error for no steps")
	}
	for i, rows := range font {
		for _, row := range rows {
			if len(row) != 5 {
				t.Errorf("digit %d: %q has not five dots", i, row)
			}
		}
	}
}
