package zoo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestMain runs pipelines on Prism. If the program is started as a worker, it is one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == batch.WorkerArg {
		os.Exit(batch.Serve(os.Stdin, os.Stdout))
	}
	ptest.Main(m)
}

// network writes a small network to a file.
func network(t *testing.T, path, size string) {
	t.Helper()
	m, err := models.Build("mobilenet_v1", models.Options{Set: map[string]string{"width": "0.25", "size": size, "classes": "10"}})
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := onnx.Write(path, m, im, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// externalNetwork returns a small network whose parameters lie in weights.bin, and the
// size of that file.
func externalNetwork(t *testing.T) (text []byte, weights int64) {
	t.Helper()
	m, err := models.Build("mobilenet_v1", models.Options{Set: map[string]string{"width": "0.25", "size": "32", "classes": "10"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range m.Graph.Tensors {
		if x.Data != nil && x.Data.Generate != nil {
			x.Data.External, x.Data.Generate = &graph.External{Location: "weights.bin", Length: x.Data.Bytes}, nil
			weights = max(weights, x.Data.Bytes)
		}
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := im.WriteTo(&b); err != nil || weights == 0 {
		t.Fatalf("%d bytes of weights, %v", weights, err)
	}
	return b.Bytes(), weights
}

// zooOf returns a Zoo with usual options.
func zooOf(out string, patterns ...string) Zoo {
	z := Zoo{Patterns: patterns, Out: out, Reports: true, Job: optimize.Job{ExternalData: "copy", Tool: "onnxmem test"}}
	z.Job.Dim = optimize.Dims{"batch": "2"}
	z.Job.Align = 64
	return z
}

// run runs the pipeline and returns the journal by model, and the number of models that
// were planned.
func run(t *testing.T, z Zoo) (map[string]batch.Entry, int) {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	if err := z.Build(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	result := ptest.RunAndValidate(t, p)
	entries := map[string]batch.Entry{}
	for _, line := range strings.Split(strings.TrimSpace(string(read(t, join(z.Out, Journal)))), "\n") {
		var e batch.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("journal: %q: %v", line, err)
		}
		entries[e.Model] = e
	}
	return entries, Ran(result)
}

// read reads a file of any file system.
func read(t *testing.T, name string) []byte {
	t.Helper()
	var f files
	defer f.close()
	text, err := f.read(context.Background(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return text
}

// The pipeline writes the same bytes for a model as onnxmem optimize, its line of the
// journal has the same key as batch's, and a broken model does not stop the others.
func TestPipelineIsBatch(t *testing.T) {
	dir := t.TempDir()
	in, out, direct := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "direct")
	network(t, filepath.Join(in, "a.onnx"), "32")
	network(t, filepath.Join(in, "deep", "b.onnx"), "64")
	if err := os.WriteFile(filepath.Join(in, "deep", "broken.onnx"), []byte("no model"), 0o666); err != nil {
		t.Fatal(err)
	}
	z := zooOf(out, filepath.Join(in, "*.onnx"), filepath.Join(in, "d*", "*.onnx"))
	entries, ran := run(t, z)
	if len(entries) != 3 || ran != 3 {
		t.Fatalf("%d models, %d worked on, expected 3 and 3: %v", len(entries), ran, entries)
	}
	for _, rel := range []string{"a.onnx", "deep/b.onnx"} {
		job := z.Job
		job.In, job.Out = filepath.Join(in, rel), filepath.Join(direct, rel)
		job.Report = optimize.ReportPath(job.Out)
		if err := os.MkdirAll(filepath.Dir(job.Out), 0o777); err != nil {
			t.Fatal(err)
		}
		want, err := job.Do()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range job.Files() {
			made, err := filepath.Rel(direct, name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(read(t, filepath.Join(out, made)), read(t, name)) {
				t.Errorf("%s: not what onnxmem optimize writes", made)
			}
		}
		var got plan.Summary
		e := entries[rel]
		if err := json.Unmarshal(e.Result, &got); err != nil || e.Status != batch.StatusOK || e.Key != batch.Key(job.In, job) || got != want.Summary {
			t.Errorf("%s: %+v, %v", rel, e, err)
		}
	}
	e := entries["deep/broken.onnx"]
	if e.Status != batch.StatusRefused || !strings.Contains(e.Error, filepath.Join(in, "deep", "broken.onnx")) || strings.Contains(e.Error, os.TempDir()+"/.onnxmem") {
		t.Errorf("a broken model: %+v", e)
	}
	for _, name := range []string{"results.csv", "index.html"} {
		if text := string(read(t, filepath.Join(out, name))); !strings.Contains(text, "deep/broken.onnx") {
			t.Errorf("%s lacks a model", name)
		}
	}

	// A second run plans the models that failed or changed, and keeps the others.
	network(t, filepath.Join(in, "a.onnx"), "96")
	before := entries["deep/b.onnx"]
	entries, ran = run(t, z)
	if after := entries["deep/b.onnx"]; ran != 2 || after.MS != before.MS {
		t.Errorf("%d worked on, expected 2; b took %v ms, then %v", ran, before.MS, after.MS)
	}
	if err := os.Remove(filepath.Join(in, "deep", "broken.onnx")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(out, "deep", "b.plan.json")); err != nil {
		t.Fatal(err)
	}
	if _, ran = run(t, z); ran != 1 {
		t.Errorf("a plan is gone: %d worked on, expected 1", ran)
	}
	if left, _ := filepath.Glob(filepath.Join(out, "*", ".onnxmem*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// Models, their list and their external data may lie on any file system.
func TestPipelineOnAnotherFileSystem(t *testing.T) {
	local := filepath.Join(t.TempDir(), "a.onnx")
	network(t, local, "32")
	external, weights := externalNetwork(t)
	var f files
	defer f.close()
	ctx := context.Background()
	for name, text := range map[string][]byte{
		"memfs://bucket/zoo/a.onnx":          read(t, local),
		"memfs://bucket/zoo/ext/b.onnx":      external,
		"memfs://bucket/zoo/ext/c.onnx":      external,
		"memfs://bucket/zoo/ext/weights.bin": make([]byte, weights),
		"memfs://bucket/lost/d.onnx":         external,
		"memfs://bucket/list.txt":            []byte("memfs://bucket/zoo/a.onnx\nmemfs://bucket/zoo/ext/b.onnx\nmemfs://bucket/zoo/ext/c.onnx\nmemfs://bucket/lost/d.onnx\nmemfs://bucket/nosuch.onnx\n"),
	} {
		if err := f.write(ctx, name, bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	z := zooOf("memfs://bucket/out")
	z.List = "memfs://bucket/list.txt"
	entries, ran := run(t, z)
	if ran != 5 {
		t.Errorf("%d worked on, expected 5", ran)
	}
	for rel, want := range map[string]struct{ status, message string }{
		"bucket/zoo/a.onnx":     {batch.StatusOK, ""},
		"bucket/zoo/ext/b.onnx": {batch.StatusOK, ""},
		"bucket/zoo/ext/c.onnx": {batch.StatusOK, ""},
		"bucket/lost/d.onnx":    {batch.StatusRefused, "not found (looked in memfs://bucket/lost)"},
		"bucket/nosuch.onnx":    {batch.StatusFailed, "memfs://bucket/nosuch.onnx: cannot be read"},
	} {
		if e := entries[rel]; e.Status != want.status || !strings.Contains(e.Error, want.message) || want.message == "" && e.Error != "" {
			t.Errorf("%s: %+v", rel, e)
		}
	}
	if got := read(t, "memfs://bucket/out/bucket/zoo/ext/weights.bin"); int64(len(got)) != weights {
		t.Errorf("external data of %d bytes, expected %d", len(got), weights)
	}
	// A planned model is complete, with its external data.
	dir := t.TempDir()
	for _, name := range []string{"b.onnx", "b.plan.json", "weights.bin"} {
		if err := os.WriteFile(filepath.Join(dir, name), read(t, "memfs://bucket/out/bucket/zoo/ext/"+name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m, err := onnx.Open(filepath.Join(dir, "b.onnx"), onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := plan.Read(bytes.NewReader(read(t, filepath.Join(dir, "b.plan.json"))))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := verify.Plan(m.Model, p, verify.Options{}); err != nil || !r.Valid {
		t.Errorf("not valid: %v, %v", r, err)
	}
	if _, ran = run(t, z); ran != 2 {
		t.Errorf("again: %d worked on, expected the 2 that are not planned", ran)
	}
}

// Limits work as in batch; two models with the same target are reported.
func TestPipelineLimits(t *testing.T) {
	dir := t.TempDir()
	network(t, filepath.Join(dir, "a", "m.onnx"), "32")
	network(t, filepath.Join(dir, "b", "m.onnx"), "32")
	late := zooOf(filepath.Join(dir, "late"), filepath.Join(dir, "a", "m.onnx"))
	late.ModelTime = time.Nanosecond
	if e, _ := run(t, late); e["m.onnx"].Status != batch.StatusTimeout {
		t.Errorf("got %+v", e)
	}
	small := zooOf(filepath.Join(dir, "small"), filepath.Join(dir, "a", "m.onnx"))
	most := units.Size(1024)
	small.Job.MaxArena = &most
	if e, _ := run(t, small); e["m.onnx"].Status != batch.StatusFailed || !strings.Contains(e["m.onnx"].Error, filepath.Join(dir, "small", "m.onnx")+": arena is") {
		t.Errorf("got %+v", e)
	}
	both := zooOf(filepath.Join(dir, "both"), filepath.Join(dir, "a", "m.onnx"), filepath.Join(dir, "b", "m.onnx"))
	if e, _ := run(t, both); e["m.onnx"].Status != batch.StatusFailed || !strings.Contains(e["m.onnx"].Error, "would both be written to m.onnx") {
		t.Errorf("got %+v", e)
	}
}

func TestBuildSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		zoo  Zoo
		want string
	}{
		"nothing":       {zooOf(dir), "no models"},
		"no match":      {zooOf(dir, filepath.Join(dir, "*.onnx")), "matches nothing"},
		"a file system": {zooOf(dir, "hdfs://zoo/*.onnx"), "no such file system"},
		"a list":        {Zoo{List: filepath.Join(dir, "nosuch"), Out: dir}, "nosuch: cannot be read"},
	} {
		_, s := beam.NewPipelineWithRoot()
		if err := c.zoo.Build(context.Background(), s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, c := range [][2]string{
		{relOf("zoo/a.onnx"), "zoo/a.onnx"},
		{relOf("/data/zoo/a.onnx"), "data/zoo/a.onnx"},
		{relOf("../../a.onnx"), "a.onnx"},
		{relOf("gs://bucket/zoo/../../a.onnx"), "a.onnx"},
		{relOf("gs://bucket/zoo/a.onnx"), "bucket/zoo/a.onnx"},
		{join("gs://bucket/out/", "zoo/a.onnx"), "gs://bucket/out/zoo/a.onnx"},
		{join("out", "zoo/a.onnx"), filepath.FromSlash("out/zoo/a.onnx")},
		{dirOf("gs://bucket/a.onnx"), "gs://bucket"},
		{dirOf("a.onnx"), "."},
	} {
		if c[0] != c[1] {
			t.Errorf("got %s, want %s", c[0], c[1])
		}
	}
}

// A file that is not written completely does not appear under its name.
func TestWriteIsWholeOrNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "new", "file")
	var f files
	defer f.close()
	if err := f.write(context.Background(), name, &failing{}); err == nil {
		t.Error("no error")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "new", "*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	if err := f.write(context.Background(), name, strings.NewReader("whole")); err != nil || string(read(t, name)) != "whole" {
		t.Errorf("%v", err)
	}
}

// failing is a reader that ends with an error.
type failing struct{ begun bool }

func (r *failing) Read(b []byte) (int, error) {
	if !r.begun {
		r.begun = true
		return copy(b, "half"), nil
	}
	return 0, fmt.Errorf("cut off")
}
