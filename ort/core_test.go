//go:build unix

// Package ort_test runs the tests of the C core of onnxmem-ort, ort/tests/core_test.c for
// ONNX Runtime's allocator, torch_test.c for PyTorch's and planner_test.c for packing by
// libonnxmem, plain and, in "make sweeps", with the sanitizers of the C compiler. The package's
// Python side is tested by internal/wheels, which installs it.
package ort_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/onnxmem/onnxmem/internal/sweep"
)

// TestCore runs the C tests. ONNXMEM_ORT_SECONDS makes the random runs last longer.
func TestCore(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: the core of onnxmem-ort is not tested")
	}
	sources, err := filepath.Glob("src/*.c")
	if err != nil {
		t.Fatal(err)
	}
	seconds := os.Getenv("ONNXMEM_ORT_SECONDS")
	if seconds == "" {
		seconds = "1"
	}
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"plain", []string{"-O2"}},
		{"address", []string{"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}},
		{"thread", []string{"-O1", "-fsanitize=thread"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "plain" {
				sweep.Only(t) // the compiler takes longer than the tests
			}
			t.Parallel()
			dir := t.TempDir()
			if c.name != "plain" && !builds(t, cc, dir, c.flags) {
				t.Skipf("the C compiler lacks %s", c.flags[1])
			}
			var objects []string
			for _, source := range sources {
				object := filepath.Join(dir, filepath.Base(source)+".o")
				run(t, cc, append(c.flags, "-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-pthread", "-c", source, "-o", object)...)
				objects = append(objects, object)
			}
			for _, name := range []string{"core_test", "torch_test", "planner_test"} {
				program := filepath.Join(dir, name)
				args := append(c.flags, "-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-pthread", "tests/"+name+".c", "-o", program)
				if runtime.GOOS == "linux" {
					args = append(args, "-rdynamic") // torch_test is the driver, too, and planner_test the planner
				}
				run(t, cc, append(append(args, objects...), "-ldl")...)
				run(t, program, seconds)
			}
		})
	}
}

// run runs a command, which must succeed.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, out)
	}
}

// builds reports whether the compiler can link and run an empty program with flags.
func builds(t *testing.T, cc, dir string, flags []string) bool {
	t.Helper()
	source := filepath.Join(dir, "empty.c")
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "empty")
	return exec.Command(cc, append(flags, source, "-o", program)...).Run() == nil && exec.Command(program).Run() == nil
}
