package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/onnxmem/onnxmem/autodiff/lora"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
)

// mergeCmd adds adapters to the weights of a model.
type mergeCmd struct {
	Model   string `arg:"" in:"the model" help:"The model beside which it was trained."`
	Adapter string `arg:"" help:"Its folder, as run --save-adapter or PEFT writes it."`
	Out     string `arg:"" out:"the merged model" help:"The merged model."`
	JSON    bool   `group:"output" name:"json" help:"Print one JSON object, and nothing else. It goes to standard output, messages to standard error."`
}

// Help is the text below the flags.
func (mergeCmd) Help() string {
	return `Each adapted weight W becomes W + (alpha/r) B A, computed in float32 and rounded once to its
type; everything else in the file stays as it is, byte for byte. New weights of a model with external
data go to OUT.data.

Examples:
  onnxmem merge bert.onnx adapter/ merged.onnx`
}

// Run reads both, and writes the merged model.
func (c *mergeCmd) Run(e *env) error {
	if c.Out == "-" {
		return usagef("expected a file for the merged model, found -")
	}
	f, err := onnx.Open(c.Model, onnx.ReadOptions{})
	if err != nil {
		return err
	}
	defer f.Close()
	var files [2][]byte
	for i, name := range []string{lora.ConfigFile, lora.WeightsFile} {
		path := filepath.Join(c.Adapter, name)
		e.files.Reads("the adapters", path)
		if files[i], err = readAdapter(path); err != nil {
			return err
		}
	}
	e.readsExternal("the model", f.Model)
	e.files.Writes("the data of the merged model", onnx.DataPath(c.Out))
	if err := e.files.Err(); err != nil {
		return err
	}
	if onnx.HoldsExternal(f.Model, filepath.Dir(c.Out), onnx.DataPath(c.Out)) {
		return usagef("%s: holds external data of the model: expected another name", onnx.DataPath(c.Out))
	}
	saved, err := lora.Decode(files[0], files[1])
	if err != nil {
		return inFile(c.Adapter, err)
	}
	m, list, err := lora.Merge(f.Model, saved)
	if err != nil {
		return inFile(c.Model, err)
	}
	most := int64(math.MaxInt64) // they are as large as those that they replace
	if len(onnx.Locations(f.Model)) > 0 {
		most = 0
	}
	bytes, types := int64(0), map[string]bool{}
	for _, d := range list {
		bytes += d.Bytes
		if d.Type.Bits() < 32 {
			types[d.Type.String()] = true
		}
	}
	if err := onnx.WriteNew(c.Out, m, list, most); err != nil {
		return err
	}
	for name := range types {
		e.say("the merged weights are rounded to %s, the type of the model's", name)
	}
	if c.JSON {
		return writeJSON(e.stdout, struct {
			Modules int   `json:"modules"`
			Weights int   `json:"weights"`
			Bytes   int64 `json:"bytes"`
		}{len(saved.Modules()), len(list), bytes})
	}
	fmt.Fprintf(e.stdout, "merged               adapters of %d modules into %d weights of %s\nwrote                %s\n", len(saved.Modules()), len(list), units.Bytes(bytes), units.Name(c.Out))
	return nil
}

// mostAdapter limits the size of a file of adapters.
const mostAdapter = 16 << 30

// readAdapter reads a file of an adapter.
func readAdapter(path string) ([]byte, error) {
	f, err := readable.Open(path)
	if err != nil {
		return nil, refusedf(path, "%w", err)
	}
	defer f.Close()
	if f.Info.Size() > mostAdapter {
		return nil, refusedf(path, "has %d bytes: expected at most %d", f.Info.Size(), int64(mostAdapter))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, refusedf(path, "%w", err)
	}
	return b, nil
}

// inFile names a file in an error that names none.
func inFile(path string, err error) error {
	var e *graph.Error
	if errors.As(err, &e) && e.File == "" {
		e.File = path
	}
	return err
}
