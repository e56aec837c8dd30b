// Command wheels builds the wheels of the Python package onnxmem: for each
// platform, the native command and the module in python/src that drives it.
//
//	go run ./internal/wheels -version v1.2.0 -out build/wheels linux/amd64 windows/arm64 ...
//
// It runs in the root of the module. Without arguments, it builds for every
// platform; "host" is the platform of this machine. The command of a wheel lies
// where installers copy it beside python, unchanged, so no Python runs when it
// starts. All platforms are built on one machine, since nothing needs a C compiler.
// The same sources, version of Go and -version give the same bytes.
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
	flag.Parse()
	if err := build(*out, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "wheels:", err)
		os.Exit(1)
	}
}

// build writes the wheels of platforms into a folder, and prints a line for each.
func build(out, version string, platforms []string) error {
	chosen, err := choose(platforms)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	for _, t := range chosen {
		path, packed, err := t.write(out, version)
		if err != nil {
			return err
		}
		fmt.Printf("%s  %d B  sha256:%x\n", path, len(packed), sha256.Sum256(packed))
	}
	return nil
}

// write builds the wheel of a target into a folder, and returns its path and bytes.
func (t target) write(out, version string) (path string, packed []byte, err error) {
	w := wheel{tags: t.tags, command: t.command()}
	if w.version, err = pythonVersion(version); err != nil {
		return "", nil, err
	}
	if w.module, err = moduleFiles(); err != nil {
		return "", nil, err
	}
	if w.description, err = os.ReadFile("python/README.md"); err != nil {
		return "", nil, err
	}
	if w.licenses, err = t.licenses(); err != nil {
		return "", nil, err
	}
	if w.binary, err = compile(t, version); err != nil {
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
