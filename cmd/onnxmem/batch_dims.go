package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/internal/units"
)

// modelDims are the rows of --dims: lengths of dimensions for some of the models.
type modelDims []modelDim

type modelDim struct {
	line    int
	pattern string // of the model's path below IN, or, without a slash, of its base name
	name    string
	lengths string // as --dim takes them
}

// readModelDims reads a table with the columns pattern, name and value.
func readModelDims(file string) (modelDims, error) {
	f, err := readable.Open(file)
	if err != nil {
		return nil, refusedf(file, "%w", err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord, r.TrimLeadingSpace = 3, true
	var list modelDims
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, refusedf(file, "%w", err)
		}
		line, _ := r.FieldPos(0)
		if line == 1 {
			if !slices.Equal(row, []string{"pattern", "name", "value"}) {
				return nil, refusedf(file, "line 1: expected the columns pattern,name,value, found %q", strings.Join(row, ","))
			}
			continue
		}
		d := modelDim{line: line, pattern: row[0], name: row[1]}
		if _, err := path.Match(d.pattern, ""); err != nil || d.pattern == "" {
			return nil, refusedf(file, "line %d: pattern %q: expected a pattern such as ocr/*.onnx", line, d.pattern)
		}
		if _, err := dimrange.Parse(row[2]); err != nil {
			return nil, refusedf(file, "line %d: dimension %q: %w", line, d.name, err)
		}
		d.lengths = row[2]
		list = append(list, d)
	}
}

// matches reports whether a row is for a model.
func (d modelDim) matches(m batch.Model) bool {
	name := filepath.ToSlash(m.Rel)
	if !strings.Contains(d.pattern, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(d.pattern, name)
	return ok
}

// of returns the lengths for a model: those of all models, and the rows that match;
// a later row wins.
func (list modelDims) of(m batch.Model, all optimize.Dims) optimize.Dims {
	dims := all
	for _, d := range list {
		if !d.matches(m) {
			continue
		}
		if dims = maps.Clone(dims); dims == nil {
			dims = optimize.Dims{}
		}
		dims[d.name] = d.lengths
	}
	return dims
}

// check refuses a row that is for no model.
func (list modelDims) check(file string, models []batch.Model) error {
	for _, d := range list {
		if !slices.ContainsFunc(models, d.matches) {
			return refusedf(file, "line %d: pattern %q: matches none of %d models", d.line, d.pattern, len(models))
		}
	}
	return nil
}

// spare says which lengths and values bind nothing in any planned model that they
// are for. A model that was not planned counts as one that lacks them.
func (b *batchRun) spare(entries map[string]batch.Entry, models []batch.Model) ([]string, error) {
	found := map[string]optimize.Outcome{} // of the planned models, by Model.Rel
	for _, m := range models {
		entry, ok := entries[m.Rel]
		if !ok || entry.Status != batch.StatusOK {
			continue
		}
		var o optimize.Outcome
		if err := json.Unmarshal(entry.Result, &o); err != nil {
			return nil, fmt.Errorf("the result of %s: %w", printable.Text(m.Rel), err)
		}
		found[m.Rel] = o
	}
	// unbound counts the planned models of some kind, and reports whether all lack a name.
	unbound := func(of func(batch.Model) bool, lacks func(optimize.Outcome) []string, name string) (planned int, all bool) {
		for _, m := range models {
			o, ok := found[m.Rel]
			if !ok || !of(m) {
				continue
			}
			if planned++; !slices.Contains(lacks(o), name) {
				return planned, false
			}
		}
		return planned, planned > 0
	}
	every := func(batch.Model) bool { return true }
	dims := func(o optimize.Outcome) []string { return o.SpareDims }
	values := func(o optimize.Outcome) []string { return o.SpareValues }
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(b.Dim)) {
		if n, all := unbound(every, dims, name); all {
			texts = append(texts, fmt.Sprintf("--dim %s: no model has this dimension, of %d that are planned", units.Name(name), n))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Value)) {
		if n, all := unbound(every, values, name); all {
			texts = append(texts, fmt.Sprintf("--value %s: no model has this input, of %d that are planned", units.Name(name), n))
		}
	}
	for _, d := range b.dims {
		if n, all := unbound(d.matches, dims, d.name); all {
			texts = append(texts, fmt.Sprintf("%s: line %d: dimension %q: no model has it, of %d that match and are planned", units.Name(b.Dims), d.line, graph.Short(d.name), n))
		}
	}
	return texts, nil
}
