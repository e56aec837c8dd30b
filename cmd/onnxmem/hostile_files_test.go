//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
)

// broken are texts that no user may see, whatever the file.
var broken = regexp.MustCompile(`goroutine \d|panic|internal error|runtime error|fatal error|SIG[A-Z]{2,}|memory fault`)

// hostile runs the command on a hostile file: it must end by itself, with a result or a
// clear error.
func hostile(t *testing.T, exe string, args ...string) (status int, stderr string) {
	t.Helper()
	c := exec.Command(exe, args...)
	c.Args[0] = "onnxmem"
	var errs bytes.Buffer
	c.Stderr = &errs
	_ = c.Run() // ProcessState has the status
	status, stderr = c.ProcessState.ExitCode(), errs.String()
	if status != 0 && status != exitFailed && status != exitRefused || broken.MatchString(stderr) ||
		status != 0 && strings.Count(stderr, "\n") != 1 {
		t.Errorf("onnxmem %s: exit status %d:\n%s", strings.Join(args, " "), status, stderr)
	}
	const most = 1 << 30
	if used, is := c.ProcessState.SysUsage().(*syscall.Rusage); is && runtime.GOOS == "linux" && used.Maxrss<<10 > most {
		t.Errorf("onnxmem %s: took %d MiB, expected at most %d", strings.Join(args, " "), used.Maxrss>>10, most>>20)
	}
	return status, stderr
}

// TestHostileFiles plans and runs every model of a folder of hostile ones, with the
// inputs beside it if there are any. None may take 10 s; endless models end with an
// error.
func TestHostileFiles(t *testing.T) {
	files := datafolder.Glob(t, "hostile", "*.onnx")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".onnx")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned := filepath.Join(t.TempDir(), "planned.onnx")
			if status, _ := hostile(t, exe, "optimize", file, planned); status != 0 {
				return
			}
			args := []string{"run", planned, "--memory-limit", "1GiB", "--time-limit", "10s"}
			inputs := strings.TrimSuffix(file, ".onnx") + ".npz"
			if _, err := os.Stat(inputs); err == nil {
				args = append(args, "--inputs", inputs)
			}
			if _, stderr := hostile(t, exe, args...); strings.Contains(stderr, "time limit") {
				t.Errorf("%s", stderr)
			}
		})
	}
}

// TestSharedBodiesAreVisitedOnce: each of 40 functions calls the next one twice, with one body
// for all of its calls: what a runtime shares is found, and checked, once for each body.
func TestSharedBodiesAreVisitedOnce(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	planned := filepath.Join(t.TempDir(), "planned.onnx")
	for _, args := range [][]string{
		{"optimize", filepath.Join("..", "..", "testdata", "bad", "function-laughs.onnx"), planned, "--runtime", "onnxruntime"},
		{"verify", planned},
	} {
		if status, stderr := hostile(t, exe, args...); status != 0 {
			t.Fatalf("onnxmem %s: exit status %d: %s", strings.Join(args, " "), status, stderr)
		}
	}
	if status, stderr := hostile(t, exe, "run", planned); status != exitRefused || !strings.Contains(stderr, "called functions have more than 262144 nodes") {
		t.Errorf("run: exit status %d: %s", status, stderr)
	}
}
