package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/sweep"
)

// TestReproducible: sources in two folders give the same wheels and the same archive, bit by bit,
// and the bill of materials in them lists what the compiler says is in the command.
func TestReproducible(t *testing.T) {
	sweep.Only(t)
	host := hostTarget(t)
	t.Chdir(filepath.Join("..", ".."))
	sources := tracked(t)
	var first map[string][]byte
	for _, folder := range []string{"a", "quite/another"} {
		root := filepath.Join(t.TempDir(), folder)
		copied(t, sources, root)
		t.Chdir(root)
		files, binary := release(t, host)
		if first == nil {
			first = files
			checkSBOM(t, files, binary)
			continue
		}
		for name, data := range files {
			if !bytes.Equal(data, first[name]) {
				t.Errorf("%s: %d bytes, and %d that differ from another folder", name, len(data), len(first[name]))
			}
		}
	}
	if len(first) < 2 {
		t.Errorf("%d files, expected a wheel and an archive", len(first))
	}
}

// tracked lists the files of the repository.
func tracked(t *testing.T) map[string]string {
	t.Helper()
	list, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("no list of the sources from git: %v", err)
	}
	files := map[string]string{}
	for _, name := range strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = path
	}
	return files
}

// copied puts files into a folder.
func copied(t *testing.T, files map[string]string, root string) {
	t.Helper()
	for name, from := range files {
		data, err := os.ReadFile(from)
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// release builds the files of a target from the sources in the current folder.
func release(t *testing.T, host target) (files map[string][]byte, binary []byte) {
	t.Helper()
	c, err := host.build("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	files, out := map[string][]byte{}, t.TempDir()
	add := func(path string, packed []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = packed
	}
	cc, err := exec.LookPath("cc")
	if err == nil && host.hasPlanner() {
		if c.planner, err = host.buildPlanner([]string{cc}); err != nil {
			t.Fatal(err)
		}
	}
	add(c.writeWheel(out, "v1.2.3"))
	add(c.archive(out, "v1.2.3"))
	if cc != "" {
		add(host.writeRuntime(out, "v1.2.3", []string{cc}))
	} else {
		t.Log("no C compiler: libonnxmem and onnxmem-ort are not built")
	}
	return files, c.binary
}

// checkSBOM compares the bill of materials of a wheel and an archive with the command.
func checkSBOM(t *testing.T, files map[string][]byte, binary []byte) {
	t.Helper()
	var got bom
	var parts [][]component
	add := func(text string) {
		got = bom{}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, got.Components)
		if want := fmt.Sprintf("%x", sha256.Sum256(binary)); got.Metadata.Component.Hashes[0].Content != want {
			t.Errorf("digest %s, expected that of the command, %s", got.Metadata.Component.Hashes[0].Content, want)
		}
	}
	for name, data := range files {
		switch {
		case strings.HasPrefix(name, "onnxmem_ort-"):
			text := fileOf(t, data, "onnxmem_ort-1.2.3.dist-info/sboms/onnxmem-ort.cyclonedx.json")
			if !strings.Contains(text, `"purl": "pkg:github/microsoft/onnxruntime@1.20"`) {
				t.Errorf("%s: no header of ONNX Runtime in\n%s", name, text)
			}
		case strings.HasSuffix(name, ".whl"):
			add(fileOf(t, data, "onnxmem-1.2.3.dist-info/sboms/onnxmem.cyclonedx.json"))
		default:
			add(inArchive(t, data, "onnxmem.cyclonedx.json"))
		}
	}
	if len(parts) != 2 || !reflect.DeepEqual(parts[0], parts[1]) {
		t.Fatalf("%d bills of materials, expected the same components in the wheel and the archive", len(parts))
	}
	listed := map[string]component{}
	for _, c := range got.Components {
		listed[c.Name] = c
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range info.Deps {
		if c := listed[d.Path]; c.Version != d.Version || c.Licenses[0].Expression == "" {
			t.Errorf("%s %s: listed as %+v", d.Path, d.Version, c)
		}
	}
	if len(listed) != len(info.Deps)+2 || "go"+listed["std"].Version != info.GoVersion || listed["uPlot"].Licenses[0].Expression != "MIT" {
		t.Errorf("%d components, expected the %d modules, Go's library and uPlot: %+v", len(listed), len(info.Deps), got.Components)
	}
}

// inArchive returns a file at the top of an archive's folder.
func inArchive(t *testing.T, packed []byte, name string) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, file, _ := strings.Cut(h.Name, "/"); file == name {
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
}
