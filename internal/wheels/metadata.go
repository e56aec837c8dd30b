package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// pkg is a Python package.
type pkg struct {
	name     string
	sources  string // folder of the module
	readme   string
	summary  string
	keywords string
	language string   // of what is native
	requires []string // other packages
}

// command is the package of the native command and the module that drives it.
var command = pkg{
	name:     "onnxmem",
	sources:  "python/src",
	readme:   "python/README.md",
	summary:  "Make neural networks in ONNX files need less memory, and prove it.",
	keywords: "onnx,memory,arena,scheduling,training",
	language: "Go",
}

// metadata is the file that describes the package to installers (core metadata 2.4).
func (w wheel) metadata() []byte {
	var b bytes.Buffer
	for _, field := range [][2]string{
		{"Metadata-Version", "2.4"},
		{"Name", w.about.name},
		{"Version", w.version},
		{"Summary", w.about.summary},
		{"Project-URL", "Source, https://github.com/onnxmem/onnxmem"},
		{"Keywords", w.about.keywords},
		{"License-Expression", "Apache-2.0"},
		{"Requires-Python", ">=3.10"},
		{"Classifier", "Operating System :: MacOS"},
		{"Classifier", "Operating System :: Microsoft :: Windows"},
		{"Classifier", "Operating System :: POSIX :: Linux"},
		{"Classifier", "Programming Language :: " + w.about.language},
		{"Classifier", "Programming Language :: Python :: 3"},
		{"Classifier", "Topic :: Scientific/Engineering :: Artificial Intelligence"},
		{"Classifier", "Typing :: Typed"},
		{"Description-Content-Type", "text/markdown"},
	} {
		fmt.Fprintf(&b, "%s: %s\n", field[0], field[1])
	}
	for _, r := range w.about.requires {
		fmt.Fprintf(&b, "Requires-Dist: %s\n", r)
	}
	for _, l := range w.licenses {
		fmt.Fprintf(&b, "License-File: %s\n", l.name)
	}
	b.WriteByte('\n')
	b.Write(w.description)
	return b.Bytes()
}

// described are the versions that git describe prints: a tag or none, the number of
// commits since the tag, the commit, and a mark of changes that are not committed.
var described = regexp.MustCompile(`^(?:v(\d+\.\d+\.\d+)(?:-(a|b|rc|alpha|beta)\.?(\d+))?)?(?:(?:-(\d+)-g)?([0-9a-f]{4,40}))?(-dirty)?$`)

// pythonVersion is the version, as git describe or the makefile names it, in the form
// that Python's installers demand (PEP 440): v1.2.0-3-g40465f4 becomes
// 1.2.0.post3+g40465f4, and a commit without a tag is 0.0.0+g40465f4.
func pythonVersion(version string) (string, error) {
	if version == "dev" {
		return "0.0.0.dev0", nil
	}
	m := described.FindStringSubmatch(version)
	if m == nil || m[1] == "" && m[5] == "" || m[1] != "" && (m[4] == "") != (m[5] == "") || m[1] == "" && m[4] != "" {
		return "", fmt.Errorf("version %q: expected one of git describe, such as v1.2.0, v1.2.0-3-g40465f4 or 40465f4, or dev", version)
	}
	number, local := m[1], []string{}
	if number == "" {
		number = "0.0.0"
	}
	if m[2] != "" {
		kind := strings.NewReplacer("alpha", "a", "beta", "b").Replace(m[2])
		number += kind + m[3]
	}
	if m[4] != "" {
		number += ".post" + m[4]
	}
	if m[5] != "" {
		local = append(local, "g"+m[5])
	}
	if m[6] != "" {
		local = append(local, "dirty")
	}
	if len(local) > 0 {
		number += "+" + strings.Join(local, ".")
	}
	return number, nil
}
