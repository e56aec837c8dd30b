package optimize

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// asPlanned says in a report how far its plan is to be trusted.
const asPlanned = "as it was planned, not held against its model"

// Write puts the model, its external data, the plan and what belongs to them in
// their places, all or none.
func (t *Task) Write() error {
	began := time.Now()
	im, err := onnx.Encode(t.Result.Model)
	if err != nil {
		return err
	}
	name := t.Out
	if name == "-" {
		name = "model.onnx"
	}
	t.Result.Plan.Model = plan.ImageOf(name, im)
	files, err := t.stage(im)
	defer func() {
		for _, p := range files {
			p.Abort()
		}
	}()
	if err != nil {
		return err
	}
	// Windows replaces no file that is mapped.
	if err := t.Close(); err != nil {
		return err
	}
	if err := atomicfile.Commit(t.Sync, files...); err != nil {
		return err
	}
	t.Times.Write, t.Times.Total = Milliseconds(time.Since(began)), Milliseconds(time.Since(t.began))
	return nil
}

// stage writes all files under temporary names, in the order in which they take
// their places: the plan after what it speaks of. What goes to standard output
// is written there. Files are given back with an error, too.
func (t *Task) stage(im *onnx.Image) (files []*atomicfile.File, err error) {
	if t.Out == "-" {
		if _, err := im.WriteTo(os.Stdout); err != nil {
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
		if err := report.Page(&page, t.Result.Plan, asPlanned); err != nil {
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
		_, err := os.Stdout.Write(text)
		return files, err
	}
	p, err := Stage(t.Job.Plan, text)
	if err != nil {
		return files, err
	}
	return append(files, p), nil
}

// Stage begins a file at path that holds text.
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

// checkOutputs fails when an output would destroy an input or another output.
func (t *Task) checkOutputs() error {
	type output struct{ what, path string }
	outputs := []output{{"planned model", t.Out}, {"plan", t.Job.Plan}}
	if t.Train {
		outputs = append(outputs, output{"parameters", t.Params})
	}
	for i, out := range outputs {
		what := ""
		if out.path == "-" {
			continue
		}
		for _, before := range outputs[:i] {
			if before.path != "-" && onnx.SamePath(out.path, before.path) {
				what = "the " + before.what + " goes there"
			}
		}
		switch {
		case what != "":
		case i > 0 && onnx.SamePath(out.path, t.In):
			what = "it is the input"
		case onnx.HoldsExternal(t.File.Model, filepath.Dir(t.Out), out.path):
			what = "it holds the model's external data"
		case i == 2 && t.Out != "-" && len(onnx.Locations(t.File.Model)) > 0 && filepath.Dir(out.path) != filepath.Dir(t.Out):
			what = "the external data of the parameters lie beside the planned model"
		}
		if what != "" {
			return &UsageError{fmt.Sprintf("%s: %s: expected another place for the %s", out.path, what, out.what)}
		}
	}
	return nil
}
