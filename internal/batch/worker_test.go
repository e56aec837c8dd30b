package batch

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
)

// TestMain makes this program a worker when it is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == WorkerArg {
		os.Exit(Serve(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// model writes a small network and gives the job of planning it.
func model(t *testing.T) optimize.Job {
	t.Helper()
	dir := t.TempDir()
	built, err := models.Build("mobilenet_v1", models.Options{Set: map[string]string{"width": "0.25", "size": "32", "classes": "10"}})
	if err != nil {
		t.Fatal(err)
	}
	j := optimize.Job{In: filepath.Join(dir, "in.onnx"), Out: filepath.Join(dir, "out.onnx"), ExternalData: "copy"}
	j.Align = 64
	im, err := onnx.Encode(built)
	if err != nil {
		t.Fatal(err)
	}
	if err := onnx.Write(j.In, built, im, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return j
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// A worker answers with what became of the model, whatever that is.
func TestPlanSaysWhatBecameOfAModel(t *testing.T) {
	job := model(t)
	small := units.Size(1)
	for _, c := range []struct {
		name    string
		change  func(*optimize.Job)
		status  string
		message string
		result  bool // figures are there
	}{
		{"planned", func(j *optimize.Job) { j.Report = optimize.ReportPath(j.Out) }, StatusOK, "", true},
		{"refused", func(j *optimize.Job) { j.In += ".none" }, StatusRefused, "not found", false},
		{"a limit not met", func(j *optimize.Job) { j.MaxArena = &small }, StatusFailed, "arena is", true},
		{"an output that cannot be", func(j *optimize.Job) { j.Plan = j.Out }, StatusFailed, "expected another place for the plan", false},
	} {
		j := job
		c.change(&j)
		e := Plan(context.Background(), self(t), j, 0)
		if e.Status != c.status || !strings.Contains(e.Error, c.message) || (c.message == "") != (e.Error == "") || (e.Result != nil) != c.result {
			t.Errorf("%s: got %+v", c.name, e)
		}
		if e.Status != StatusOK {
			continue
		}
		for _, name := range j.Files() {
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// A worker that dies is a failed model, and its last word the reason.
func TestPlanOutlivesItsWorker(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no shell to play a worker")
	}
	for script, want := range map[string]string{
		"echo 'fatal error: out of memory' >&2; echo more >&2; exit 2": "fatal error: out of memory",
		"kill -9 $$": "killed: out of memory?",
		"exit 0":     "without a result",
	} {
		program := filepath.Join(t.TempDir(), "worker")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o777); err != nil {
			t.Fatal(err)
		}
		e := Plan(context.Background(), program, optimize.Job{}, 0)
		if e.Status != StatusFailed || !strings.Contains(e.Error, want) || strings.Contains(e.Error, "more") {
			t.Errorf("%s: got %+v", script, e)
		}
	}
}

// A worker whose batch is gone ends without leaving anything.
func TestWorkerEndsWithItsBatch(t *testing.T) {
	job := model(t)
	if err := os.Remove(job.In); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("mkfifo", job.In).Run(); err != nil {
		t.Skip("no named pipes: ", err)
	}
	silent, err := os.OpenFile(job.In, os.O_RDWR, 0) // who writes nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	text, err := json.Marshal(requestOf(job))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self(t), WorkerArg)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(20*time.Second, func() { c.Process.Kill() })
	defer kill.Stop()
	if _, err := in.Write(text); err != nil { // it waits for its model from here on
		t.Fatal(err)
	}
	in.Close()
	_ = c.Wait()
	if got := c.ProcessState.ExitCode(); got != 1 {
		t.Errorf("exit status %d, expected 1", got)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(job.Out), "out*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// Where a model and its results lie is not in the key; what it holds and what is
// made of it is.
func TestKey(t *testing.T) {
	job := model(t)
	first := Key(job.In, job)
	moved := job
	moved.In, moved.Out, moved.Report = "/elsewhere/in.onnx", "/elsewhere/out.onnx", "/elsewhere/report.html"
	if got := Key(job.In, moved); got != first || first == "" {
		t.Errorf("the key of the same work elsewhere is %q, expected %q", got, first)
	}
	for name, change := range map[string]func(*optimize.Job){
		"a dimension": func(j *optimize.Job) { j.Dim = optimize.Dims{"batch": "2"} },
		"the version": func(j *optimize.Job) { j.Tool = "onnxmem 99" },
		"a limit":     func(j *optimize.Job) { m := units.Size(1); j.MaxPeak = &m },
		"training":    func(j *optimize.Job) { j.Train = true },
	} {
		other := job
		change(&other)
		if Key(job.In, other) == first {
			t.Errorf("%s: the same key", name)
		}
	}
}
