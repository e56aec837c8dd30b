// Package fake is a CUDA driver and compiler without a GPU, for tests: a shared library
// that is libcuda, libnvrtc and, for those who ask, libcublas (UseBLAS) and libcudnn (UseDNN)
// at once. "Device" memory is host memory between guard pages, filled with 0xff; kernels are
// the same CUDA C as on a GPU, compiled by the C++ compiler at hand with a header that runs
// CUDA's threads as fibres.
//
// It finds what a GPU may hide. A barrier that some threads miss, or an access outside of
// device memory, ends the process with the kernel, block and thread. Strict finds the host
// touching device memory. A call without a current context, launches and copies beyond
// limits, and calls that must not be recorded are errors. Mode finds work that is not ordered
// by events: work is done as late as possible, or in an order drawn at random that streams
// and events allow. Counters find allocations at the wrong time.
//
// It differs from CUDA where it is stricter: a copy from ordinary host memory reads its
// source when the work is done, not when it is asked for. It says nothing of speed.
package fake

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed native/fake.cpp
var source []byte

//go:embed native/fibres.h
var fibres []byte

//go:embed native/cuda_cpu.h
var header []byte

//go:embed native/shared.h
var shared []byte

//go:embed native/tensor.inc
var tensor []byte

// ErrNoCompiler is wrapped by the error of Build where there is no C++ compiler.
var ErrNoCompiler = errors.New("no C++ compiler")

// Build compiles the library, unless an earlier call on this machine did, and returns its
// path, the compiler's, and the folder of cuda_cpu.h. Compiled kernels are kept in that
// folder, beside the header as the compiler has read it: they depend on the header and the
// compiler, and not on the rest of the library.
func Build() (library, compiler, include string, err error) {
	if compiler, err = findCompiler(); err != nil {
		return "", "", "", err
	}
	version, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		return "", "", "", fmt.Errorf("%s --version: %w", compiler, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", "", err
	}
	include = filepath.Join(cache, "onnxmem", "fakecuda", sum(header, shared, []byte(compiler), version))
	folder := filepath.Join(include, sum(source, fibres, tensor))
	library = filepath.Join(folder, "libfakecuda.so")
	if err := place(include, func(tmp string) error {
		return write(tmp, map[string][]byte{"cuda_cpu.h": header, "shared.h": shared})
	}); err != nil {
		return "", "", "", err
	}
	return library, compiler, include, place(folder, func(tmp string) error { return build(tmp, compiler) })
}

// sum is a name for contents.
func sum(parts ...[]byte) string {
	h := sha256.Sum256(bytes.Join(parts, []byte{0}))
	return hex.EncodeToString(h[:12])
}

func findCompiler() (string, error) {
	for _, name := range []string{os.Getenv("CXX"), "c++", "g++", "clang++"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: looked for $CXX, c++, g++ and clang++", ErrNoCompiler)
}

// place makes a folder, unless it is there, with what fill writes to it. Other processes
// may do so at the same time: the first one's stays.
func place(folder string, fill func(tmp string) error) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(folder), "build")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, folder); err != nil {
		if _, there := os.Stat(folder); there == nil {
			return nil
		}
		return err
	}
	return nil
}

// write writes files into a folder.
func write(folder string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// build compiles the library in a folder.
func build(folder, compiler string) error {
	if err := write(folder, map[string][]byte{"fake.cpp": source, "fibres.h": fibres, "shared.h": shared, "tensor.inc": tensor}); err != nil {
		return err
	}
	cmd := exec.Command(compiler, "-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", "libfakecuda.so", "fake.cpp", "-ldl")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the fake driver: %s: %w\n%s", compiler, err, out)
	}
	return nil
}

// Counters are what the driver was asked for since ResetCounters, sizes in bytes. Live
// ones count what is allocated.
type Counters struct {
	Launches, Allocations, Frees, LiveBytes, LiveBlocks, Pinned uint64
	Uploads, UploadedBytes, Downloads, DownloadedBytes          uint64
	Copies, CopiedBytes, Fills                                  uint64
	Modules, Compiles, GraphLaunches, Captures                  uint64
	Synchronizations, Waits, FloatAtomics, Products             uint64
	// Beside counts kernels and copies that were done while other work, of another stream or
	// node of a graph, was free to be done at the same time.
	Beside uint64
	// Convolutions are cuDNN's, LiveObjects its handles and descriptors that are not freed.
	Convolutions, LiveObjects uint64
	// LivePinned is pinned host memory, LiveHandles are streams, events and graphs.
	LivePinned, LiveHandles uint64
}
