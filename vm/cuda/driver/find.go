package driver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ErrNoCompiler is wrapped by the error of LoadCompiler where no NVRTC is found.
var ErrNoCompiler = errors.New("no CUDA compiler (NVRTC)")

// openCompiler opens the newest NVRTC that the driver can work with. It looks, in this
// order, at ONNXMEM_NVRTC (a file), in ONNXMEM_CUDA_PATH, on the loader's path, in
// CUDA_PATH and /usr/local/cuda, and in the Python packages of NVIDIA that are
// installed for VIRTUAL_ENV or for the python3 on PATH.
func openCompiler(newest int) (path string, library uintptr, err error) {
	if path := os.Getenv("ONNXMEM_NVRTC"); path != "" {
		library, err := openWithBuiltins(path)
		if err != nil {
			return "", 0, fmt.Errorf("%w: ONNXMEM_NVRTC: %w", ErrNoCompiler, err)
		}
		return path, library, nil
	}
	var tried []string
	for _, path := range compilerFiles(newest) {
		if library, err := openWithBuiltins(path); err == nil {
			return path, library, nil
		}
		tried = append(tried, path)
	}
	wheel := "nvidia-cuda-nvrtc"
	if newest != 0 && newest < 13000 {
		wheel = "nvidia-cuda-nvrtc-cu12"
	}
	return "", 0, fmt.Errorf("%w among %s: `pip install %s` gets it", ErrNoCompiler, strings.Join(tried, ", "), wheel)
}

// openWithBuiltins opens NVRTC. It looks for its builtins by name alone, and some
// releases do not find them in their own folder, so they are opened first.
func openWithBuiltins(path string) (uintptr, error) {
	if dir := filepath.Dir(path); dir != "." {
		for _, pattern := range []string{"libnvrtc-builtins.so.*", "nvrtc-builtins64_*.dll"} {
			list, _ := filepath.Glob(filepath.Join(dir, pattern))
			for _, builtins := range list {
				_, _ = open(builtins)
			}
		}
	}
	return open(path)
}

// compilerFiles lists the paths under which NVRTC may be found.
func compilerFiles(newest int) []string {
	most := newest / 1000
	if most == 0 {
		most = 13
	}
	var list []string
	if dir := os.Getenv("ONNXMEM_CUDA_PATH"); dir != "" {
		list = append(list, inFolder(dir, most)...)
	}
	for major := most; major >= 11; major-- {
		list = append(list, onLoaderPath(major))
	}
	for _, dir := range []string{os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if dir != "" {
			list = append(list, inFolder(dir, most)...)
		}
	}
	for _, dir := range pythonFolders() {
		list = append(list, inFolder(dir, most)...)
	}
	return list
}

// onLoaderPath is the name under which the system's loader looks for NVRTC.
func onLoaderPath(major int) string {
	if runtime.GOOS == "windows" {
		return fmt.Sprintf("nvrtc64_%d0_0.dll", major)
	}
	return fmt.Sprintf("libnvrtc.so.%d", major)
}

// libraryVersion finds the major version in the name of an NVRTC library.
var libraryVersion = regexp.MustCompile(`^(?:libnvrtc\.so\.(\d+)|nvrtc64_(\d+)0_0\.dll)$`)

// inFolder lists the NVRTC libraries of a CUDA installation, or of a folder of Python
// packages (nvidia), of at most a major version, newest first.
func inFolder(dir string, most int) []string {
	type found struct {
		path  string
		major int
	}
	var list []found
	for _, below := range []string{"", "lib", "lib64", "bin", "bin/x64", "cu*/lib", "cuda_nvrtc/lib", "cu*/bin/x86_64", "cuda_nvrtc/bin", "targets/*/lib"} {
		paths, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(below), "*nvrtc*"))
		for _, p := range paths {
			m := libraryVersion.FindStringSubmatch(filepath.Base(p))
			if m == nil {
				continue
			}
			if major, _ := strconv.Atoi(m[1] + m[2]); major <= most {
				list = append(list, found{p, major})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b found) int { return b.major - a.major })
	var paths []string
	for _, f := range list {
		paths = append(paths, f.path)
	}
	return paths
}

// pythonFolders lists the folders of the Python packages "nvidia".
func pythonFolders() []string {
	var list []string
	if env := os.Getenv("VIRTUAL_ENV"); env != "" {
		for _, pattern := range []string{"lib/python*/site-packages/nvidia", "Lib/site-packages/nvidia"} {
			found, _ := filepath.Glob(filepath.Join(env, filepath.FromSlash(pattern)))
			list = append(list, found...)
		}
	}
	out, err := exec.Command("python3", "-c", "import nvidia; print('\\n'.join(nvidia.__path__))").Output()
	if err == nil {
		list = append(list, strings.Fields(string(out))...)
	}
	return list
}
