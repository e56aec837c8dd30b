// Package batch does the same work on many models, side by side, so that one
// that fails stops nothing and a run that was cut off goes on where it was.
//
//	find.go     which models
//	journal.go  what is done: one line a model
//	run.go      workers, limits of memory and time
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
)

// Model is a file to work on.
type Model struct {
	Path string // where it is
	Rel  string // its path below what was named: where its result goes
}

// Find lists the models that names stand for, sorted by Rel: a folder is all
// files ending in .onnx below it, a pattern (*, ?, [) what it matches, "-" the
// names that list holds, one a line; anything else is a file. Two models with
// one Rel are an error.
func Find(names []string, list io.Reader) ([]Model, error) {
	var models []Model
	for _, name := range names {
		found, err := find(name, list)
		if err != nil {
			return nil, err
		}
		models = append(models, found...)
	}
	slices.SortFunc(models, func(a, b Model) int { return strings.Compare(a.Rel, b.Rel) })
	for i := 1; i < len(models); i++ {
		if a, b := models[i-1], models[i]; a.Rel == b.Rel {
			return nil, fmt.Errorf("%s and %s would both be written to %s: expected models of different names", a.Path, b.Path, a.Rel)
		}
	}
	return models, nil
}

func find(name string, list io.Reader) ([]Model, error) {
	if name == "-" {
		return listed(list)
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return below(name)
	case err == nil:
		return []Model{{name, filepath.Base(name)}}, nil
	case !strings.ContainsAny(name, "*?["):
		return nil, fmt.Errorf("%s: not found: expected a folder, a model or a pattern", name)
	}
	paths, err := filepath.Glob(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// What a pattern names literally is the folder that results lie below.
	root := filepath.Dir(name[:strings.IndexAny(name, "*?[")] + "x")
	var models []Model
	for _, p := range paths {
		if info, err := os.Stat(p); err != nil || info.IsDir() {
			continue
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return nil, err
		}
		models = append(models, Model{p, rel})
	}
	return models, nil
}

// below lists the models in a folder and the folders in it. Hidden ones are
// left out.
func below(root string) ([]Model, error) {
	var models []Model
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
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
		models = append(models, Model{path, rel})
		return err
	})
	return models, err
}

// listed reads names, one a line. The result of one that leads outside has its
// last part as name.
func listed(r io.Reader) ([]Model, error) {
	var models []Model
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
		models = append(models, Model{path, rel})
	}
	return models, s.Err()
}

// Shard keeps every n-th model, beginning with the i-th (from 1).
func Shard(models []Model, i, n int) []Model {
	var kept []Model
	for k, m := range models {
		if k%n == i-1 {
			kept = append(kept, m)
		}
	}
	return kept
}
