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

// namedFiles lists the files on the command line of a command. Its arguments and
// flags have a tag in or out with the name of the file for messages; the tag over
// lists the inputs that an output may replace. Commands add files that follow
// from those: a plan beside its model, external data. The error is a
// *files.Conflict, or says why an output cannot be written.
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

// writable fails if a file cannot be written, before hours of work for it. It
// leaves pipes and devices alone, since their readers notice when they are
// opened.
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

// pathsOf lists the paths in an argument or a flag, each with what its name adds
// to that of the flag. A number that replaces an input is not a path.
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

// uses adds the files of a batch that plans models into the folder out. The
// outputs are known by name only, and a link may lead back to a model.
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

// readsExternal adds the files with a model's external data. whose names the
// model in messages.
func (e *env) readsExternal(whose string, m *graph.Model) {
	if m.Source == nil {
		return
	}
	for _, location := range onnx.Locations(m) {
		e.files.Reads("external data of "+whose, filepath.Join(m.Source.Dir, filepath.FromSlash(location)))
	}
}
