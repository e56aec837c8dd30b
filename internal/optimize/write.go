package optimize

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/files"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// How far the plan of a report was checked.
const (
	asPlanned  = "as planned, not verified against its model"
	asVerified = "as planned, verified against its model"
)

// Write writes the model, its external data, the plan and their companions, all
// or none.
func (t *Task) Write() error {
	began := time.Now()
	im, moved, err := t.Encode()
	if err != nil {
		return err
	}
	files, err := t.stage(im, moved)
	defer func() {
		for _, p := range files {
			p.Abort()
		}
	}()
	if err != nil {
		return err
	}
	// Windows cannot replace a file that is mapped.
	if err := t.Close(); err != nil {
		return err
	}
	if err := atomicfile.Commit(t.Sync, files...); err != nil {
		return err
	}
	t.Times.Write, t.Times.Total = Milliseconds(time.Since(began)), Milliseconds(time.Since(t.began))
	return nil
}

// Encode returns the planned model, and completes its plan. moved are the constants that it
// expects in a file of their own, which WriteFolded writes.
func (t *Task) Encode() (im *onnx.Image, moved []*graph.Data, err error) {
	moved = t.moveFolded()
	if im, err = onnx.Encode(t.Result.Model); err != nil {
		return nil, nil, err
	}
	name := t.Out
	if name == "-" {
		name = "model.onnx"
	}
	t.Result.Plan.Model = plan.ImageOf(name, im)
	return im, moved, nil
}

// Origin says how far the plan was checked.
func (t *Task) Origin() string {
	if t.NoVerify {
		return asPlanned
	}
	return asVerified
}

// stage writes all files under temporary names, in the order in which they will
// be renamed: the plan after the files that it describes. Output to standard
// output is written at once. Files are returned even with an error.
func (t *Task) stage(im *onnx.Image, moved []*graph.Data) (files []*atomicfile.File, err error) {
	if t.Out == "-" {
		if _, err := im.WriteTo(t.Stdout); err != nil {
			return files, err
		}
	} else {
		p, err := onnx.Stage(t.Out, im)
		if err != nil {
			return files, err
		}
		files = append(files, p)
		external, err := onnx.StageExternal(t.File.Model, filepath.Dir(t.Out), onnx.ExternalMode(t.ExternalData))
		if err != nil {
			return files, err
		}
		files = append(files, external...)
		if len(moved) > 0 {
			p, err := t.stageFolded(moved)
			if err != nil {
				return files, err
			}
			files = append(files, p)
		}
	}
	if t.Result.Step != nil {
		params, err := stageParams(t.Params, t.Result.Step)
		files = append(files, params...)
		if err != nil {
			return files, err
		}
	}
	if t.Report != "" {
		var page bytes.Buffer
		if err := report.Page(&page, t.Result.Plan, t.Origin()); err != nil {
			return files, &graph.Error{File: t.In, Offset: -1, Err: err}
		}
		p, err := Stage(t.Report, page.Bytes())
		if err != nil {
			return files, err
		}
		files = append(files, p)
	}
	text, err := t.Result.Plan.Marshal()
	if err != nil {
		return files, err
	}
	if t.Job.Plan == "-" {
		_, err := t.Stdout.Write(text)
		return files, err
	}
	p, err := Stage(t.Job.Plan, text)
	if err != nil {
		return files, err
	}
	return append(files, p), nil
}

// Stage starts a file at path with the given content.
func Stage(path string, text []byte) (*atomicfile.File, error) {
	p, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return nil, err
	}
	if _, err := p.Write(text); err != nil {
		p.Abort()
		return nil, err
	}
	return p, nil
}

// TheModel is the name of the job's input in its Files.
const TheModel = "the model"

// checkFiles fails if an output would replace an input or another output. The
// planned model may replace its source only if InPlace is set.
func (t *Task) checkFiles() error {
	if t.Taken == nil {
		t.Taken = &files.Set{}
	}
	s, m := t.Taken, t.File.Model
	s.Reads(TheModel, t.In)
	s.Reads("the costs of nodes", t.Costs)
	s.Reads("the workspaces of nodes", t.Workspaces)
	for _, location := range onnx.Locations(m) {
		s.Reads("external data of the model", filepath.Join(m.Source.Dir, filepath.FromSlash(location)))
	}
	inPlace := t.InPlace && files.Same(t.In, t.Out)
	if old := PlanPath(t.In); !inPlace && Planned(m) && exists(old) {
		s.Reads("the plan of the model", old)
	}
	if t.Out == "" {
		return s.Err()
	}
	var over []string
	if inPlace {
		over = []string{TheModel}
	}
	s.Writes("the planned model", t.Out, over...)
	s.Writes("the plan", t.Job.Plan)
	s.Writes("the report", t.Report)
	if t.Train {
		s.Writes("the parameters", t.Params)
		s.Writes("the zeros of the states", t.Params+zerosSuffix)
	}
	if t.Out == "-" {
		return s.Err()
	}
	if len(onnx.Locations(m)) > 0 && t.Fold != "off" {
		s.Writes("the folded constants", foldedPath(t.Out, m))
	}
	dir := filepath.Dir(t.Out)
	for _, location := range onnx.Locations(m) {
		// A file that exists is left as it is, and so is one that the model misses there.
		to, use := filepath.Join(dir, filepath.FromSlash(location)), s.Reads
		if from := filepath.Join(m.Source.Dir, filepath.FromSlash(location)); !exists(to) && !files.Same(from, to) {
			use = func(what, path string) { s.Writes(what, path) }
		}
		use("the external data beside the planned model", to)
		if t.Train && filepath.Dir(t.Params) != dir {
			return &UsageError{fmt.Sprintf("%s: the external data of the parameters are beside the planned model: expected another path for the parameters", t.Params)}
		}
	}
	return s.Err()
}

// planVersionKey marks a planned model, in its metadata.
const planVersionKey = "onnxmem.plan_version"

// Planned reports whether a model was written as a planned one.
func Planned(m *graph.Model) bool {
	_, is := m.Prop(planVersionKey)
	return is
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
