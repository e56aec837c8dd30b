package zoo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/onnx"
)

// Counters of models: those worked on in this run, and those left as an earlier
// run made them.
var (
	ranCounter  = beam.NewCounter("onnxmem", "ran")
	leftCounter = beam.NewCounter("onnxmem", "left")
)

// planFn plans the models of one name. What goes wrong with a model stands in its
// line of the journal; it does not end the pipeline.
type planFn struct {
	Zoo   Zoo
	files files
}

// Teardown ends the use of file systems.
func (f *planFn) Teardown() { f.files.close() }

// ProcessElement plans the model of a name, if it is one.
func (f *planFn) ProcessElement(ctx context.Context, rel string, paths func(*string) bool, emit func(outcome)) {
	var name, p string
	for paths(&p) {
		if name != "" && name != p {
			emit(outcome{lineOf(batch.Entry{
				Model: rel, Status: batch.StatusFailed,
				Error: fmt.Sprintf("%s and %s would both be written to %s: expected models of different names", min(name, p), max(name, p), rel),
			}), true})
			return
		}
		name = p
	}
	line, ran := f.plan(ctx, rel, name)
	if ran {
		ranCounter.Inc(ctx, 1)
	} else {
		leftCounter.Inc(ctx, 1)
	}
	emit(outcome{line, ran})
}

// plan gives a model's line of the journal: that of an earlier run, if it planned
// the same model in the same way, else that of planning it.
func (f *planFn) plan(ctx context.Context, rel, name string) (line string, ran bool) {
	began := time.Now()
	t := &task{planFn: f, rel: rel, name: name}
	journal := join(f.Zoo.Out, journalFolder+"/"+rel+".json")
	entry := batch.Entry{Status: batch.StatusFailed}
	if err := t.fetch(ctx); err != nil {
		entry.Error = fmt.Sprintf("%s: cannot be read: %v", name, err)
	} else {
		entry.Key = batch.Key(t.job.In, f.Zoo.Job)
		if last, err := f.files.read(ctx, journal); err == nil && t.stands(ctx, last, entry.Key) {
			t.remove()
			return string(last), false
		}
		entry = t.plan(ctx, entry.Key)
	}
	t.remove()
	entry.Model, entry.MS = rel, optimize.Milliseconds(time.Since(began))
	line = lineOf(entry)
	if err := f.files.write(ctx, journal, strings.NewReader(line)); err != nil && entry.Status == batch.StatusOK {
		entry.Status, entry.Error = batch.StatusFailed, err.Error()
		line = lineOf(entry)
	}
	return line, true
}

// journalFolder is the folder in OUT that has a line for each model, from which a
// pipeline that was ended goes on.
const journalFolder = ".journal"

func lineOf(e batch.Entry) string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // its one part that could be wrong is JSON that was read
	}
	return string(text)
}

// task is the work on one model, in a folder of this machine.
type task struct {
	*planFn
	rel, name string // below OUT; on its file system
	dir       string
	job       optimize.Job
	external  []string // files beside the model that hold its external data
}

// fetch brings the model to this machine, and stand-ins for its external data: of
// the same size and time, and empty, as planning needs no weight.
func (t *task) fetch(ctx context.Context) (err error) {
	if t.dir, err = os.MkdirTemp("", atomicfile.Prefix); err != nil {
		return err
	}
	in, out := filepath.Join(t.dir, "in"), filepath.Join(t.dir, "out")
	for _, dir := range []string{in, out} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			return err
		}
	}
	base := path.Base(t.rel)
	t.job = t.Zoo.Job
	t.job.In, t.job.Out = filepath.Join(in, base), filepath.Join(out, base)
	t.job.ExternalData = string(onnx.ExternalKeep)
	if t.Zoo.Reports {
		t.job.Report = optimize.ReportPath(t.job.Out)
	}
	if err := t.files.fetch(ctx, t.name, t.job.In); err != nil {
		return err
	}
	f, err := onnx.Open(t.job.In, onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		return nil // the worker says why
	}
	locations := onnx.Locations(f.Model)
	f.Close()
	for _, name := range locations {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			continue // it is refused
		}
		from := join(dirOf(t.name), name)
		bytes, there, err := t.files.size(ctx, from)
		if err != nil {
			return fmt.Errorf("its external data %s: %w", name, err)
		}
		if !there {
			continue // as above
		}
		if err := standIn(filepath.Join(in, filepath.FromSlash(name)), bytes, t.files.modified(ctx, from)); err != nil {
			return err
		}
		t.external = append(t.external, name)
	}
	return nil
}

// standIn makes a file of a size that takes no room.
func standIn(name string, bytes int64, modified time.Time) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := f.Truncate(bytes); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Chtimes(name, modified, modified)
}

// stands reports whether the line of an earlier run still holds: for the same
// work, whose results are there.
func (t *task) stands(ctx context.Context, line []byte, key string) bool {
	var e batch.Entry
	if json.Unmarshal(line, &e) != nil || e.Status != batch.StatusOK || e.Key != key || e.Model != t.rel {
		return false
	}
	for _, name := range t.job.Files() {
		if _, there, err := t.files.size(ctx, t.target(filepath.Base(name))); err != nil || !there {
			return false
		}
	}
	return true
}

// target is where a file goes that lies beside the planned model.
func (t *task) target(name string) string { return join(dirOf(join(t.Zoo.Out, t.rel)), name) }

// plan plans the model by a process of its own and puts what that made in place.
func (t *task) plan(ctx context.Context, key string) batch.Entry {
	program, err := os.Executable()
	if err != nil {
		return batch.Entry{Key: key, Status: batch.StatusFailed, Error: err.Error()}
	}
	e := batch.Plan(ctx, program, t.job, t.Zoo.ModelTime)
	e.Key = key
	// Messages name files where the user knows them.
	e.Error = strings.NewReplacer(
		filepath.Dir(t.job.In), dirOf(t.name), filepath.Dir(t.job.Out), dirOf(join(t.Zoo.Out, t.rel)),
	).Replace(e.Error)
	if e.Status != batch.StatusOK && e.Result == nil {
		return e
	}
	if err := t.put(ctx); err != nil {
		e.Status, e.Error = batch.StatusFailed, err.Error()
	}
	return e
}

// put puts external data and all files that were made in their places: the plan
// last, as it speaks of the others.
func (t *task) put(ctx context.Context) error {
	if t.Zoo.Job.ExternalData == string(onnx.ExternalCopy) {
		for _, name := range t.external {
			if err := t.files.copy(ctx, join(dirOf(t.name), name), t.target(name)); err != nil {
				return fmt.Errorf("%s: %w", t.target(name), err)
			}
		}
	}
	made, err := os.ReadDir(filepath.Dir(t.job.Out))
	if err != nil {
		return err
	}
	plan := filepath.Base(optimize.PlanPath(t.job.Out))
	names := []string{}
	for _, m := range made {
		if m.Name() != plan {
			names = append(names, m.Name())
		}
	}
	for _, name := range append(names, plan) {
		if err := t.files.put(ctx, filepath.Join(filepath.Dir(t.job.Out), name), t.target(name)); err != nil {
			return fmt.Errorf("%s: %w", t.target(name), err)
		}
	}
	return nil
}

// remove takes the folder away.
func (t *task) remove() {
	if t.dir != "" {
		os.RemoveAll(t.dir)
	}
}
