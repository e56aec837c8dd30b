package verify_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlannedFiles: the files that the tests of package plan read are the plans of these
// tests.
func TestPlannedFiles(t *testing.T) {
	for i, got := range marshal(t) {
		name := planned[i].name
		path := filepath.Join("..", "testdata", "planned", strings.ReplaceAll(name, " ", "-")+".plan.json")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the plan in %s differs (%v): go test ./plan/verify -update writes it", name, path, err)
		}
	}
}

// marshal returns the JSON of every valid plan of these tests.
func marshal(t testing.TB) [][]byte {
	t.Helper()
	var all [][]byte
	for _, c := range planned {
		_, p := c.plan(t, models[c.model])
		b, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}
