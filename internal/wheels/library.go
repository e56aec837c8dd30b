package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// plannerName is the file name of libonnxmem, the planner as a shared library.
func (t target) plannerName() string {
	switch t.os {
	case "windows":
		return "onnxmem.dll"
	case "darwin":
		return "libonnxmem.dylib"
	}
	return "libonnxmem.so"
}

// hasPlanner reports whether libonnxmem runs on a target: Go's runtime does not start in a
// library that musl loads.
func (t target) hasPlanner() bool { return !t.static }

// cross is the call of Zig's C compiler for libonnxmem of a target. Of macOS it has the stubs, on a
// Mac, too: with a named target, Zig does not look into that system's folders. They lie in a folder
// that stays, since Go's cache goes by the call.
func (t target) cross(zig string) ([]string, error) {
	cc := t.zig(zig)[:4] // Go strips by itself
	if t.os != "darwin" {
		return cc, nil
	}
	dir, err := filepath.Abs(filepath.Join("build", "macos-stubs"))
	if err != nil {
		return nil, err
	}
	flags, err := writeStubs(dir)
	return append(cc, flags...), err
}

// buildPlanner builds libonnxmem with a C compiler.
func (t target) buildPlanner(cc []string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "libonnxmem-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, t.plannerName())
	// The build ID hashes the command lines, and so the paths of compilers.
	c := t.goCommand("build", "-buildvcs=false", "-trimpath", "-buildmode=c-shared", "-ldflags", "-s -w -buildid=", "-o", path, "./lib")
	c.Env = append(c.Env, "CGO_ENABLED=1", "CC="+strings.Join(cc, " "), "CGO_CFLAGS=-O2", "CGO_LDFLAGS=")
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("libonnxmem for %s: %s", t, cmp.Or(strings.TrimSpace(string(text)), err.Error()))
	}
	library, err := os.ReadFile(path)
	if err != nil || t.os != "windows" {
		return library, err
	}
	return withoutPDB(library)
}

// crossPlanner builds libonnxmem for a wheel. A platform for which Zig does not link it is named, and its wheel
// drives the command; but for this machine's, whose failure is one of the sources.
func (t target) crossPlanner(zig string) ([]byte, error) {
	cc, err := t.cross(zig)
	if err != nil {
		return nil, err
	}
	binary, err := t.buildPlanner(cc)
	if err != nil && (t.os != runtime.GOOS || t.arch != runtime.GOARCH) {
		fmt.Fprintf(os.Stderr, "wheels: WARNING: the wheel for %s has no libonnxmem: %v\n", t, err)
		return nil, nil
	}
	return binary, err
}

// writeLibraries writes libonnxmem of some platforms into a folder: of one, with onnxmem.h and
// the package for CMake; of several, each into a folder of its own. zig is "" for the C
// compiler of this machine, which builds for it alone. A platform that has no library is named.
func writeLibraries(out, zig string, platforms []string) error {
	if zig == "" {
		platforms = []string{"host"}
	}
	chosen, err := choose(platforms)
	if err != nil {
		return err
	}
	several := len(platforms) != 1
	for _, t := range chosen {
		if !t.hasPlanner() {
			if several {
				fmt.Printf("%s with musl: none: its loader does not start Go's runtime; programs there call the command\n", t)
			}
			continue
		}
		dir, cc := out, []string{"cc"}
		if several {
			dir = filepath.Join(out, t.os+"-"+t.arch)
		}
		if zig != "" {
			if cc, err = t.cross(zig); err != nil {
				return err
			}
		}
		binary, err := t.buildPlanner(cc)
		if err != nil {
			return err
		}
		if err := writeLibrary(dir, t.plannerName(), binary); err != nil {
			return err
		}
		fmt.Printf("%s  %d B\n", filepath.Join(dir, t.plannerName()), len(binary))
	}
	return nil
}

// writeLibrary writes a library, its header and its package for CMake.
func writeLibrary(dir, name string, binary []byte) error {
	files := map[string]string{"onnxmem.h": "lib/onnxmem.h"}
	for _, name := range []string{"onnxmem-config.cmake", "onnxmem-config-version.cmake"} {
		files["cmake/"+name] = "lib/cmake/" + name
	}
	if err := os.MkdirAll(filepath.Join(dir, "cmake"), 0o777); err != nil {
		return err
	}
	for to, from := range files {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o666)
		}
		if err != nil {
			return err
		}
	}
	path := filepath.Join(dir, name)
	os.Remove(path) // a program that has loaded the old one keeps it
	return os.WriteFile(path, binary, 0o777)
}
