package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestInFolder: libraries are found where CUDA and NVIDIA's Python packages have them, the
// newest first, and none of a later major version than the driver's.
func TestInFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"cu13/lib/libcublas.so.13", "cu13/lib/libcublasLt.so.13", "cu13/lib/libnvblas.so.13", "cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc-builtins.so.13.0",
		"cublas/lib/libcublas.so.12", "cuda_nvrtc/lib/libnvrtc.so.12", "lib64/libcublas.so.11", "lib64/libcublas.so", "cu13/bin/x86_64/cublas64_13.dll",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		l    *library
		most int
		want []string
	}{
		{&blasLibrary, 13, []string{"cu13/lib/libcublas.so.13", "cu13/bin/x86_64/cublas64_13.dll", "cublas/lib/libcublas.so.12", "lib64/libcublas.so.11"}},
		{&blasLibrary, 12, []string{"cublas/lib/libcublas.so.12", "lib64/libcublas.so.11"}},
		{&nvrtcLibrary, 13, []string{"cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12"}},
	} {
		var got []string
		for _, path := range c.l.inFolder(dir, c.most) {
			name, _ := filepath.Rel(dir, path)
			got = append(got, filepath.ToSlash(name))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s of CUDA %d: %v, expected %v", c.l.variable, c.most, got, c.want)
		}
	}
}

// TestAskPython: the folders of NVIDIA's packages are those of the Python that knows some, and
// may have spaces in their names.
func TestAskPython(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the Pythons of this test are shell scripts")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"python3": "#!/bin/sh\necho 'Python was not found' >&2\nexit 49\n",
		"python":  "#!/bin/sh\necho '/opt/my env/nvidia'\necho /usr/lib/nvidia\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	if got, want := askPython(), []string{"/opt/my env/nvidia", "/usr/lib/nvidia"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNotFound: the error of a library that is nowhere says where it was looked for, and the one
// command that gets the release for the driver.
func TestNotFound(t *testing.T) {
	nothing := t.TempDir()
	for _, name := range []string{"PATH", "VIRTUAL_ENV", "CUDA_PATH", "ONNXMEM_CUDA_PATH"} {
		t.Setenv(name, nothing)
	}
	for _, c := range []struct {
		l       library
		missing error
		newest  int
		get     string
	}{
		{nvrtcLibrary, ErrNoCompiler, 13000, "`pip install nvidia-cuda-nvrtc` gets it"},
		{nvrtcLibrary, ErrNoCompiler, 12080, "`pip install nvidia-cuda-nvrtc-cu12` gets it"},
		{blasLibrary, ErrNoBLAS, 13000, "`pip install nvidia-cublas` gets it"},
		{dnnLibrary, ErrNoDNN, 13000, "`pip install nvidia-cudnn-cu13` gets it"},
	} {
		// A machine may have the libraries where the loader looks.
		c.l.variable, c.l.name = "ONNXMEM_TEST_NOTHING", func(major int) string { return fmt.Sprintf("libnothing.so.%d", major) }
		c.l.glob = "*nothing*"
		_, _, err := c.l.open(c.newest)
		if !errors.Is(err, c.missing) || !strings.Contains(err.Error(), "libnothing.so.12") || !strings.HasSuffix(err.Error(), c.get) {
			t.Errorf("CUDA %d: got %v, expected %q", c.newest, err, c.get)
		}
	}
}

// TestNoBLAS: the error of a cuBLAS that cannot be opened says where it was looked for, and
// what gets it.
func TestNoBLAS(t *testing.T) {
	t.Setenv("ONNXMEM_CUBLAS", filepath.Join(t.TempDir(), "libcublas.so.13"))
	if _, err := OpenBLAS(13000); !errors.Is(err, ErrNoBLAS) || !strings.Contains(err.Error(), "ONNXMEM_CUBLAS") {
		t.Errorf("got %v, want ErrNoBLAS", err)
	}
	t.Setenv("ONNXMEM_CUBLAS", "off")
	if _, err := OpenBLAS(13000); !errors.Is(err, ErrNoBLAS) {
		t.Errorf("got %v, want ErrNoBLAS", err)
	}
}
