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
		s.reading(file(c.name, c.file))
		if early := s.end != nil; early != c.early {
			t.Errorf("%s: settles %v before the plan is read, expected %v", c.name, early, c.early)
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
