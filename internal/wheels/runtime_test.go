package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// TestRuntimeInstalled: the wheels of this machine, installed beside ONNX Runtime,
// pass the tests of the modules onnxmem_ort and onnxmem_torch. ONNX Runtime comes from
// PyPI, into an environment that is kept in the cache folder while ort/requirements.txt is
// the same. PyTorch's driver is the one without a GPU.
func TestRuntimeInstalled(t *testing.T) {
	sweep.Only(t)
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: onnxmem-ort is not tested")
	}
	t.Chdir(filepath.Join("..", ".."))
	python := runtimeEnvironment(t)
	host := hostTarget(t)
	dir := t.TempDir()
	first := installable(t, host, dir)
	second, packed, err := host.writeRuntime(dir, "v1.2.3", []string{cc})
	if err != nil {
		t.Fatal(err)
	}
	if want := "Requires-Dist: onnxmem>=1.2.3\nRequires-Dist: onnxruntime>=1.23\nLicense-File: LICENSE\nLicense-File: onnxruntime/LICENSE\n"; !strings.Contains(fileOf(t, packed, "onnxmem_ort-1.2.3.dist-info/METADATA"), want) {
		t.Errorf("no %q in METADATA of %s", want, second)
	}
	installed := filepath.Join(dir, "installed")
	outside(t, "", python, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-index", "--no-deps", "--no-compile", "--target", installed, first, second)
	tests, err := filepath.Abs(filepath.Join("ort", "python", "tests"))
	if err != nil {
		t.Fatal(err)
	}
	if driver, _, _, err := fake.Build(); err == nil {
		t.Setenv("ONNXMEM_LIBCUDA", driver)
	} else {
		t.Logf("onnxmem_torch is tested for its errors alone: %v", err)
	}
	run := fmt.Sprintf("import sys, unittest; sys.path.insert(0, %q); unittest.main(None, argv=['', 'discover', '-q', %q])", installed, tests)
	outside(t, dir, python, "-B", "-c", run)
}

// fileOf returns the content of a file of a wheel.
func fileOf(t *testing.T, packed []byte, name string) string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(z, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runtimeEnvironment returns the Python of an environment with ort/requirements.txt.
func runtimeEnvironment(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: onnxmem-ort is not tested")
	}
	requirements, err := os.ReadFile("ort/requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no cache folder for ONNX Runtime: %v", err)
	}
	version := outside(t, "", python, "--version")
	venv := filepath.Join(cache, "onnxmem", fmt.Sprintf("ort-%x", sha256.Sum256(append(requirements, version...)))[:24])
	bin := filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(filepath.Join(venv, "ready")); err == nil {
		return bin
	}
	if out, err := exec.Command(python, "-m", "venv", "--clear", venv).CombinedOutput(); err != nil {
		t.Skipf("python3 makes no environment: %v\n%s", err, out)
	}
	if out, err := exec.Command(bin, "-m", "pip", "-q", "--disable-pip-version-check", "install", "-r", "ort/requirements.txt").CombinedOutput(); err != nil {
		t.Skipf("no ONNX Runtime from PyPI: onnxmem-ort is not tested: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(venv, "ready"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return bin
}

// TestZig: the compiler is told the oldest system of the wheel's tags.
func TestZig(t *testing.T) {
	for _, target := range targets {
		got := strings.Join(target.zig("zig"), " ")
		arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[target.arch]
		if !strings.HasPrefix(got, "zig cc -target "+arch+"-") {
			t.Errorf("%s: %s", target, got)
		}
		for _, tag := range target.tags {
			if strings.HasPrefix(tag, "manylinux_2_17") && !strings.Contains(got, "-gnu.2.17") || strings.HasPrefix(tag, "musllinux") && !strings.Contains(got, "-musl") {
				t.Errorf("%s: %s for %s", target, got, tag)
			}
		}
	}
}
