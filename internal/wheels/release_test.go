package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// readYAML decodes a file at the root of the repository; a key that the type lacks is
// an error.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestDocuments: an archive's documents are there.
func TestDocuments(t *testing.T) {
	for _, pattern := range documents {
		if found, _ := filepath.Glob(filepath.Join("..", "..", pattern)); len(found) == 0 {
			t.Errorf("%s: no such file", pattern)
		}
	}
}

// TestArchive: the files of an archive lie in a folder of its name.
func TestArchive(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	for _, c := range []struct {
		target target
		name   string
	}{
		{target{os: "linux", arch: "amd64", static: true}, "onnxmem_1.2.3_linux_amd64_static.tar.gz"},
		{target{os: "windows", arch: "arm64"}, "onnxmem_1.2.3_windows_arm64.zip"},
	} {
		b := built{target: c.target, binary: []byte("command"), licenses: []entry{{"LICENSE", nil, 0o644}, {"go/LICENSE", []byte("free"), 0o644}}, sbom: []byte("{}")}
		path, packed, err := b.archive(t.TempDir(), "v1.2.3")
		if err != nil || filepath.Base(path) != c.name {
			t.Fatalf("%s, %v, expected %s", path, err, c.name)
		}
		if c.target.os == "windows" {
			if got := fileOf(t, packed, "onnxmem_1.2.3_windows_arm64/onnxmem.exe"); got != "command" {
				t.Errorf("command %q", got)
			}
			continue
		}
		for name, want := range map[string]string{"onnxmem": "command", "onnxmem.cyclonedx.json": "{}", "licenses/go/LICENSE": "free"} {
			if got := inArchive(t, packed, name); got != want {
				t.Errorf("%s: %q, expected %q", name, got, want)
			}
		}
	}
}

// TestLicenses: licences have the identifiers of SPDX, all that a text has, and one that is not
// known is an error. The texts are those of Go and of the modules that the command links.
func TestLicenses(t *testing.T) {
	want := map[string]string{ // the others are of one licence
		"go":                                   "BSD-3-Clause",
		"github.com/alecthomas/kong":           "MIT",
		"github.com/awalterschulze/gographviz": "Apache-2.0 AND BSD-3-Clause",
		"github.com/apache/arrow/go/arrow":     "Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND BSL-1.0 AND HPND AND MIT AND NCSA AND OpenSSL AND ZPL-2.1 AND Zlib",
		"github.com/pkg/errors":                "BSD-2-Clause",
		"github.com/vbauerster/mpb/v8":         "Unlicense",
		"golang.org/x/sys":                     "BSD-3-Clause",
		"gorgonia.org/tensor":                  "Apache-2.0",
	}
	t.Chdir(filepath.Join("..", ".."))
	list, err := hostTarget(t).licenses()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, l := range list {
		folder := path.Dir(l.name)
		if seen[folder] {
			continue
		}
		seen[folder] = true
		got, err := licenseOf(folder, list)
		if err != nil || want[folder] != "" && got != want[folder] || want[folder] == "" && strings.Contains(got, " AND ") {
			t.Errorf("%s: %q, %v, expected %q", folder, got, err, want[folder])
		}
	}
	for folder := range want {
		if !seen[folder] {
			t.Errorf("%s: no licence", folder)
		}
	}
	list = []entry{{"a/LICENSE", []byte("All rights reserved."), 0o644}, {"a/PATENTS", []byte("Additional grant"), 0o644}}
	if got, err := licenseOf("a", list); err == nil || !strings.Contains(err.Error(), `"a/LICENSE"`) {
		t.Errorf("%q, %v, expected an error with the file", got, err)
	}
}

// TestHook: the hook of pre-commit calls the command once for each model, with all flags.
func TestHook(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	echo := filepath.Join(t.TempDir(), "echo")
	if err := os.WriteFile(echo, []byte("#!/bin/sh\necho \"$@\"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--max-arena 512KiB a.onnx b.onnx":                "a.onnx|check --max-arena 512KiB -- a.onnx|b.onnx|check --max-arena 512KiB -- b.onnx|",
		"--max-arena=512KiB --json a.onnx":                "a.onnx|check --max-arena=512KiB --json -- a.onnx|",
		"--baseline old.plan.json --max-growth 2% a.onnx": "a.onnx|check --baseline old.plan.json --max-growth 2% -- a.onnx|",
		"--json=false a.ort b.ort":                        "a.ort|check --json=false -- a.ort|b.ort|check --json=false -- b.ort|",
		"a.onnx":                                          "a.onnx|check -- a.onnx|",
		"":                                                "",
	} {
		run := exec.Command(bash, append([]string{filepath.Join("..", "..", "packaging", "pre-commit")}, strings.Fields(args)...)...)
		run.Env = append(os.Environ(), "ONNXMEM_COMMAND="+echo)
		out, err := run.CombinedOutput()
		if got := strings.ReplaceAll(string(out), "\n", "|"); err != nil || got != want {
			t.Errorf("%q: %q, %v, expected %q", args, got, err, want)
		}
	}
}

// action is the GitHub action of this repository.
type action struct {
	Name, Description string
	Branding          struct{ Icon, Color string }
	Inputs            map[string]struct {
		Description, Default string
		Required             bool
	}
	Runs struct {
		Using string
		Steps []step
	}
}

// step is a step of the action.
type step struct {
	Name, If, Uses, Shell, Run string
	With, Env                  map[string]string
}

// TestActionInputs: the action's steps use every input, and only those that it has. No
// script has an expression in it, through which an input could run as a command.
func TestActionInputs(t *testing.T) {
	var a action
	readYAML(t, "action.yml", &a)
	used := map[string]bool{}
	for _, s := range a.Runs.Steps {
		texts := []string{s.If}
		for _, v := range s.Env {
			texts = append(texts, v)
		}
		for _, m := range regexp.MustCompile(`inputs\.([a-z-]+)`).FindAllStringSubmatch(strings.Join(texts, " "), -1) {
			used[m[1]] = true
			if _, is := a.Inputs[m[1]]; !is {
				t.Errorf("step %q uses the input %q, which the action does not have", s.Name, m[1])
			}
		}
		if strings.Contains(s.Run, "${{") {
			t.Errorf("step %q: an expression in its script: expected a variable", s.Name)
		}
	}
	for name := range a.Inputs {
		if !used[name] {
			t.Errorf("no step uses the input %q", name)
		}
	}
}
