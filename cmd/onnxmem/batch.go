package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/oserr"
	"github.com/onnxmem/onnxmem/internal/units"
)

// batchCmd plans many models.
type batchCmd struct {
	In []string `arg:"" name:"in" help:"Folders, models or patterns; last, the folder for the plans. - is a list on standard input."`

	Jobs      int           `group:"machine" placeholder:"N" help:"Models planned at the same time. Default: number of cores."`
	Memory    units.Size    `group:"machine" placeholder:"SIZE" help:"Memory that they may use together, such as 8GiB. It is estimated from their files. Default: no limit."`
	ModelTime time.Duration `group:"machine" seldom:"" placeholder:"TIME" help:"Time for one model, such as 5m. A model that takes longer fails. Default: no limit."`
	Shard     string        `group:"machine" placeholder:"I/N" help:"Plan the I-th of N equal parts of the list. Each of N machines plans one."`
	Reports   bool          `group:"output" seldom:"" default:"true" negatable:"" help:"Write a report beside each plan."`

	Dims            string      `group:"dimensions" in:"the table of dimensions" placeholder:"FILE.csv" help:"Lengths of dimensions for some models. FILE is a table with the columns pattern, name and value. A row wins over --dim and over earlier rows."`
	ExternalData    string      `group:"output" seldom:"" enum:"copy,link,keep" default:"copy" help:"External data, as for optimize. copy, link or keep."`
	MaxArena        *units.Size `group:"output" placeholder:"SIZE" help:"A model with a larger arena fails."`
	MaxPeak         *units.Size `group:"output" seldom:"" placeholder:"SIZE" help:"A model with a larger peak fails."`
	Sync            bool        `group:"output" seldom:"" help:"Wait until the files are on the disk."`
	InlineFunctions bool        `group:"model" seldom:"" help:"Replace calls of local functions by their bodies first, as for optimize."`
	limitFlags
	trainFlags
	planFlags
}

// Help is the text below the flags.
func (batchCmd) Help() string {
	return `onnxmem batch IN... OUT: IN/a/b.onnx becomes OUT/a/b.onnx. OUT/journal.jsonl has one line per model.
A second run plans only the models that changed, failed or were interrupted. If a model fails,
the exit status is 1.

Examples:
  onnxmem batch zoo/ planned/ --dim batch=8 --jobs 4
  onnxmem batch zoo/ planned/ --dims dims.csv
  find . -name '*.onnx' | onnxmem batch - planned/ --shard 2/8`
}

// Run plans all models, each in a process of its own: a model that crashes it, or
// takes all memory, does not affect the others.
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
	all, err := c.models(e, out)
	if err != nil {
		return err
	}
	var dims modelDims
	if c.Dims != "" {
		if dims, err = readModelDims(c.Dims); err != nil {
			return err
		}
		if err := dims.check(c.Dims, all); err != nil {
			return err
		}
	}
	models, err := c.shard(all)
	if err != nil {
		return err
	}
	if err := c.uses(e, out, models); err != nil {
		return err
	}
	if err := oserr.MakeFolder(out); err != nil {
		return err
	}
	atomicfile.SweepTree(out)
	j, err := batch.OpenJournal(filepath.Join(out, "journal.jsonl"))
	if err != nil {
		return &failure{exitFailed, err.Error()}
	}
	defer j.Close()
	if n := j.Damaged(); n > 0 {
		fmt.Fprintf(e.stderr, "onnxmem: %s: %d lines are not entries: ignored\n", filepath.Join(units.Name(out), "journal.jsonl"), n)
	}
	if j.NoLocks {
		fmt.Fprintf(e.stderr, "onnxmem: %s: the file system has no locks: no other batch may use this folder at the same time\n", units.Name(out))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &batchRun{batchCmd: c, out: out, self: self, journal: j, stderr: e.stderr, all: all, dims: dims}
	ctx, stop := e.signals.context()
	defer stop()
	return b.run(ctx, e, models)
}

// models lists the models to plan, without files that an earlier run wrote to
// out, and reports other files.
func (c *batchCmd) models(e *env, out string) ([]batch.Model, error) {
	found, err := batch.Find(c.In[:len(c.In)-1], os.Stdin)
	if err != nil {
		return nil, &failure{exitFailed, err.Error()}
	}
	for _, text := range found.Skipped {
		fmt.Fprintf(e.stderr, "onnxmem: %s: skipped\n", text)
	}
	kept := make([]batch.Model, 0, len(found.Models))
	for _, m := range found.Models {
		if rel, err := filepath.Rel(out, m.Path); err != nil || !filepath.IsLocal(rel) {
			kept = append(kept, m)
		}
	}
	if len(found.Models) > 0 && len(kept) == 0 {
		return nil, usagef("%s: contains all models: expected another folder for the results", out)
	}
	return kept, nil
}

// shard returns the shard that was asked for.
func (c *batchCmd) shard(models []batch.Model) ([]batch.Model, error) {
	if c.Shard == "" {
		return models, nil
	}
	var i, n int
	if k, err := fmt.Sscanf(c.Shard, "%d/%d", &i, &n); err != nil || k != 2 || i < 1 || i > n || fmt.Sprintf("%d/%d", i, n) != c.Shard {
		return nil, usagef("--shard %s: expected I/N with I from 1 to N", c.Shard)
	}
	return batch.Shard(models, i, n), nil
}

// batchRun is one run of a batch.
type batchRun struct {
	*batchCmd
	out, self string
	journal   *batch.Journal
	stderr    io.Writer
	all       []batch.Model // of all shards
	dims      modelDims

	keys  map[string]string      // hashes of the inputs to plan, by Model.Rel
	first map[string]batch.Entry // the newest entries when this run began

	mu  sync.Mutex
	ran int   // models that this run worked on
	err error // the first error that does not concern a model
}

func (b *batchRun) run(ctx context.Context, e *env, models []batch.Model) error {
	var todo []batch.Model
	b.keys, b.first = map[string]string{}, map[string]batch.Entry{}
	for _, m := range models {
		b.keys[m.Rel] = batch.Key(m.Path, b.of(m))
		last, done := b.done(m)
		if b.first[m.Rel] = last; !done {
			todo = append(todo, m)
		}
	}
	shown := newBatchProgress(b.stderr, len(models), len(models)-len(todo))
	busy := b.planAll(ctx, todo, false, shown)
	b.planAll(ctx, busy, true, shown)
	shown.stop()
	if b.err != nil {
		return b.err
	}
	if ctx.Err() != nil {
		return &failure{exitFailed, "stopped: run the same command to continue"}
	}
	return b.conclude(e, models)
}

// planAll plans models, several at a time. If another run has claimed a model, planAll
// waits for it if wait is set, and otherwise returns it in busy.
func (b *batchRun) planAll(ctx context.Context, models []batch.Model, wait bool, shown *batchProgress) (busy []batch.Model) {
	jobs := b.Jobs
	if jobs <= 0 {
		jobs = runtime.NumCPU()
	}
	batch.Run(ctx, models, batch.Limits{Jobs: jobs, Memory: int64(b.Memory)}, expectedMemory,
		func(ctx context.Context, m batch.Model) batch.Entry {
			entry, had, err := b.planUnclaimed(ctx, m, wait)
			b.mu.Lock()
			defer b.mu.Unlock()
			switch {
			case err != nil && b.err == nil:
				b.err = err
			case err == nil && !had:
				busy = append(busy, m)
			}
			return entry
		},
		func(entry batch.Entry) {
			if entry.Status != "" {
				shown.done(entry)
			}
		})
	return busy
}

// planUnclaimed plans a model if no other run has claimed it, and adds an entry to the
// journal. had is false if another run has claimed it; a model that the other run
// has finished since this run began is not planned again. ctx ends the run.
func (b *batchRun) planUnclaimed(ctx context.Context, m batch.Model, wait bool) (entry batch.Entry, had bool, err error) {
	release, err := batch.Claim(ctx, b.out, m, wait)
	if release == nil || err != nil {
		return entry, false, err
	}
	defer release()
	if err := b.journal.Refresh(); err != nil {
		return entry, true, err
	}
	key := b.keys[m.Rel]
	last, done := b.done(m)
	if done || last.Key == key && last.Status != batch.StatusOK && last.Ended() && last.After(b.first[m.Rel]) {
		return last, true, nil
	}
	if last.Status == batch.StatusOK {
		if err := b.journal.Add(batch.Begun(m.Rel, key)); err != nil {
			return entry, true, err
		}
	}
	entry = b.plan(ctx, m)
	if ctx.Err() != nil {
		return batch.Entry{}, true, nil
	}
	entry.Model, entry.Key = m.Rel, key
	b.mu.Lock()
	b.ran++
	b.mu.Unlock()
	return entry, true, b.journal.Add(entry)
}

// done reports whether the results of a model exist and match the last entry of
// the journal.
func (b *batchRun) done(m batch.Model) (batch.Entry, bool) {
	last, ok := b.journal.Last(m.Rel)
	return last, ok && last.Key == b.keys[m.Rel] && last.Status == batch.StatusOK && b.written(m)
}

// job returns the job that plans a model.
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

// of returns the job of one of the models.
func (b *batchRun) of(m batch.Model) optimize.Job {
	j := b.job(m.Path, filepath.Join(b.out, m.Rel))
	j.Dim = b.dims.of(m, j.Dim)
	return j
}

// written reports whether the results of a model exist.
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
	if err := oserr.MakeFolder(filepath.Dir(job.Out)); err != nil {
		return batch.Entry{Status: batch.StatusFailed, Error: err.Error()}
	}
	return batch.Plan(ctx, b.self, job, b.ModelTime)
}

// expectedMemory is an upper estimate of the memory for planning a model, from the size of
// its file. Planning takes 111 MiB for 24,000 nodes in 0.8 MiB, and 18 MiB for a file of 4.7
// MiB that is mostly weights, which are not loaded.
func expectedMemory(m batch.Model) int64 {
	info, err := os.Stat(m.Path)
	if err != nil {
		return 0
	}
	return 64<<20 + 128*min(info.Size(), 8<<20)
}
