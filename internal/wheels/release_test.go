package main

import (
	"os"
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

// TestLicenses: licences have the identifiers of SPDX, and one that is not known is an error.
func TestLicenses(t *testing.T) {
	list := []entry{
		{"a/LICENSE", []byte("The MIT License\n\nPermission is hereby granted, free of charge, to any"), 0o644},
		{"b/COPYING", []byte("Redistribution and use in source and binary forms, with\n* Neither the name of"), 0o644},
		{"b/PATENTS", []byte("Additional grant"), 0o644},
		{"c/LICENSE", []byte("Redistribution and use in source and binary forms, with"), 0o644},
		{"d/LICENSE", []byte("All rights reserved."), 0o644},
	}
	for folder, want := range map[string]string{"a": "MIT", "b": "BSD-3-Clause", "c": "BSD-2-Clause", "d": ""} {
		if got, err := licenseOf(folder, list); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v, expected %q", folder, got, err, want)
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
