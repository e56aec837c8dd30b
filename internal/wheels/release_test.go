package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// TestRelease: the release has the platforms of the wheels, and the files that its
// configuration names exist.
func TestRelease(t *testing.T) {
	type globs []struct{ Glob string }
	var c struct {
		Version     int
		ProjectName string `yaml:"project_name"`
		Before      struct{ Hooks []string }
		Builds      []struct {
			ID, Main, Binary                  string
			Env, Flags, Ldflags, Goos, Goarch []string
			ModTimestamp                      string `yaml:"mod_timestamp"`
		}
		Archives []struct {
			Formats, Files []string
			Overrides      []struct {
				Goos    string
				Formats []string
			} `yaml:"format_overrides"`
		}
		Checksum struct {
			Name  string `yaml:"name_template"`
			Extra globs  `yaml:"extra_files"`
		}
		Release struct {
			Draft bool
			Extra globs `yaml:"extra_files"`
		}
		Changelog struct{ Disable bool }
	}
	readYAML(t, ".goreleaser.yaml", &c)
	if c.Version != 2 || len(c.Builds) != 1 || len(c.Archives) != 1 {
		t.Fatalf("version %d, %d builds, %d archives, expected 2, 1 and 1", c.Version, len(c.Builds), len(c.Archives))
	}
	b := c.Builds[0]
	var platforms, wheels []string
	for _, os := range b.Goos {
		for _, arch := range b.Goarch {
			platforms = append(platforms, os+"/"+arch)
		}
	}
	for _, t := range targets {
		wheels = append(wheels, t.String())
	}
	if wheels = slices.Compact(wheels); !slices.Equal(platforms, wheels) {
		t.Errorf("platforms %q, expected those of the wheels: %q", platforms, wheels)
	}
	for _, pattern := range append(c.Archives[0].Files, b.Main) {
		if found, _ := filepath.Glob(filepath.Join("..", "..", pattern)); len(found) == 0 {
			t.Errorf("%s: no such file", pattern)
		}
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range c.Before.Hooks {
		if target := strings.Fields(hook); target[0] == "make" && !strings.Contains(string(makefile), "\n"+target[1]+":") {
			t.Errorf("hook %q: no such target", hook)
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
