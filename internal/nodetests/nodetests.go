// Package nodetests reads ONNX's operator tests from an archive. Each test has a
// model, inputs, expected outputs, and the result of ONNX Runtime.
package nodetests

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Test is one operator test.
type Test struct {
	Name      string
	Operators []string
	Runtime   string // the result of ONNX Runtime: pass, differs, not run, not loaded; "" if unknown
	Files     map[string][]byte
}

// Model returns the bytes of the model.
func (t *Test) Model() []byte { return t.Files["model.onnx"] }

// Input returns the bytes of input i, a TensorProto, or nil if there is none.
func (t *Test) Input(i int) []byte { return t.Files[fmt.Sprintf("input_%d.pb", i)] }

// Output returns the bytes of output i, a TensorProto, or nil if there is none.
func (t *Test) Output(i int) []byte { return t.Files[fmt.Sprintf("output_%d.pb", i)] }

// Read reads node-tests.tar.gz and node-tests.csv in a folder. It returns the tests
// sorted by name.
func Read(dir string) ([]*Test, error) {
	tests, err := readArchive(filepath.Join(dir, "node-tests.tar.gz"))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, "node-tests.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range rows[1:] { // name, nodes, operators, opsets, runtime
		if t := tests[row[0]]; t != nil {
			t.Operators, t.Runtime = strings.Fields(row[2]), row[4]
		}
	}
	list := make([]*Test, 0, len(tests))
	for _, t := range tests {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *Test) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// readArchive reads the files of every test, FOLDER/NAME/…/FILE, and returns the
// tests by name.
func readArchive(name string) (map[string]*Test, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	tests := map[string]*Test{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return tests, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		parts := strings.Split(h.Name, "/")
		if h.Typeflag != tar.TypeReg || len(parts) < 3 {
			continue
		}
		t := tests[parts[1]]
		if t == nil {
			t = &Test{Name: parts[1], Files: map[string][]byte{}}
			tests[t.Name] = t
		}
		if t.Files[path.Base(h.Name)], err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
}
