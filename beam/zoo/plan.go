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

// Counters of models: those planned in this run, and those whose results of an
// earlier run are still valid.
var (
	ranCounter  = beam.NewCounter("onnxmem", "ran")
	leftCounter = beam.NewCounter("onnxmem", "left")
)

// planFn plans the models of one name. An error with a model goes into its line of
// the journal; it does not end the pipeline.
type planFn struct {
	Zoo   Zoo
	files files
}

// Teardown closes the file systems.
func (f *planFn) Teardown() { f.files.close() }

// ProcessElement plans the model of a name. Several models of one name are an error
// of that name.
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

// plan returns a model's line of the journal. If an earlier run planned the same model
// with the same options, it returns that run's line; otherwise it plans the model.
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

// journalFolder is the folder in OUT with a line for each model. An interrupted
// pipeline resumes from it.
const journalFolder = ".journal"

func lineOf(e batch.Entry) string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // impossible: the only raw JSON in it was decoded before
	}
	return string(text)
}

// task is the work on one model, in a local folder.
type task struct {
	*planFn
	rel, name string // below OUT; on its file system
	dir       string
	job       optimize.Job
	external  []string // files beside the model that hold its external data
}

// fetch copies the model to this machine. For its external data it creates sparse
// files of the same size and time, because planning needs no weights.
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

// standIn creates a sparse file of a size.
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

// stands reports whether the line of an earlier run is still valid: it is for the same
// work, and the results exist.
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

// target returns the path of a file beside the planned model.
func (t *task) target(name string) string { return join(dirOf(join(t.Zoo.Out, t.rel)), name) }

// plan plans the model in a separate process and copies the results to OUT.
func (t *task) plan(ctx context.Context, key string) batch.Entry {
	program, err := os.Executable()
	if err != nil {
		return batch.Entry{Key: key, Status: batch.StatusFailed, Error: err.Error()}
	}
	e := batch.Plan(ctx, program, t.job, t.Zoo.ModelTime)
	e.Key = key
	// Messages name files by the paths that the user knows.
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

// put copies external data and all results to OUT, the plan last, because it refers to
// the others.
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

// remove removes the local folder.
func (t *task) remove() {
	if t.dir != "" {
		os.RemoveAll(t.dir)
	}
}
