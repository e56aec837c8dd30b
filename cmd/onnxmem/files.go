package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/files"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/onnx"
)

// namedFiles are the files that the command line of a command names: its arguments
// and flags have a tag in or out that says in messages what the file is, and over
// lists what an output may take the place of. Commands add what follows from those:
// a plan beside its model, external data. The error is a *files.Conflict, or says why
// one of the outputs cannot be written.
func namedFiles(command *kong.Node) (*files.Set, error) {
	set := &files.Set{}
	var outputs []string
	values := slices.Clone(command.Positional)
	for _, f := range command.Flags {
		values = append(values, f.Value)
	}
	for _, v := range values {
		in, out := v.Tag.Get("in"), v.Tag.Get("out")
		paths := pathsOf(v.Target)
		for _, name := range slices.Sorted(maps.Keys(paths)) {
			switch {
			case in != "":
				set.Reads(in+name, paths[name])
			case out != "":
				set.Writes(out+name, paths[name], v.Tag.GetAll("over")...)
				outputs = append(outputs, paths[name])
			}
		}
	}
	if err := set.Err(); err != nil {
		return nil, err
	}
	for _, path := range outputs {
		if err := writable(path); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// writable fails where a file cannot be written, before hours of work for it. Pipes
// and devices are left alone: opening one is a sign to who reads it.
func writable(path string) error {
	if info, err := os.Stat(path); path == "" || path == "-" || err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil
	}
	f, err := atomicfile.Create(path, 0o666)
	if err == nil {
		f.Abort()
	}
	return err
}

// pathsOf lists the paths that an argument or a flag has, each with what its name
// adds to that of the flag. A number that stands for an input is no path.
func pathsOf(v reflect.Value) map[string]string {
	switch paths := v.Interface().(type) {
	case string:
		return map[string]string{"": paths}
	case map[string]string:
		named := map[string]string{}
		for name, path := range paths {
			if _, err := strconv.ParseFloat(path, 64); err != nil {
				named[fmt.Sprintf(" %q", graph.Short(name))] = path
			}
		}
		return named
	}
	return nil
}

// uses adds the files of a batch that plans models into the folder out. Where what
// is planned goes is known by name alone before, and a link may lead back to a model.
func (c *batchCmd) uses(e *env, out string, models []batch.Model) error {
	for _, m := range models {
		e.files.Reads("the model "+printable.Text(m.Rel), m.Path)
	}
	for _, name := range []string{"journal.jsonl", "results.csv", "index.html"} {
		e.files.Writes(name, filepath.Join(out, name))
	}
	for _, m := range models {
		for _, path := range c.job(m.Path, filepath.Join(out, m.Rel)).Files() {
			e.files.Writes("the results of "+printable.Text(m.Rel), path)
		}
	}
	return e.files.Err()
}

// readsExternal adds the files that hold a model's external data. whose is the model
// in messages.
func (e *env) readsExternal(whose string, m *graph.Model) {
	if m.Source == nil {
		return
	}
	for _, location := range onnx.Locations(m) {
		e.files.Reads("external data of "+whose, filepath.Join(m.Source.Dir, filepath.FromSlash(location)))
	}
}
