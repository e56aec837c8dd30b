package passes_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
)

// TestDocListsPasses: the package comment lists the passes that run, in their order.
func TestDocListsPasses(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var listed, run []string
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z]+) `).FindAllSubmatch(text, -1) {
		listed = append(listed, string(m[1]))
	}
	for _, p := range passes.Default() {
		run = append(run, p.Name)
	}
	if !slices.Equal(listed, run) {
		t.Errorf("doc.go lists %v, expected %v", listed, run)
	}
}
