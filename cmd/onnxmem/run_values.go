package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/files"
	"github.com/onnxmem/onnxmem/internal/npy"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
)

// initialValues are the initial values of parameters and states, mapped from their file.
type initialValues struct {
	values map[string]vm.Value
	check  func() error // whether their file is as it was; nil without one
	close  []func() error
}

// Close unmaps the file. It may be called twice.
func (v *initialValues) Close() error {
	var first error
	for _, f := range v.close {
		if err := f(); err != nil && first == nil {
			first = err
		}
	}
	v.close = nil
	return first
}

// set passes the values to a session, except those that are given as inputs.
func (v *initialValues) set(s *vm.Session, given map[string]vm.Value) error {
	for _, name := range slices.Sorted(maps.Keys(v.values)) {
		if _, is := given[name]; is {
			continue
		}
		if err := s.Set(name, v.values[name]); err != nil {
			return err
		}
	}
	if v.check == nil {
		return nil
	}
	return v.check()
}

// params opens the initial values of a training graph.
func (c *runCmd) params(e *env, program *vm.Program) (*initialValues, error) {
	v := &initialValues{values: map[string]vm.Value{}}
	states := program.States()
	if len(states) == 0 {
		return v, nil
	}
	path := c.paramsPath()
	if _, err := os.Stat(path); err != nil && c.Params == "" {
		return v, nil // they are inputs, or the session reports them
	}
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		return nil, err
	}
	v.close = append(v.close, f.Close)
	e.files.Reads(parametersName, path)
	e.readsExternal(parametersName, f.Model)
	all, err := vm.OpenInitializers(f.Model)
	if err != nil {
		v.Close()
		return nil, err
	}
	v.check, v.close = all.Check, append(v.close, all.Close)
	for _, t := range states {
		if x, ok := all.Values[t.Name]; ok {
			v.values[t.Name] = x
		}
	}
	return v, nil
}

func (c *runCmd) paramsPath() string {
	if c.Params != "" {
		return c.Params
	}
	return optimize.ParamsPath(c.Model)
}

// given reads the inputs that are in files.
func (c *runCmd) given(program *vm.Program, b *batches) (map[string]vm.Value, error) {
	given := map[string]vm.Value{}
	file := c.Inputs
	if len(b.files) > 0 {
		file = b.files[0]
	}
	if file != "" {
		all, err := readArrays(file, c.valueLimit(), notLonger(program))
		if err != nil {
			return nil, err
		}
		given = all
	}
	for _, name := range slices.Sorted(maps.Keys(c.Input)) {
		if _, err := strconv.ParseFloat(c.Input[name], 64); err == nil {
			continue // it fills the input
		}
		v, err := readValue(c.Input[name], inputType(program, name), c.valueLimit())
		if err != nil {
			return nil, err
		}
		given[name] = v
	}
	return given, nil
}

// notLonger refuses an array that has more elements than the input of its name, before they
// are read. All other faults of an array are found when it is used.
func notLonger(program *vm.Program) func(name string, a *npy.Array) error {
	return func(name string, a *npy.Array) error {
		i := slices.IndexFunc(program.Inputs(), func(t graph.Tensor) bool { return t.Name == name && t.Type.Exact() })
		if i < 0 || slices.Contains(a.Shape, 0) {
			return nil
		}
		want := program.Inputs()[i].Type
		most, _ := want.Elements()
		for _, n := range a.Shape {
			if n > 0 && most/int64(n) == 0 {
				return fmt.Errorf("has shape %v, expected that of input %q, %s", a.Shape, graph.Short(name), graph.ShapeString(want.Shape))
			}
			most /= int64(max(n, 1))
		}
		return nil
	}
}

// values are the inputs of the model that are no states: given, or random.
func (c *runCmd) values(e *env, program *vm.Program, given map[string]vm.Value) (map[string]vm.Value, error) {
	filled := map[string]float64{}
	for _, t := range program.Inputs() {
		if t.Name == "learning_rate" || strings.HasPrefix(t.Name, "learning_rate.") { // of a group of parameters
			filled[t.Name] = 0.001
		}
	}
	quiet := c.decodeValues(program, given, filled)
	for name, text := range c.Input {
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			filled[name] = x
		}
	}
	if err := c.fits(program, given); err != nil {
		return nil, err
	}
	values := map[string]vm.Value{}
	for i, t := range program.Inputs() {
		v, ok := given[t.Name]
		if k := t.Type.Kind; k == graph.KindSequence || k == graph.KindOptional || k == graph.KindMap {
			v, ok = joined(given, t.Name, t.Type)
		}
		if _, asked := filled[t.Name]; !ok && !asked {
			v, ok = program.Given(t.Name)
		}
		if !ok {
			var err error
			if x, is := filled[t.Name]; is {
				v, err = vm.Filled(t, x)
				if _, asked := c.Input[t.Name]; !asked && !quiet[t.Name] {
					e.say("%s is %v (say --input %s=NUMBER)", t.Name, x, t.Name)
				}
			} else {
				v, err = vm.Random(t, c.Seed+uint64(i))
			}
			if err != nil {
				return nil, &graph.Error{File: c.Model, Tensor: t.Name, Offset: -1, Err: err}
			}
		}
		values[t.Name] = v
		delete(given, t.Name)
		delete(filled, t.Name)
	}
	for name := range filled {
		if _, asked := c.Input[name]; asked {
			return nil, refusedf(c.Model, "%q is no input of the model that a number can fill", graph.Short(name))
		}
	}
	for _, t := range program.States() {
		if v, ok := given[t.Name]; ok {
			values[t.Name] = v
			delete(given, t.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		return nil, refusedf(c.Model, "%q is no input of the model", graph.Short(name))
	}
	return values, nil
}

// inputType returns the type of an input; the zero type if there is none of that name.
func inputType(program *vm.Program, name string) graph.Type {
	for _, t := range program.Inputs() {
		if t.Name == name {
			return t.Type
		}
	}
	return graph.Type{}
}

// checkOutputs refuses, before anything runs, what --output cannot write.
func (c *runCmd) checkOutputs(program *vm.Program) error {
	outputs := program.Outputs()
	for _, name := range slices.Sorted(maps.Keys(c.Output)) {
		file := c.Output[name]
		if !strings.HasSuffix(file, ".npy") && !strings.HasSuffix(file, ".pb") {
			return usagef("--output %s=%s: expected a file that ends in .npy or .pb", name, file)
		}
		i := slices.IndexFunc(outputs, func(t graph.Tensor) bool { return t.Name == name })
		if i < 0 {
			return refusedf(c.Model, "%q is no output of the model", graph.Short(name))
		}
		if t := outputs[i].Type; t.Kind != graph.KindTensor && t.Kind != graph.KindUnknown {
			return refusedf(c.Model, "output %q is %v, expected a tensor (say --outputs FILE.npz)", graph.Short(name), t)
		}
	}
	return nil
}

// source opens the model that a training graph was made of, if --save-model asks
// for it.
func (c *runCmd) source(e *env, program *vm.Program, p *plan.Plan) (*onnx.File, error) {
	if (c.Save != "" || c.SaveModel != "") && len(program.States()) == 0 {
		return nil, usagef("%s has no parameters that change: --save and --save-model are for training graphs (optimize --train)", c.Model)
	}
	if c.SaveModel == "" {
		return nil, nil
	}
	path := c.Source
	if path == "" {
		path = filepath.Join(filepath.Dir(c.Model), filepath.FromSlash(p.Source.File))
	}
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		return nil, err
	}
	e.files.Reads("the model that was trained", path)
	e.readsExternal("the model that was trained", f.Model)
	if h := onnx.GraphSHA256(f.Model); h != p.Source.GraphSHA256 {
		f.Close()
		return nil, refusedf(path, "is not the model that %s was made of: expected graph_sha256 %s, found %s (name it with --source)", c.Model, p.Source.GraphSHA256, h)
	}
	return f, nil
}

// parametersName is the name of the parameters' file in messages. --save may overwrite
// that file to continue training.
const parametersName = "the parameters"

// writesBeside adds the data files that --save and --save-model write beside the files
// that they name.
func (c *runCmd) writesBeside(e *env, source *onnx.File) {
	if c.Save != "" {
		var over []string
		if files.Same(c.paramsPath(), c.Save) {
			over = []string{"external data of " + parametersName}
		}
		e.files.Writes("the data of the saved parameters", vm.DataPath(c.Save), over...)
	}
	if source == nil {
		return
	}
	e.files.Writes("the data of the trained model", vm.DataPath(c.SaveModel))
	for _, location := range onnx.Locations(source.Model) {
		to := filepath.Join(filepath.Dir(c.SaveModel), filepath.FromSlash(location))
		if _, err := os.Lstat(to); err != nil { // one that is there stays as it is
			e.files.Writes("external data of the trained model", to)
		}
	}
}

// save writes what the session has come to.
func (c *runCmd) save(s *vm.Session, step *graph.Model, source *onnx.File) error {
	if c.SaveAdapter != "" {
		if err := c.saveAdapter(s, step); err != nil {
			return err
		}
	}
	if c.Save != "" {
		if err := s.Save(c.Save); err != nil {
			return err
		}
	}
	if source != nil {
		return s.SaveModel(c.SaveModel, source.Model)
	}
	return nil
}

func refusedf(file, format string, args ...any) error {
	e := graph.Errorf(format, args...)
	e.File = file
	return e
}
