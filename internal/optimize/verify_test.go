package optimize

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// broken plans a small model over older files, with a last pass that misplaces a buffer of
// the plans for which has is true.
func broken(t *testing.T, has func(*plan.Plan) bool) (_ *Task, dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	m, err := models.Build("mobilenet_v1", models.Options{Set: map[string]string{"width": "0.25", "size": "32", "classes": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"in.onnx": string(b), "out.onnx": "old", "out.plan.json": "old"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	task, err := Job{In: filepath.Join(dir, "in.onnx"), Out: filepath.Join(dir, "out.onnx"), ExternalData: "copy"}.Open(Around{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { task.Close() })
	opt, err := task.Options()
	if err != nil {
		t.Fatal(err)
	}
	opt.Passes = append(passes.Default(), passes.Pass{Name: "broken", Run: func(_ context.Context, s *passes.State) error {
		if p := s.Plan(); has(p) {
			p.Buffers[0].Offset = -p.Alignment
		}
		return nil
	}})
	return task, dir, task.Plan(opt)
}

// TestNothingIsWritten: where no plan is valid, older files stay as they are, and no others
// appear.
func TestNothingIsWritten(t *testing.T) {
	task, dir, err := broken(t, func(*plan.Plan) bool { return true })
	if !errors.As(err, new(*passes.RefusedError)) || !strings.Contains(err.Error(), "in.onnx: no valid plan was found: offset: ") {
		t.Fatalf("got %v, expected a *passes.RefusedError that names the file", err)
	}
	task.Close()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v: expected the three files that were there", list, err)
	}
	for _, name := range []string{"out.onnx", "out.plan.json"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "old" {
			t.Errorf("%s: %v: expected it unchanged", name, err)
		}
	}
}

// TestGivenUpIsSaid: the outcome of a job lists what the plan is without, and the files have
// a valid plan.
func TestGivenUpIsSaid(t *testing.T) {
	task, dir, err := broken(t, func(p *plan.Plan) bool { return p.Sharing.Inplace })
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Write(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(task.Outcome())
	if err != nil || !strings.Contains(string(text), `"given_up":[{"feature":"in-place results","code":"offset","message":"`) {
		t.Errorf("%s, %v: expected what was given up", text, err)
	}
	f, err := onnx.Open(filepath.Join(dir, "out.onnx"), onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := os.Open(filepath.Join(dir, "out.plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p, err := plan.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := verify.Plan(f.Model, p, verify.Options{}); err != nil || !r.Valid {
		t.Errorf("%v, %v: expected a valid plan", r, err)
	}
}
