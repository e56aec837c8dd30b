// Package batch plans many models in parallel. A model that fails does not affect
// the others, and an interrupted run can be continued. Runs that share an output
// folder share its journal and its models.
//
// [Find] lists the models, [Run] carries out a [Task] for each, and a [Journal]
// keeps an [Entry] per model; [Plan] is the task that plans one model in a worker
// process.
//
//	find.go     which models
//	claim.go    which run works on a model
//	key.go      a digest of a model and its options
//	journal.go  results: one line per model
//	run.go      workers, limits of memory and time
//	worker.go   the work on one model, in a process of its own
//	tables.go   results.csv and the sums
//	page.go     index.html
package batch

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/readable"
)

// Model is a model file to plan.
type Model struct {
	Path string // path of the file
	Rel  string // its path below the named folder, and so below the output folder
}

// Found lists the models that Find found.
type Found struct {
	Models []Model // sorted by Rel
	// Skipped lists pipes, devices and sockets, with what they are: opening one
	// may take for ever or have effects.
	Skipped []string
}

// Find lists models: a folder stands for all files ending in .onnx below it, a
// pattern (*, ?, [) for its matches, "-" for the names in list, one per line; any
// other name is a file. Two models with one Rel are an error.
func Find(names []string, list io.Reader) (*Found, error) {
	f := &Found{}
	for _, name := range names {
		if err := f.find(name, list); err != nil {
			return nil, err
		}
	}
	models := f.Models
	slices.SortFunc(models, func(a, b Model) int { return strings.Compare(a.Rel, b.Rel) })
	for i := 1; i < len(models); i++ {
		if a, b := models[i-1], models[i]; a.Rel == b.Rel {
			return nil, fmt.Errorf("%s and %s would both be written to %s: expected models of different names",
				printable.Text(a.Path), printable.Text(b.Path), printable.Text(a.Rel))
		}
	}
	return f, nil
}

func (f *Found) find(name string, list io.Reader) error {
	if name == "-" {
		return f.listed(list)
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return f.below(name)
	case err == nil:
		f.add(name, filepath.Base(name))
		return nil
	case !strings.ContainsAny(name, "*?["):
		return fmt.Errorf("%s: not found: expected a folder, a model or a pattern", printable.Text(name))
	}
	paths, err := filepath.Glob(name)
	if err != nil {
		return fmt.Errorf("%s: %w", printable.Text(name), err)
	}
	// The folder in the literal part of the pattern is the root of the results.
	root := filepath.Dir(name[:strings.IndexAny(name, "*?[")] + "x")
	for _, p := range paths {
		if info, err := os.Stat(p); err != nil || info.IsDir() {
			continue
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		f.add(p, rel)
	}
	return nil
}

// add adds a path. A path that leads nowhere, or to a folder, is a model that
// will be refused.
func (f *Found) add(path, rel string) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f.Skipped = append(f.Skipped, fmt.Sprintf("%s: is %s, expected a model", printable.Text(path), readable.Kind(info.Mode())))
		return
	}
	f.Models = append(f.Models, Model{path, rel})
}

// below lists the models in a folder and its subfolders, except hidden ones.
func (f *Found) below(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != root && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir() || filepath.Ext(path) != ".onnx":
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f.add(path, rel)
		return nil
	})
}

// listed reads names, one per line. The result of a path that leads outside is
// named after its last part.
func (f *Found) listed(r io.Reader) error {
	s := bufio.NewScanner(r)
	for s.Scan() {
		path := strings.TrimSpace(s.Text())
		if path == "" {
			continue
		}
		rel := filepath.Clean(path)
		if !filepath.IsLocal(rel) {
			rel = filepath.Base(rel)
		}
		f.add(path, rel)
	}
	return s.Err()
}

// Shard keeps every n-th model, starting with the i-th (from 1).
func Shard(models []Model, i, n int) []Model {
	var kept []Model
	for k, m := range models {
		if k%n == i-1 {
			kept = append(kept, m)
		}
	}
	return kept
}
