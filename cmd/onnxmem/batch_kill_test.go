//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
)

// TestBatchIsKilled kills a batch and its children fifty times, each a little
// later than the one before. Whatever the moment, the journal is valid up to its
// last whole line, no file under a final name is half written, and the next run
// goes on; at the end all is done and no temporary is left.
func TestBatchIsKilled(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.Mkdir(in, 0o777); err != nil {
		t.Fatal(err)
	}
	onnxmem := func(args ...string) *exec.Cmd {
		c := exec.Command(exe, args...)
		c.Args[0] = "onnxmem"
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return c
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		c := onnxmem("model", "mobilenet_v1", filepath.Join(in, name+".onnx"), "--set", "width=0.25", "--set", "size=32", "--set", "classes=10", "--seed", "7")
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	for i := range 50 {
		// Other options each time, so that there is always all to do.
		c := onnxmem("batch", in, out, "--effort", "fast", "--dim", "batch="+string(rune('1'+i%9)), "--jobs", "2")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(i)*4*time.Millisecond, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
		_ = c.Wait()
		kill.Stop()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // children that outlive it
		checkKilled(t, out)
	}
	if text, err := onnxmem("batch", in, out, "--effort", "fast").CombinedOutput(); err != nil {
		t.Fatalf("the run after them: %v: %s", err, text)
	}
	checkKilled(t, out)
	for _, name := range []string{"a", "b", "c", "d"} {
		if err := whole(filepath.Join(out, name+".onnx")); err != nil {
			t.Error(err)
		}
	}
	_ = filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), atomicfile.Prefix) {
			t.Errorf("left %s", path)
		}
		return nil
	})
}

// checkKilled looks at what a killed run left.
func checkKilled(t *testing.T, out string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "journal.jsonl"))
	if err != nil {
		return // killed before it began
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i, line := range lines {
		var e batch.Entry
		if last := i == len(lines)-1; !last && json.Unmarshal(line, &e) != nil {
			t.Errorf("journal, line %d: %q", i+1, line)
		}
	}
	models, _ := filepath.Glob(filepath.Join(out, "*.onnx"))
	for _, m := range models {
		f, err := onnx.Open(m, onnx.ReadOptions{})
		if err != nil {
			t.Errorf("%s is half written: %v", m, err)
			continue
		}
		f.Close()
	}
}

// whole reports whether a planned model and its plan belong together.
func whole(path string) error {
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := os.ReadFile(optimize.PlanPath(path))
	if err != nil {
		return err
	}
	p, err := plan.Read(bytes.NewReader(text))
	if err != nil {
		return err
	}
	r, err := plan.Verify(f.Model, p, plan.VerifyOptions{})
	if err == nil && len(r.Violations) > 0 {
		err = &failure{exitFailed, path + ": not valid"}
	}
	return err
}
