package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPages runs every command of the pages, each block in a folder of its own.
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

// runRecipe runs a line that begins with onnxmem, or with mkdir; after "! " it
// must fail.
func runRecipe(t *testing.T, line string) {
	t.Helper()
	want := 0
	if rest, ok := strings.CutPrefix(line, "! "); ok {
		line, want = rest, exitFailed
	}
	args := strings.Fields(line)
	if args[0] == "mkdir" {
		if err := os.Mkdir(args[1], 0o777); err != nil {
			t.Fatal(err)
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

// TestRecipesCode: the Go code of docs/recipes.md is that of examples, which are
// run by tests of their own.
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
			t.Errorf("in no example:\n%s", b[1])
		}
	}
	if len(blocks) < 2 {
		t.Errorf("%d blocks of Go", len(blocks))
	}
}

// TestReadmeWorkflow: the command of the README's workflow does what it says.
func TestReadmeWorkflow(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
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
