package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// TestPages runs every command of the pages, each block in its own folder.
func TestPages(t *testing.T) {
	for _, page := range []string{"recipes.md", "zoo.md"} {
		t.Run(page, func(t *testing.T) { runPage(t, filepath.Join("..", "..", "docs", page)) })
	}
}

func runPage(t *testing.T, path string) {
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n## ([^\n]*)|\n```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	title, commands := "", 0
	for _, b := range blocks {
		if b[1] != "" {
			title = b[1]
			continue
		}
		t.Run(title, func(t *testing.T) {
			if strings.Contains(b[2], "--device cuda") {
				fake.Use(t)
			}
			t.Chdir(t.TempDir())
			for _, line := range strings.Split(strings.TrimSpace(b[2]), "\n") {
				commands++
				runRecipe(t, line)
			}
		})
	}
	if commands == 0 {
		t.Error("no commands")
	}
}

// runRecipe runs a line that begins with onnxmem, mkdir, grep or printf; after "! " it must fail. What pip
// installs is not needed on the fake GPU, which has it.
func runRecipe(t *testing.T, line string) {
	t.Helper()
	want := 0
	if rest, ok := strings.CutPrefix(line, "! "); ok {
		line, want = rest, exitFailed
	}
	args := strings.Fields(line)
	if strings.HasPrefix(line, "pip install nvidia-") {
		return
	}
	if args[0] == "mkdir" {
		if err := os.Mkdir(args[1], 0o777); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text, file, ok := strings.Cut(strings.TrimPrefix(line, "printf '"), "' > "); ok {
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, `\n`, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if args[0] == "grep" {
		if b, err := os.ReadFile(args[2]); err != nil || !strings.Contains(string(b), args[1]) {
			t.Fatalf("%s: not found: %v", line, err)
		}
		return
	}
	if args[0] != "onnxmem" {
		t.Fatalf("%s: expected a command of onnxmem", line)
	}
	var out, errs bytes.Buffer
	if got := run(args[1:], &out, &errs); got != want {
		t.Fatalf("%s: exit status %d, expected %d:\n%s%s", line, got, want, &out, &errs)
	}
}

// TestRecipesCode: the Go code of docs/recipes.md occurs in examples, which have tests
// of their own.
func TestRecipesCode(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	examples := ""
	for _, path := range []string{"schedule/example_compiler_test.go", "examples/train-mnist-like/main.go"} {
		b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		examples += words(string(b)) + "\n"
	}
	blocks := regexp.MustCompile("(?s)\n```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	for _, b := range blocks {
		if !strings.Contains(examples, words(b[1])) {
			t.Errorf("no example contains:\n%s", b[1])
		}
	}
	if len(blocks) < 2 {
		t.Errorf("%d blocks of Go", len(blocks))
	}
}

// TestCommandsAreKnown: the commands on the pages exist and have the flags that follow
// them in the same piece of code.
func TestCommandsAreKnown(t *testing.T) {
	parser, err := newParser(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]map[string]bool{}
	for _, c := range parser.Model.Children {
		flags[c.Name] = map[string]bool{"help-all": true}
		for _, group := range c.AllFlags(false) {
			for _, f := range group {
				flags[c.Name][f.Name] = true
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join("..", "..", "docs", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, more...)
	pages = append(pages, filepath.Join("..", "..", "README.md"), filepath.Join("..", "..", "CHANGELOG.md"))
	named := regexp.MustCompile("(?m)`onnxmem ([a-z]+)([^`\n]*)`|^ {4}(?:\\$ )?onnxmem ([a-z]+)(.*)$")
	flag := regexp.MustCompile(`--([a-z][a-z-]*)`)
	commands := 0
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(page), -1) {
			command := m[1] + m[3]
			commands++
			if flags[command] == nil {
				t.Errorf("%s: %s: no command", filepath.Base(path), m[0])
				continue
			}
			for _, f := range flag.FindAllStringSubmatch(m[2]+m[4], -1) {
				if !flags[command][f[1]] {
					t.Errorf("%s: %s: no flag --%s", filepath.Base(path), m[0], f[1])
				}
			}
		}
	}
	if commands < 50 {
		t.Errorf("%d commands", commands)
	}
}

// TestReadmeScreen: the README's first commands print the lines below them; a line with
// … matches any lines.
func TestReadmeScreen(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var shown []string // the rest of the output
	commands := 0
	for _, line := range strings.Split(string(page), "\n") {
		line, ok := strings.CutPrefix(line, "    ")
		command, prompt := strings.CutPrefix(line, "$ onnxmem ")
		switch {
		case !ok || !prompt && commands == 0:
		case prompt:
			var out, errs bytes.Buffer
			if got := run(strings.Fields(command), &out, &errs); got != 0 {
				t.Fatalf("%s: exit status %d: %s", line, got, &errs)
			}
			shown = strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
			commands++
		case line == "…":
			shown = nil
		case len(shown) > 0 && shown[0] == line:
			shown = shown[1:]
		case len(shown) > 0:
			t.Errorf("got  %s\nwant %s", shown[0], line)
			shown = shown[1:]
		}
	}
	if commands < 3 {
		t.Errorf("%d commands", commands)
	}
}

// TestWorkflow: the command of the workflow in docs/recipes.md works.
func TestWorkflow(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, workflow, found := strings.Cut(string(page), "```yaml\n")
	workflow, _, _ = strings.Cut(workflow, "```")
	var command string
	for _, line := range strings.Split(workflow, "\n") {
		if _, rest, ok := strings.Cut(line, "run: onnxmem"); ok {
			command = "onnxmem" + rest
		}
	}
	if !found || command == "" || strings.Count(workflow, "\n") > 10 {
		t.Fatalf("expected ten lines of YAML with a command, found:\n%s", workflow)
	}
	t.Chdir(t.TempDir())
	runRecipe(t, "onnxmem model mobilenet_v1 model.onnx --set width=0.25")
	runRecipe(t, "onnxmem optimize model.onnx planned.onnx --plan model.plan.json")
	runRecipe(t, command)
	runRecipe(t, "onnxmem model mobilenet_v1 model.onnx --set width=0.5")
	runRecipe(t, "! "+command)
}
