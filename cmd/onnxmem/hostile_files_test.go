//go:build unix

package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// broken are texts that no user may see, whatever the file.
var broken = regexp.MustCompile(`goroutine \d|panic|internal error|runtime error|fatal error|SIG[A-Z]{2,}|memory fault`)

// hostile runs the command on a hostile file: it must end by itself, with a result or a
// clear error. Its GPU is the fake one.
func hostile(t *testing.T, exe string, args ...string) (status int, stderr string) {
	t.Helper()
	c := exec.Command(exe, args...)
	c.Env = os.Environ()
	variables, err := gpuVariables()
	if err != nil && !errors.Is(err, fake.ErrNoCompiler) {
		t.Fatal(err)
	}
	for name, value := range variables {
		c.Env = append(c.Env, name+"="+value)
	}
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
// error. On a device, each gives the same outputs, or is refused with the same status.
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
			host, device := filepath.Join(t.TempDir(), "host.npz"), filepath.Join(t.TempDir(), "device.npz")
			want, stderr := hostile(t, exe, append(slices.Clone(args), "--outputs", host)...)
			if strings.Contains(stderr, "time limit") {
				t.Errorf("%s", stderr)
			}
			if _, err := gpuVariables(); err != nil {
				return // no C++ compiler
			}
			got, found := hostile(t, exe, append(args, "--outputs", device, "--device", "cuda", "--poison")...)
			if got != want || strings.Contains(found, "CUDA_ERROR") {
				t.Errorf("on a device: exit status %d, on the CPU %d:\n%s%s", got, want, found, stderr)
			} else if want == 0 {
				sameArrays(t, device, host)
			}
		})
	}
}

// sameArrays compares two files of arrays: reals by a part of the largest finite one.
func sameArrays(t *testing.T, got, want string) {
	t.Helper()
	read := func(path string) map[string]vm.Value {
		v, err := readArrays(path, 1<<30, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	a, b := read(got), read(want)
	if len(a) != len(b) {
		t.Errorf("%d arrays, expected %d", len(a), len(b))
	}
	for name, w := range b {
		v := a[name]
		x, _ := v.Reals()
		y, _ := w.Reals()
		if v.Type != w.Type || !slices.Equal(v.Shape, w.Shape) || !slices.Equal(v.Strings, w.Strings) {
			t.Errorf("output %s is %v, expected %v", name, v, w)
			continue
		}
		size := 0.0
		for _, e := range y {
			if !math.IsInf(e, 0) && e == e {
				size = max(size, math.Abs(e))
			}
		}
		for i, e := range y {
			if x[i] != e && (x[i] == x[i] || e == e) && (!w.Type.Floating() || !(math.Abs(x[i]-e) <= 1e-4*size)) {
				t.Errorf("output %s: element %d of shape %v is %v, expected %v", name, i, w.Shape, x[i], e)
				break
			}
		}
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
