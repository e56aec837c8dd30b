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
	"sync"
)

// ErrNoCompiler is wrapped by the error of LoadCompiler where no NVRTC is found.
var ErrNoCompiler = errors.New("no CUDA compiler (NVRTC)")

// ErrNoBLAS is wrapped by the error of OpenBLAS where no cuBLAS is found.
var ErrNoBLAS = errors.New("no cuBLAS")

// ErrNoDNN is wrapped by the error of OpenDNN where no cuDNN is found.
var ErrNoDNN = errors.New("no cuDNN")

// library is a library of NVIDIA's beside the driver.
type library struct {
	variable string // of the environment: the path of the library
	missing  error
	wheel    string   // the Python package that has it
	wheel12  string   // that for CUDA 12
	folder   string   // of that package for CUDA 12
	glob     string   // for its files
	parts    []string // for the files of libraries that it needs beside it
	file     *regexp.Regexp
	name     func(major int) string // under which the system's loader looks for it
}

var (
	nvrtcLibrary = library{
		variable: "ONNXMEM_NVRTC", missing: ErrNoCompiler, wheel: "nvidia-cuda-nvrtc", wheel12: "nvidia-cuda-nvrtc-cu12", folder: "cuda_nvrtc",
		glob: "*nvrtc*", parts: []string{"libnvrtc-builtins.so.*", "nvrtc-builtins64_*.dll"},
		file: regexp.MustCompile(`^(?:libnvrtc\.so\.(\d+)|nvrtc64_(\d+)0_0\.dll)$`),
		name: func(major int) string {
			if runtime.GOOS == "windows" {
				return fmt.Sprintf("nvrtc64_%d0_0.dll", major)
			}
			return fmt.Sprintf("libnvrtc.so.%d", major)
		},
	}
	blasLibrary = library{
		variable: "ONNXMEM_CUBLAS", missing: ErrNoBLAS, wheel: "nvidia-cublas", wheel12: "nvidia-cublas-cu12", folder: "cublas",
		glob: "*cublas*", parts: []string{"libcublasLt.so.*", "cublasLt64_*.dll"},
		file: regexp.MustCompile(`^(?:libcublas\.so\.(\d+)|cublas64_(\d+)\.dll)$`),
		name: func(major int) string {
			if runtime.GOOS == "windows" {
				return fmt.Sprintf("cublas64_%d.dll", major)
			}
			return fmt.Sprintf("libcublas.so.%d", major)
		},
	}
	// cuDNN counts its own versions: which CUDA a file is made for it says when it is open. On
	// Linux it finds its parts beside itself.
	dnnLibrary = library{
		variable: "ONNXMEM_CUDNN", missing: ErrNoDNN, wheel: "nvidia-cudnn-cu13", wheel12: "nvidia-cudnn-cu12", folder: "cudnn",
		glob: "*cudnn*", parts: []string{"cudnn_graph64_9.dll", "cudnn_ops64_9.dll", "cudnn_cnn64_9.dll", "cudnn_heuristic64_9.dll", "cudnn_engines_*64_9.dll"},
		file: regexp.MustCompile(`^(?:libcudnn\.so\.(9)|cudnn64_(9)\.dll)$`),
		name: func(int) string {
			if runtime.GOOS == "windows" {
				return "cudnn64_9.dll"
			}
			return "libcudnn.so.9"
		},
	}
)

// open opens the newest such library that the driver can work with. It looks, in this order,
// at the library's variable (a file), in ONNXMEM_CUDA_PATH, on the loader's path, in
// CUDA_PATH and /usr/local/cuda. Last are the Python packages of NVIDIA that are installed
// for VIRTUAL_ENV or for the python3 (or python) on PATH.
func (l *library) open(newest int) (path string, handle uintptr, err error) {
	if path := os.Getenv(l.variable); path != "" {
		handle, err := l.openWithParts(path)
		if err != nil {
			return "", 0, fmt.Errorf("%w: %s: %w", l.missing, l.variable, err)
		}
		return path, handle, nil
	}
	var tried []string
	for _, path := range l.files(newest) {
		if handle, err := l.openWithParts(path); err == nil {
			return path, handle, nil
		}
		tried = append(tried, path)
	}
	wheel := l.wheel
	if newest != 0 && newest < 13000 {
		wheel = l.wheel12
	}
	return "", 0, fmt.Errorf("%w among %s: `pip install %s` gets it", l.missing, strings.Join(tried, ", "), wheel)
}

// openWithParts opens the library. It looks for its parts by name alone, and some
// releases do not find them in their own folder, so they are opened first.
func (l *library) openWithParts(path string) (uintptr, error) {
	if dir := filepath.Dir(path); dir != "." {
		for _, pattern := range l.parts {
			list, _ := filepath.Glob(filepath.Join(dir, pattern))
			for _, part := range list {
				_, _ = open(part)
			}
		}
	}
	return open(path)
}

// files lists the paths under which the library may be found.
func (l *library) files(newest int) []string {
	most := newest / 1000
	if most == 0 {
		most = 13
	}
	var list []string
	if dir := os.Getenv("ONNXMEM_CUDA_PATH"); dir != "" {
		list = append(list, l.inFolder(dir, most)...)
	}
	for major := most; major >= 11; major-- {
		if name := l.name(major); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	for _, dir := range []string{os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if dir != "" {
			list = append(list, l.inFolder(dir, most)...)
		}
	}
	for _, dir := range pythonFolders() {
		list = append(list, l.inFolder(dir, most)...)
	}
	return list
}

// inFolder lists the files of the library in a CUDA installation, or in a folder of Python
// packages (nvidia), of at most a major version, newest first.
func (l *library) inFolder(dir string, most int) []string {
	type found struct {
		path  string
		major int
	}
	var list []found
	for _, below := range []string{"", "lib", "lib64", "bin", "bin/x64", "cu[0-9]*/lib", l.folder + "/lib", "cu[0-9]*/bin/x86_64", l.folder + "/bin", "targets/*/lib"} {
		paths, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(below), l.glob))
		for _, p := range paths {
			m := l.file.FindStringSubmatch(filepath.Base(p))
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
	return append(list, python3Folders()...)
}

// python3Folders asks the Python on PATH, once.
var python3Folders = sync.OnceValue(askPython)

// askPython asks python3, or, where it does not know the packages (Windows has a python3 that
// is none), python.
func askPython() (list []string) {
	for _, name := range []string{"python3", "python"} {
		out, err := exec.Command(name, "-c", "import nvidia; print('\\n'.join(nvidia.__path__))").Output()
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(out)) { // a folder may have spaces
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, line)
			}
		}
		if len(list) > 0 {
			break
		}
	}
	return list
}
