package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/npy"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/vm"
)

// batches are files of inputs, one a step, and again from the first when they end. The zero
// value is one file for all steps, or none.
type batches struct {
	files []string
	fixed map[string]bool // the inputs that files of their own give, for all steps
	room  int64           // bytes that the arrays of one file may take
}

// mostNames bounds the bytes of a list of files on standard input.
const mostNames = 1 << 26

// batches finds the files that --inputs names if it is a pattern, or - for a list on standard
// input. Without --steps, there is a step for each.
func (c *runCmd) batches(e *env) (*batches, error) {
	b := &batches{fixed: map[string]bool{}, room: c.valueLimit()}
	var err error
	switch {
	case c.Inputs == "-":
		if b.files, err = listOf(os.Stdin); err != nil {
			return nil, refusedf("standard input", "%w", err)
		}
		if len(b.files) == 0 {
			return nil, refusedf("standard input", "names no file: expected those of --inputs, one a line")
		}
	case strings.ContainsAny(c.Inputs, "*?[") && !exists(c.Inputs):
		if b.files, err = filepath.Glob(c.Inputs); err != nil {
			return nil, usagef("--inputs %s: %v", c.Inputs, err)
		}
		if len(b.files) == 0 {
			return nil, refusedf(c.Inputs, "matches no file: expected a .npz file for each step")
		}
		slices.Sort(b.files)
	default:
		return b, nil
	}
	for _, file := range b.files {
		e.files.Reads("the inputs "+strconv.Quote(file), file)
	}
	for name, text := range c.Input {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			b.fixed[name] = true
		}
	}
	if c.Count == nil {
		c.Steps = len(b.files)
	}
	return b, e.files.Err()
}

// exists reports whether there is a file of this name.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// listOf reads names of files, one a line.
func listOf(r io.Reader) (files []string, err error) {
	lines := bufio.NewScanner(io.LimitReader(r, mostNames))
	for lines.Scan() {
		if line := strings.TrimSuffix(lines.Text(), "\r"); line != "" {
			files = append(files, line)
		}
	}
	return files, lines.Err()
}

// check refuses, before the first step, a file whose arrays are not those of a step. Only the
// heads of the arrays are read. Arrays for inputs that have no exact type, such as sequences,
// are looked at when their step comes.
func (b *batches) check(program *vm.Program) error {
	inputs, boxed := map[string]graph.Type{}, false // boxed: one has parts with names of their own
	for _, t := range program.Inputs() {
		inputs[t.Name] = t.Type
		boxed = boxed || t.Type.Kind != graph.KindTensor
	}
	states := map[string]bool{}
	for _, t := range program.States() {
		states[t.Name] = true
	}
	var first map[string]*npy.Array
	for _, file := range b.files {
		arrays, err := readHeads(file)
		if err != nil {
			return err
		}
		if first == nil {
			first = arrays
		}
		for _, name := range slices.Sorted(maps.Keys(arrays)) {
			if states[name] { // it would be set again at each step
				return refusedf(file, "%q is a parameter or state: expected it in the file of --params, and inputs here", graph.Short(name))
			}
			t, is := inputs[name]
			switch {
			case !is && !boxed:
				return refusedf(file, "%q is no input of the model", graph.Short(name))
			case is && t.Exact():
				if err := sameType(arrays[name], t); err != nil {
					return refusedf(file, "%q %w", graph.Short(name), err)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(first)) {
			if t, is := inputs[name]; is && t.Exact() && arrays[name] == nil {
				return refusedf(file, "has no array %q: expected one, as in %s", graph.Short(name), b.files[0])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(arrays)) {
			if t, is := inputs[name]; is && t.Exact() && first[name] == nil {
				return refusedf(file, "has an array %q: expected none, as in %s", graph.Short(name), b.files[0])
			}
		}
	}
	return nil
}

// readHeads reads the names, types and shapes of a file's arrays.
func readHeads(path string) (map[string]*npy.Array, error) {
	f, err := readable.Open(path)
	if err != nil {
		return nil, refusedf(path, "%w", err)
	}
	defer f.Close()
	if f.IsPipe() {
		return nil, refusedf(path, "is a pipe, expected a file: a .npz file has its table of contents at the end")
	}
	arrays, err := npy.ReadHeads(f, f.Info.Size(), maxArray)
	if err != nil {
		return nil, refusedf(path, "%w", err)
	}
	return arrays, nil
}

// sameType fails if an array, of which only the head may be known, is not of a type. Strings
// have several dtypes, so only their shape is compared.
func sameType(a *npy.Array, t graph.Type) error {
	v := vm.Value{Type: t.Elem, Shape: a.Shape}
	if t.Elem != graph.String {
		var err error
		if v, err = fromArray(&npy.Array{Descr: a.Descr, Shape: a.Shape}); err != nil {
			return fmt.Errorf("has %w", err)
		}
	}
	if v.Type != t.Elem || !slices.EqualFunc(v.Shape, t.Shape, func(n int, d graph.Dim) bool { return graph.Dim(n) == d }) {
		return fmt.Errorf("is %v, expected %v", v, t)
	}
	return nil
}

// next returns the inputs of step i: those of the first step, with the arrays of the file
// whose turn it is.
func (b *batches) next(program *vm.Program, i int, inputs map[string]vm.Value) (map[string]vm.Value, error) {
	if len(b.files) == 0 || i%len(b.files) == 0 {
		return inputs, nil
	}
	file := b.files[i%len(b.files)]
	given, err := readArrays(file, b.room, notLonger(program))
	if err != nil {
		return nil, err
	}
	next := maps.Clone(inputs)
	for _, t := range program.Inputs() {
		v, is := given[t.Name]
		if k := t.Type.Kind; k == graph.KindSequence || k == graph.KindOptional || k == graph.KindMap {
			v, is = joined(given, t.Name, t.Type)
		}
		if delete(given, t.Name); is && !b.fixed[t.Name] {
			next[t.Name] = v
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		return nil, refusedf(file, "%q is no input of the model", graph.Short(name))
	}
	return next, nil
}
