package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// runtimePackage is the package that lets ONNX Runtime, and PyTorch on CUDA, take their
// memory from an arena: the modules onnxmem_ort and onnxmem_torch with one C library.
var runtimePackage = pkg{
	name:     "onnxmem-ort",
	sources:  "ort/python/src",
	readme:   "ort/python/README.md",
	summary:  "ONNX Runtime's memory, and PyTorch's on CUDA, in one packed arena.",
	keywords: "onnx,onnxruntime,pytorch,cuda,memory,arena,allocator",
	language: "C",
	requires: []string{"onnxmem", "onnxruntime>=1.23"},
}

// library is the file name of the C library, as the module expects it.
func (t target) library() string {
	switch t.os {
	case "windows":
		return "onnxmem_ort.dll"
	case "darwin":
		return "libonnxmem_ort.dylib"
	}
	return "libonnxmem_ort.so"
}

// zig is the call of Zig's C compiler for a target: for the oldest system that the tags
// of its wheel name.
func (t target) zig(command string) []string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[t.arch]
	system := map[string]string{"windows": "windows-gnu", "darwin": "macos.12.0", "linux": "linux-gnu.2.17"}[t.os]
	if t.static {
		system = "linux-musl"
	}
	return []string{command, "cc", "-target", arch + "-" + system, "-s"}
}

// writeRuntime builds the wheel of onnxmem-ort for a target with a C compiler into a
// folder, and returns its path and bytes.
func (t target) writeRuntime(out, version string, cc []string) (path string, packed []byte, err error) {
	w := wheel{about: runtimePackage, tags: t.tags}
	// The command whose format of results the module knows.
	python, err := pythonVersion(version)
	if err != nil {
		return "", nil, err
	}
	public, _, _ := strings.Cut(python, "+")
	w.about.requires = slices.Clone(w.about.requires)
	w.about.requires[0] += ">=" + public
	for name, dir := range map[string]string{"": ".", "onnxruntime": header.folder} {
		found, err := licensesIn(name, dir)
		if err != nil {
			return "", nil, err
		}
		w.licenses = append(w.licenses, found...)
	}
	slices.SortFunc(w.licenses, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	binary, err := compileLibrary(t, cc)
	if err != nil {
		return "", nil, err
	}
	part, err := header.component(w.licenses)
	if err != nil {
		return "", nil, err
	}
	if w.sbom, err = w.about.sbom(python, binary, []component{part}); err != nil {
		return "", nil, err
	}
	w.module = []entry{{"onnxmem_ort/" + t.library(), binary, 0o755}}
	return w.write(out, version)
}

// compileLibrary returns the C library of a target.
func compileLibrary(t target, cc []string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "onnxmem-wheel-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	sources, err := filepath.Glob("ort/src/*.c")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, t.library())
	args := append(slices.Clone(cc[1:]), "-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o", path)
	args = append(args, sources...)
	switch t.os {
	case "linux":
		args = append(args, "-pthread", "-ldl")
	case "darwin": // otherwise the library names the temporary folder
		args = append(args, "-Wl,-install_name,@rpath/"+t.library())
	}
	if text, err := exec.Command(cc[0], args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %s: %s", t, cc[0], cmp.Or(strings.TrimSpace(string(text)), err.Error()))
	}
	return os.ReadFile(path)
}
