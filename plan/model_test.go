package plan_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// A model is planned, and written with its plan.
func ExampleWriteModel() {
	m, err := models.Build("mobilenet_v1", models.Options{Set: map[string]string{"width": "0.25"}})
	if err != nil {
		log.Fatal(err)
	}
	result, err := passes.Optimize(context.Background(), m, passes.Options{Dims: map[string]int64{"batch": 8}})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := plan.WriteModel(filepath.Join(dir, "planned.onnx"), result.Model, result.Plan, onnx.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range files {
		fmt.Println(f.Name())
	}
	// Output:
	// planned.onnx
	// planned.plan.json
}

// TestWriteModel: what is written is valid as a pair, also in the place of another pair. If
// the plan cannot be written, the model that was there stays, and nothing is left over.
func TestWriteModel(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "planned.onnx")
	write := func(path string, batch int64) error {
		m, err := models.Build("mobilenet_v1", models.Options{Set: map[string]string{"width": "0.25"}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := passes.Optimize(t.Context(), m, passes.Options{Dims: map[string]int64{"batch": batch}})
		if err != nil {
			t.Fatal(err)
		}
		return plan.WriteModel(path, r.Model, r.Plan, onnx.WriteOptions{})
	}
	for _, batch := range []int64{1, 2} {
		if err := write(path, batch); err != nil {
			t.Fatal(err)
		}
		f, err := onnx.Open(path, onnx.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(plan.Path(path))
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := verify.Plan(f.Model, p, verify.Options{})
		if err != nil || !got.Valid || p.Dims["batch"].Value != batch || p.Model.File != "planned.onnx" {
			t.Errorf("batch %d: %v, %v", batch, err, got)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(plan.Path(path)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(plan.Path(path), "in the way"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := write(path, 3); err == nil {
		t.Error("a folder in the place of the plan: expected an error")
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the model was replaced without its plan (%v)", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("left over: %v, %v", files, err)
	}
	if err := write("-", 1); err == nil {
		t.Error("standard output: expected an error")
	}
}
