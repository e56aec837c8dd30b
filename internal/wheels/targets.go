package main

import (
	"fmt"
	"runtime"
	"slices"
)

// target is what one wheel is for.
type target struct {
	os, arch string   // as Go names them
	static   bool     // the command asks for no loader, and cannot use a GPU
	tags     []string // platform tags of the wheel
}

// targets are all wheels. Each platform of Linux has two: the command that can use
// a GPU asks for the loader of glibc, of any version, and the one without a GPU is
// static, which musl (Alpine) needs. Installers take the wheel that suits the
// system. The versions are those that Go's own programs need, rounded up to what
// installers know: Linux 3.2 or later, macOS 12 or later.
var targets = []target{
	{"linux", "amd64", false, []string{"manylinux2014_x86_64", "manylinux_2_17_x86_64"}},
	{"linux", "amd64", true, []string{"musllinux_1_1_x86_64"}},
	{"linux", "arm64", false, []string{"manylinux2014_aarch64", "manylinux_2_17_aarch64"}},
	{"linux", "arm64", true, []string{"musllinux_1_1_aarch64"}},
	{"darwin", "amd64", false, []string{"macosx_12_0_x86_64"}},
	{"darwin", "arm64", false, []string{"macosx_12_0_arm64"}},
	{"windows", "amd64", false, []string{"win_amd64"}},
	{"windows", "arm64", false, []string{"win_arm64"}},
}

// String is the platform as it is chosen.
func (t target) String() string { return t.os + "/" + t.arch }

// buildTags are the tags of Go for the command.
func (t target) buildTags() string {
	if t.static {
		return "nocuda"
	}
	return ""
}

// command is the name of the command's file.
func (t target) command() string {
	if t.os == "windows" {
		return "onnxmem.exe"
	}
	return "onnxmem"
}

// choose returns the targets of platforms such as linux/amd64 or host; all if there
// are none.
func choose(platforms []string) ([]target, error) {
	if len(platforms) == 0 {
		return targets, nil
	}
	var chosen []target
	for _, p := range platforms {
		if p == "host" {
			p = runtime.GOOS + "/" + runtime.GOARCH
		}
		before := len(chosen)
		for _, t := range targets {
			if t.String() == p {
				chosen = append(chosen, t)
			}
		}
		if len(chosen) == before {
			var known []string
			for _, t := range targets {
				known = append(known, t.String())
			}
			return nil, fmt.Errorf("platform %q: expected host or one of %q", p, slices.Compact(known))
		}
	}
	return chosen, nil
}
