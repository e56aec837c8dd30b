//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestBatchIsKilled kills batches and their children 25 times ("make sweeps": fifty
// times; or ONNXMEM_KILLS times), each a little later than the one before. Every other time, two batches plan
// the same models with different options into the same folder. After each kill, a model
// and its plan belong together once they are opened, the journal's entry for a model is
// true of its files, and the next run continues. At the end all models are planned and
// no temporary file is left.
func TestBatchIsKilled(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("ONNXMEM_KILLS"))
	if err != nil {
		kills = 25
		if sweep.On() {
			kills = 50
		}
	}
	z := newZoo(t, "a", "b", "c", "d")
	finished := 0
	atomicfile.Notice = func(line string) {
		t.Log(line)
		finished++
	}
	t.Cleanup(func() { atomicfile.Notice = nil })
	for i := range kills {
		var running []*exec.Cmd
		for k := range 1 + i%2 {
			// Other options each time, so that all models need planning.
			c := z.command("batch", z.in, z.out, "--effort", "fast", "--dim", "batch="+strconv.Itoa(1+(2*i+k)%9), "--jobs", "2")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			running = append(running, c)
		}
		killed := make(chan bool)
		time.AfterFunc(time.Duration(i*50/kills)*time.Duration(4+4*(i%2))*time.Millisecond, func() {
			for _, c := range running {
				_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			}
			close(killed)
		})
		<-killed
		for _, c := range running {
			_ = c.Wait()
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // children that outlive it
		}
		z.check()
	}
	t.Logf("%d of %d kills fell between two renames", finished, kills+kills/2)
	if text, err := z.command("batch", z.in, z.out, "--effort", "fast").CombinedOutput(); err != nil {
		t.Fatalf("the run after them: %v: %s", err, text)
	}
	if n := z.check(); n != 4 {
		t.Errorf("%d models are planned, expected 4", n)
	}
	z.clean()
}

// TestBatchesShareAFolder runs batches in parallel: each model is planned by one of
// them, the last to end writes the tables of all, and none takes another's model.
func TestBatchesShareAFolder(t *testing.T) {
	for name, each := range map[string][]string{
		"the same models": {"", "", ""},
		"shards":          {"1/3", "2/3", "3/3"},
		"overlapping":     {"1/2", "", "2/3"},
	} {
		t.Run(name, func(t *testing.T) {
			z := newZoo(t, "a", "b", "deep/c", "d", "e", "f")
			var running []*exec.Cmd
			var outs []*bytes.Buffer
			for _, shard := range each {
				c := z.command("batch", z.in, z.out, "--effort", "fast", "--json", "--jobs", "2", "--shard="+shard)
				if shard == "" {
					c.Args = c.Args[:len(c.Args)-1]
				}
				var out, errs bytes.Buffer
				c.Stdout, c.Stderr = &out, &errs
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				running, outs = append(running, c), append(outs, &out)
			}
			ran := 0
			for i, c := range running {
				if err := c.Wait(); err != nil {
					t.Errorf("%v: %s", err, c.Stderr)
				}
				var totals struct{ Ran int }
				if err := json.Unmarshal(outs[i].Bytes(), &totals); err != nil {
					t.Errorf("%v: %s", err, outs[i])
				}
				ran += totals.Ran
			}
			if n := z.check(); n != 6 || ran != 6 {
				t.Errorf("%d models are planned, by %d runs of a worker, expected 6 and 6", n, ran)
			}
			table, err := os.ReadFile(filepath.Join(z.out, "results.csv"))
			if err != nil || bytes.Count(table, []byte(",ok,")) != 6 {
				t.Errorf("%v, the table is\n%s", err, table)
			}
			z.clean()
		})
	}
}

// zoo is a folder of small models, and the folder of their results.
type zoo struct {
	*testing.T
	exe, in, out string
}

func newZoo(t *testing.T, names ...string) *zoo {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	z := &zoo{t, exe, filepath.Join(dir, "in"), filepath.Join(dir, "out")}
	first := filepath.Join(dir, "model.onnx")
	c := z.command("model", "mobilenet_v1", first, "--set", "width=0.25", "--set", "size=32", "--set", "classes=10", "--seed", "7")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	text, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(z.in, name+".onnx")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Skip("no such names here: ", err)
		}
	}
	return z
}

// command returns onnxmem in its own process group.
func (z *zoo) command(args ...string) *exec.Cmd {
	c := exec.Command(z.exe, args...)
	c.Args[0] = "onnxmem"
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

// check inspects the folder of results, after a kill or not, and returns the number of
// models that the journal lists as planned.
func (z *zoo) check() (planned int) {
	z.Helper()
	last := map[string]batch.Entry{}
	text, _ := os.ReadFile(filepath.Join(z.out, "journal.jsonl"))
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i, line := range lines {
		var e batch.Entry
		if err := json.Unmarshal(line, &e); err == nil {
			last[e.Model] = e
		} else if i < len(lines)-1 {
			z.Errorf("journal, line %d: %q", i+1, line)
		}
	}
	_ = filepath.WalkDir(z.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".onnx" {
			return nil
		}
		p, err := whole(path)
		if err != nil {
			z.Errorf("%s: %v", path, err)
			return nil
		}
		rel, _ := filepath.Rel(z.out, path)
		if e := last[rel]; e.Status == batch.StatusOK {
			planned++
			var s plan.Summary
			if err := json.Unmarshal(e.Result, &s); err != nil || s != p.Summary {
				z.Errorf("%s: the journal says %+v, the plan %+v", rel, s, p.Summary)
			}
		}
		return nil
	})
	return planned
}

// clean fails if a run has left temporary files.
func (z *zoo) clean() {
	z.Helper()
	_ = filepath.WalkDir(z.out, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), atomicfile.Prefix) {
			z.Errorf("left %s", path)
		}
		return nil
	})
}

// whole reads a planned model and its plan, which must belong together.
func whole(path string) (*plan.Plan, error) {
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := os.ReadFile(optimize.PlanPath(path))
	if err != nil {
		return nil, err
	}
	p, err := plan.Read(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r, err := verify.Plan(f.Model, p, verify.Options{})
	if err == nil && !r.Valid {
		err = errors.New(r.Violations[0].Message)
	}
	return p, err
}
