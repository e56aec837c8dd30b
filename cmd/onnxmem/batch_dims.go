package main

import (
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/readable"
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
