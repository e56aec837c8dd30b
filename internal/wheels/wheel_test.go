package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func sample() wheel {
	return wheel{
		about:       command,
		version:     "1.2.0",
		tags:        []string{"manylinux2014_x86_64", "manylinux_2_17_x86_64"},
		module:      []entry{{"onnxmem/__init__.py", []byte("import os\n"), 0o644}},
		command:     "onnxmem",
		binary:      bytes.Repeat([]byte("command"), 1000),
		licenses:    []entry{{"LICENSE", []byte("free"), 0o644}, {"go/LICENSE", []byte("as free"), 0o644}},
		description: []byte("# onnxmem\n"),
	}
}

// TestPack: the list of files names every file with its digest and its size, as
// installers check them, and the command is executable.
func TestPack(t *testing.T) {
	packed, err := sample().pack()
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	contents := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		contents[f.Name] = string(data)
		sum := sha256.Sum256(data)
		lines = append(lines, fmt.Sprintf("%s,sha256=%s,%d", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data)))
		if want := strings.HasSuffix(f.Name, "scripts/onnxmem"); f.Mode()&0o111 != 0 != want {
			t.Errorf("%s: mode %v", f.Name, f.Mode())
		}
		if want := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); !f.Modified.Equal(want) {
			t.Errorf("%s: time %v, expected %v", f.Name, f.Modified, want)
		}
	}
	const record = "onnxmem-1.2.0.dist-info/RECORD"
	lines[len(lines)-1] = record + ",,"
	if got := strings.TrimSpace(contents[record]); got != strings.Join(lines, "\n") {
		t.Errorf("RECORD:\n%s\nexpected:\n%s", got, strings.Join(lines, "\n"))
	}
	if _, err := csv.NewReader(strings.NewReader(contents[record])).ReadAll(); err != nil {
		t.Errorf("RECORD: %v", err)
	}
	for name, want := range map[string]string{
		"onnxmem/__init__.py":                         "import os\n",
		"onnxmem-1.2.0.data/scripts/onnxmem":          "commandcommand",
		"onnxmem-1.2.0.dist-info/licenses/go/LICENSE": "as free",
		"onnxmem-1.2.0.dist-info/WHEEL":               "\nRoot-Is-Purelib: false\nTag: py3-none-manylinux2014_x86_64\nTag: py3-none-manylinux_2_17_x86_64\n",
		"onnxmem-1.2.0.dist-info/METADATA":            "\nVersion: 1.2.0\n",
	} {
		if !strings.Contains(contents[name], want) {
			t.Errorf("%s: %q, expected %q in it", name, contents[name], want)
		}
	}
	if got, want := contents["onnxmem-1.2.0.dist-info/METADATA"], "\nLicense-File: LICENSE\nLicense-File: go/LICENSE\n\n# onnxmem\n"; !strings.HasSuffix(got, want) {
		t.Errorf("METADATA:\n%s\nexpected to end with %q", got, want)
	}
}

// TestPackIsReproducible: the same files give the same bytes.
func TestPackIsReproducible(t *testing.T) {
	a, err := sample().pack()
	if err != nil {
		t.Fatal(err)
	}
	b, err := sample().pack()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("two wheels of the same files differ")
	}
}

func TestName(t *testing.T) {
	if got, want := sample().name(), "onnxmem-1.2.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"; got != want {
		t.Errorf("name %s, expected %s", got, want)
	}
}

func TestPythonVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.0":                    "1.2.0",
		"v1.2.0-dirty":              "1.2.0+dirty",
		"v1.2.0-3-g40465f4":         "1.2.0.post3+g40465f4",
		"v1.2.0-3-g40465f4-dirty":   "1.2.0.post3+g40465f4.dirty",
		"v1.2.0-rc.1":               "1.2.0rc1",
		"v1.2.0-beta2-14-g40465f41": "1.2.0b2.post14+g40465f41",
		"40465f4":                   "0.0.0+g40465f4",
		"40465f4-dirty":             "0.0.0+g40465f4.dirty",
		"dev":                       "0.0.0.dev0",
	} {
		if got, err := pythonVersion(version); got != want || err != nil {
			t.Errorf("%s: %q, %v, expected %q", version, got, err, want)
		}
	}
	for _, version := range []string{"", "1.2", "v1", "-dirty", "v1.2.0-3", "v1.2.0-g40465f4", "-3-g40465f4", "../v1.2.0", "v1.2.0\nName: other"} {
		if got, err := pythonVersion(version); err == nil {
			t.Errorf("%q: %q, expected an error", version, got)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		platforms string
		want      int
	}{{"", len(targets)}, {"linux/arm64", 2}, {"windows/amd64 darwin/arm64", 2}} {
		got, err := choose(strings.Fields(c.platforms))
		if err != nil || len(got) != c.want {
			t.Errorf("%q: %d targets, %v, expected %d", c.platforms, len(got), err, c.want)
		}
	}
	if _, err := choose([]string{"plan9/amd64"}); err == nil || !strings.Contains(err.Error(), `expected host or one of ["linux/amd64"`) {
		t.Errorf("plan9/amd64: %v", err)
	}
}
