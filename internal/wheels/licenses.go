package main

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenseFile are the names of files that a licence asks to pass on.
var licenseFile = regexp.MustCompile(`(?i)^((un)?licen[cs]e|notice|copying|patents)[^/]*$`)

// licenses returns our licence, and those of Go, of the modules that the command
// links for a target, and of the files that it embeds.
func (t target) licenses() ([]entry, error) {
	text, err := t.goCommand("list", "-deps", "-tags", t.buildTags(),
		"-f", `{{with .Module}}{{if not .Main}}{{.Path}}{{"\t"}}{{.Dir}}{{end}}{{end}}`, "./cmd/onnxmem").Output()
	if err != nil {
		return nil, fmt.Errorf("%s: go list: %w", t, err)
	}
	root, err := t.goCommand("env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	from := [][2]string{{"", "."}, {"go", strings.TrimSpace(string(root))}}
	modules := strings.Fields(string(text))
	for i := 0; i+1 < len(modules); i += 2 {
		from = append(from, [2]string{modules[i], modules[i+1]})
	}
	for _, e := range embedded {
		from = append(from, [2]string{path.Base(e.folder), e.folder})
	}
	slices.SortFunc(from, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	var list []entry
	for _, f := range slices.Compact(from) {
		found, err := licensesIn(f[0], f[1])
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// licensesIn reads the licences at the top of a folder. name is that of the folder in
// the wheel.
func licensesIn(name, dir string) ([]entry, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []entry
	for _, f := range files {
		if !f.Type().IsRegular() || !licenseFile.MatchString(f.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, entry{path.Join(name, f.Name()), data, 0o644})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no licence in %s", dir)
	}
	return list, nil
}
