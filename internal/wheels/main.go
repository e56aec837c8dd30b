// Command wheels builds the wheels of the Python packages for each platform. onnxmem has the
// native command and the module in python/src that drives it. With -zig, it also has libonnxmem,
// but for musl, and there are wheels of onnxmem-ort, with the C library in ort/src and the module in ort/python/src.
//
//	go run ./internal/wheels -version v1.2.0 -out build/wheels linux/amd64 windows/arm64 ...
//
// With -archives, it also writes an archive of the command for each, and a list of the digests of
// all files.
//
// It runs in the root of the module. Without arguments, it builds for every
// platform; "host" is the platform of this machine. The command of a wheel lies
// where installers copy it beside python, unchanged, so no Python runs when it
// starts. All platforms are built on one machine: the command needs no C compiler, and
// Zig's builds the library for all of them. The same sources, compilers and -version
// give the same bytes. With -lib, it builds libonnxmem alone, with its header.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	version := flag.String("version", "dev", "the version, as git describe names it")
	out := flag.String("out", "build/wheels", "the folder for the wheels")
	zig := flag.String("zig", "", "the command zig, with which onnxmem-ort is built, too")
	archives := flag.Bool("archives", false, "write an archive of the command for each platform, too, and checksums.txt")
	library := flag.String("lib", "", "the folder for libonnxmem, which alone is built, for this machine or, with -zig, the given platforms")
	flag.Parse()
	run := func() error { return build(*out, *version, *zig, *archives, flag.Args()) }
	if *library != "" {
		run = func() error { return writeLibraries(*library, *zig, flag.Args()) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "wheels:", err)
		os.Exit(1)
	}
}

// build writes the wheels of platforms into a folder, and prints a line for each.
func build(out, version, zig string, archives bool, platforms []string) error {
	chosen, err := choose(platforms)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, t := range chosen {
		c, err := t.build(version)
		if err != nil {
			return err
		}
		if zig != "" && t.hasPlanner() {
			if c.planner, err = t.crossPlanner(zig); err != nil {
				return err
			}
		}
		files := []func() (string, []byte, error){func() (string, []byte, error) { return c.writeWheel(out, version) }}
		if archives {
			files = append(files, func() (string, []byte, error) { return c.archive(out, version) })
		}
		if zig != "" {
			files = append(files, func() (string, []byte, error) { return t.writeRuntime(out, version, t.zig(zig)) })
		}
		for _, write := range files {
			path, packed, err := write()
			if err != nil {
				return err
			}
			sum := sha256.Sum256(packed)
			fmt.Printf("%s  %d B  sha256:%x\n", path, len(packed), sum)
			fmt.Fprintf(&sums, "%x  %s\n", sum, filepath.Base(path))
		}
	}
	if !archives {
		return nil
	}
	return os.WriteFile(filepath.Join(out, "checksums.txt"), sums.Bytes(), 0o666)
}

// built is the command of a target with what goes along with it.
type built struct {
	target
	binary   []byte
	licenses []entry
	parts    []component // of the command
	python   string      // the version
	sbom     []byte
	planner  []byte // libonnxmem; nil: it is left out
}

// build compiles the command for a target, and lists what is in it.
func (t target) build(version string) (c built, err error) {
	c.target = t
	if c.licenses, err = t.licenses(); err != nil {
		return c, err
	}
	if c.binary, err = compile(t, version); err != nil {
		return c, err
	}
	if c.parts, err = contents(c.binary, c.licenses); err != nil {
		return c, fmt.Errorf("%s: %w", t, err)
	}
	if c.python, err = pythonVersion(version); err != nil {
		return c, err
	}
	c.sbom, err = command.sbom(c.python, c.binary, c.parts)
	return c, err
}

// writeWheel writes the wheel of a built command into a folder.
func (c built) writeWheel(out, version string) (path string, packed []byte, err error) {
	w := wheel{about: command, tags: c.tags, command: c.command(), binary: c.binary, licenses: c.licenses, sbom: c.sbom}
	if c.planner != nil {
		w.module = []entry{{"onnxmem/" + c.plannerName(), c.planner, 0o755}}
		// Its modules are among those of the command.
		if w.sbom, err = command.sbom(c.python, c.binary, c.parts, w.module...); err != nil {
			return "", nil, err
		}
	}
	return w.write(out, version)
}

// write adds what all wheels have, and writes the wheel into a folder.
func (w wheel) write(out, version string) (path string, packed []byte, err error) {
	if w.version, err = pythonVersion(version); err != nil {
		return "", nil, err
	}
	module, err := moduleFiles(w.about.sources)
	if err != nil {
		return "", nil, err
	}
	w.module = append(module, w.module...)
	if w.description, err = os.ReadFile(w.about.readme); err != nil {
		return "", nil, err
	}
	if packed, err = w.pack(); err != nil {
		return "", nil, err
	}
	path = filepath.Join(out, w.name())
	return path, packed, os.WriteFile(path, packed, 0o666)
}

// compile returns the command of a target, as make build builds it. The state of the
// checkout is not stamped into it: -version says what it is.
func compile(t target, version string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "onnxmem-wheel-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, t.command())
	c := t.goCommand("build", "-buildvcs=false", "-trimpath", "-tags", t.buildTags(),
		"-ldflags", "-s -w -X main.version="+version, "-o", path, "./cmd/onnxmem")
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %s", t, cmp.Or(strings.TrimSpace(string(text)), err.Error()))
	}
	binary, err := os.ReadFile(path)
	if err == nil && t.static {
		err = checkStatic(binary)
	}
	return binary, err
}

// checkStatic returns an error if a program of Linux asks for a loader: that of glibc,
// which musl lacks.
func checkStatic(binary []byte) error {
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("the command asks for a loader: expected a static one")
		}
	}
	return nil
}

// goCommand is a call of the go command for a target.
func (t target) goCommand(args ...string) *exec.Cmd {
	c := exec.Command("go", args...)
	// The variables that choose other instructions have their defaults: a wheel
	// suits every machine of its platform.
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
	return c
}
