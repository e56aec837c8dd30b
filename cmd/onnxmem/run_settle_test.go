package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
)

// A run is small by its pools and its nodes, and a large plan file settles before it is read.
func TestSettler(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, bytes int64) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, bytes); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name         string
		file         int64
		total        int64
		nodes        int
		early, later bool // it settles before and after the plan is read
	}{
		{"small", smallPlan, smallBytes, smallNodes, false, false},
		{"large pools", 1000, smallBytes + 1, 1, false, true},
		{"many nodes", 1000, 1, smallNodes + 1, false, true},
		{"large file", smallPlan + 1, 1, 1, true, true},
	} {
		var s settler
		percent := s.reading(file(c.name, c.file))
		if early := s.end != nil; early != c.early || early != (percent == mostGarbage) {
			t.Errorf("%s: settles %v before the plan is read, with %d %% of garbage, expected %v", c.name, early, percent, c.early)
		}
		p := &plan.Plan{}
		p.Summary.TotalBytes = c.total
		s.read(p, c.nodes)
		if later := s.end != nil; later != c.later {
			t.Errorf("%s: settles %v, expected %v", c.name, later, c.later)
		}
		s.prepared()
	}
}

// The larger the graph, the less garbage; there may be more before the first step, but not for a
// large graph.
func TestGarbage(t *testing.T) {
	for _, c := range []struct{ nodes, before, then int }{
		{1, 400, 50}, {373, 400, 50}, {910, 192, 50}, {2063, 84, 50}, {24070, 7, 7}, {1 << 20, 5, 5},
	} {
		if before, then := garbage(c.nodes, mostBefore), garbage(c.nodes, mostGarbage); before != c.before || then != c.then {
			t.Errorf("%d nodes: %d and %d %%, expected %d and %d", c.nodes, before, then, c.before, c.then)
		}
	}
}
