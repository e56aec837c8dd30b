package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
)

// batchCmd plans many models.
type batchCmd struct {
	In []string `arg:"" name:"in" help:"Folders, models or patterns, or - for a list on standard input; last, the folder that the planned models go to."`

	Jobs      int           `placeholder:"N" help:"Models at a time (default: the cores)."`
	Memory    units.Size    `placeholder:"SIZE" help:"Memory that those may take together, estimated from their files, such as 8GiB (default: any)."`
	ModelTime time.Duration `placeholder:"TIME" help:"Time for one model, such as 5m; what takes longer has failed (default: any)."`
	Shard     string        `placeholder:"I/N" help:"The I-th of N equal parts of the list, for one of N machines."`
	Reports   bool          `default:"true" negatable:"" help:"Write a report beside each plan."`

	ExternalData    string      `enum:"copy,link,keep" default:"copy" help:"External data: copy, link or keep, as optimize has it."`
	MaxArena        *units.Size `placeholder:"SIZE" help:"A model whose arena is larger has failed."`
	MaxPeak         *units.Size `placeholder:"SIZE" help:"A model whose peak is larger has failed."`
	Sync            bool        `help:"Wait until the files are on the disk."`
	InlineFunctions bool        `help:"Replace calls of local functions by their bodies first, as optimize has it."`
	limitFlags
	trainFlags
	planFlags
}

// Help is shown below the flags.
func (batchCmd) Help() string {
	return `onnxmem batch IN... OUT: IN/a/b.onnx becomes OUT/a/b.onnx. OUT/journal.jsonl has one line a model; a
second run does only what changed, failed or was cut off. Exit status 1 if a model failed.

Examples:
  onnxmem batch zoo/ planned/ --dim batch=8 --jobs 4
  find . -name '*.onnx' | onnxmem batch - planned/ --shard 2/8`
}

// Run plans all models, each in a process of its own: one that breaks, or takes
// all memory, stops nothing.
func (c *batchCmd) Run(e *env) error {
	if len(c.In) < 2 {
		return usagef("expected IN and OUT")
	}
	out := c.In[len(c.In)-1]
	if c.Jobs < 0 {
		return usagef("--jobs %d: expected 1 or more", c.Jobs)
	}
	if err := c.job("", "").Check(); err != nil {
		return err
	}
	models, err := c.models(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	removeLeftovers(out)
	j, err := batch.OpenJournal(filepath.Join(out, "journal.jsonl"))
	if err != nil {
		return &failure{exitFailed, err.Error()}
	}
	defer j.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &batchRun{batchCmd: c, out: out, self: self, journal: j}
	ctx, stop := e.signals.context()
	defer stop()
	return b.run(ctx, e, models)
}

// models lists what is to be planned: the shard asked for, without what an
// earlier run wrote to out.
func (c *batchCmd) models(out string) ([]batch.Model, error) {
	models, err := batch.Find(c.In[:len(c.In)-1], os.Stdin)
	if err != nil {
		return nil, &failure{exitFailed, err.Error()}
	}
	kept := models[:0]
	for _, m := range models {
		if rel, err := filepath.Rel(out, m.Path); err != nil || !filepath.IsLocal(rel) {
			kept = append(kept, m)
		}
	}
	if len(models) > 0 && len(kept) == 0 {
		return nil, usagef("%s: all models lie there: expected another place for the results", out)
	}
	if c.Shard == "" {
		return kept, nil
	}
	var i, n int
	if k, err := fmt.Sscanf(c.Shard, "%d/%d", &i, &n); err != nil || k != 2 || i < 1 || i > n || fmt.Sprintf("%d/%d", i, n) != c.Shard {
		return nil, usagef("--shard %s: expected I/N with I from 1 to N", c.Shard)
	}
	return batch.Shard(kept, i, n), nil
}

// removeLeftovers takes away what a killed run left half written.
func removeLeftovers(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), atomicfile.Prefix) {
			os.Remove(path)
		}
		return nil
	})
}

// batchRun is one run of a batch.
type batchRun struct {
	*batchCmd
	out, self string
	journal   *batch.Journal
}

func (b *batchRun) run(ctx context.Context, e *env, models []batch.Model) error {
	var todo []batch.Model
	keys := map[string]string{}
	for _, m := range models {
		key := batch.Key(m.Path, b.of(m))
		keys[m.Rel] = key
		last, ok := b.journal.Last(m.Rel)
		if !ok || last.Key != key || last.Status != batch.StatusOK || !b.written(m) {
			todo = append(todo, m)
		}
	}
	jobs := b.Jobs
	if jobs <= 0 {
		jobs = runtime.NumCPU()
	}
	shown := newBatchProgress(e.stderr, len(models), len(models)-len(todo))
	var failed error
	batch.Run(ctx, todo, batch.Limits{Jobs: jobs, Memory: int64(b.Memory), Each: b.ModelTime}, expectedMemory,
		func(ctx context.Context, m batch.Model) batch.Entry {
			entry := b.plan(ctx, m)
			entry.Model, entry.Key = m.Rel, keys[m.Rel]
			return entry
		},
		func(entry batch.Entry) {
			if err := b.journal.Add(entry); err != nil && failed == nil {
				failed = err
			}
			shown.done(entry)
		})
	shown.stop()
	if failed != nil {
		return failed
	}
	if ctx.Err() != nil {
		return &failure{exitFailed, "stopped: the same command goes on where this one ended"}
	}
	return b.conclude(e, models, len(todo))
}

// job is the work on a model.
func (c *batchCmd) job(in, out string) optimize.Job {
	j := optimize.Job{
		In: in, Out: out, ExternalData: c.ExternalData, Sync: c.Sync, MaxArena: c.MaxArena, MaxPeak: c.MaxPeak,
		InlineFunctions: c.InlineFunctions, SpareDims: true, Tool: tool(), TrainFlags: c.trainFlags, LimitFlags: c.limitFlags, PlanFlags: c.PlanFlags,
	}
	if c.Reports {
		j.Report = optimize.ReportPath(out)
	}
	return j
}

// of is the work on one of the models.
func (b *batchRun) of(m batch.Model) optimize.Job {
	return b.job(m.Path, filepath.Join(b.out, m.Rel))
}

// written reports whether the results of a model are there.
func (b *batchRun) written(m batch.Model) bool {
	for _, name := range b.of(m).Files() {
		if _, err := os.Stat(name); err != nil {
			return false
		}
	}
	return true
}

// plan plans one model in a process of its own.
func (b *batchRun) plan(ctx context.Context, m batch.Model) batch.Entry {
	job := b.of(m)
	if err := os.MkdirAll(filepath.Dir(job.Out), 0o777); err != nil {
		return batch.Entry{Status: batch.StatusFailed, Error: err.Error()}
	}
	return batch.Plan(ctx, b.self, job)
}

// expectedMemory is what planning a model takes at most, by its file: 111 MiB
// for 24,000 nodes in 0.8 MiB, 18 MiB for a file of 4.7 MiB that is mostly
// weights, which stay where they are.
func expectedMemory(m batch.Model) int64 {
	info, err := os.Stat(m.Path)
	if err != nil {
		return 0
	}
	return 64<<20 + 128*min(info.Size(), 8<<20)
}
