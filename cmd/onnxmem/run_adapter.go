package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/onnxmem/onnxmem/autodiff/lora"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/vm"
)

// checkAdapters refuses --save-adapter for a step without adapters, and --save-model for one
// with them, before it runs.
func (c *runCmd) checkAdapters(e *env, step *graph.Model) error {
	record, err := lora.RecordOf(step)
	if err != nil {
		return refusedf(c.Model, "%w", err)
	}
	switch {
	case record == nil && c.SaveAdapter != "":
		return usagef("%s has no adapters: --save-adapter is for steps of optimize --train --lora", c.Model)
	case record != nil && c.SaveModel != "":
		return usagef("%s trains adapters beside a model that stays as it is: expected --save-adapter DIR, and then onnxmem merge", c.Model)
	case c.SaveAdapter == "":
		return nil
	}
	e.files.Writes("the configuration of the adapters", filepath.Join(c.SaveAdapter, lora.ConfigFile))
	e.files.Writes("the adapters", filepath.Join(c.SaveAdapter, lora.WeightsFile))
	return e.files.Err()
}

// saveAdapter writes the adapters of a session, and what else the step trains.
func (c *runCmd) saveAdapter(s *vm.Session, step *graph.Model) error {
	record, err := lora.RecordOf(step)
	if err != nil {
		return err
	}
	var trained, others []string
	text, _ := step.Prop("onnxmem.trainable")
	if err := json.Unmarshal([]byte(text), &trained); err != nil {
		return refusedf(c.Model, "metadata entry onnxmem.trainable: expected a list")
	}
	adapters := record.Parameters()
	for _, name := range trained {
		if !slices.Contains(adapters, name) {
			others = append(others, name)
		}
	}
	frozen := map[string]*graph.Data{} // a part that --freeze names
	for _, t := range step.Graph.Tensors {
		if t.Data != nil {
			frozen[t.Name] = t.Data
		}
	}
	conf, weights, err := record.Encode(others, func(name string) (*graph.Data, error) {
		if d := frozen[name]; d != nil {
			return d, nil
		}
		return s.State(name)
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.SaveAdapter, 0o777); err != nil {
		return err
	}
	var files []*atomicfile.File
	for _, f := range []struct {
		name string
		text []byte
	}{{lora.WeightsFile, weights}, {lora.ConfigFile, conf}} {
		p, err := optimize.Stage(filepath.Join(c.SaveAdapter, f.name), f.text)
		if err != nil {
			for _, p := range files {
				p.Abort()
			}
			return err
		}
		files = append(files, p)
	}
	return atomicfile.Commit(false, files...)
}
