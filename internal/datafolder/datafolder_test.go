package datafolder

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestLookup(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.onnx"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(Variable, root)
	if got, want := Lookup("a.onnx"), filepath.Join(root, "a.onnx"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Lookup("b.onnx"); got != "" {
		t.Errorf("got %q for a missing file", got)
	}
	if got, want := Glob(t, "*.onnx"), []string{filepath.Join(root, "a.onnx")}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv(Variable, "")
	if got := Lookup(); got != "" {
		t.Errorf("got %q without %s", got, Variable)
	}
}

// Without the data, a test is skipped: it neither passes nor fails.
func TestSkips(t *testing.T) {
	for name, root := range map[string]string{"unset": "", "empty": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, root)
			for what, find := range map[string]func(testing.TB){
				"Path": func(tb testing.TB) { Path(tb, "zoo") },
				"Glob": func(tb testing.TB) { Glob(tb, "zoo", "*.onnx") },
			} {
				var s skipped
				find(&s)
				if !s.skips {
					t.Errorf("%s did not skip", what)
				}
			}
		})
	}
}

// skipped is a test that records a skip instead of ending.
type skipped struct {
	testing.TB
	skips bool
}

func (*skipped) Helper() {}

func (s *skipped) Skipf(string, ...any) { s.skips = true }
