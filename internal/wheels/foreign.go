package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// foreign is a folder of files from others that lie in this repository, with their licence.
type foreign struct {
	name, folder string
	purl         string         // where others find it: the type and the name of a package URL
	file         string         // that names the version
	names        *regexp.Regexp // the version is its group
}

// embedded are those that the command embeds.
var embedded = []foreign{
	{"uPlot", "report/assets/uplot", "npm/uplot", "uPlot.iife.min.js", regexp.MustCompile(`uPlot \(v([0-9.]+)\)`)},
}

// header is ONNX Runtime's C header, with which the library of onnxmem-ort is compiled.
var header = foreign{"onnxruntime", "third_party/onnxruntime", "github/microsoft/onnxruntime", "README.md", regexp.MustCompile(`ONNX Runtime ([0-9.]+[0-9])`)}

// version is the one that the files name.
func (f foreign) version() (string, error) {
	text, err := os.ReadFile(filepath.Join(f.folder, f.file))
	if err != nil {
		return "", err
	}
	m := f.names.FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s/%s: expected a version that matches %s", f.folder, f.file, f.names)
	}
	return string(m[1]), nil
}
