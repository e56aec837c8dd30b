package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asCommand is the environment variable that makes the test binary the command.
const asCommand = "ONNXMEM_BEAM_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// command runs onnxmem-beam in a folder.
func beamCommand(t *testing.T, dir string, args ...string) (text string, status int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, args...)
	c.Env, c.Dir = append(os.Environ(), asCommand+"=1"), dir
	out, _ := c.CombinedOutput()
	return string(out), c.ProcessState.ExitCode()
}

// TestZooPage runs the commands of docs/zoo.md that start the pipeline on Prism.
func TestZooPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "zoo.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```beam\n(.*?)```").FindStringSubmatch(string(page))
	if block == nil {
		t.Fatal("docs/zoo.md has no commands for Prism")
	}
	dir := t.TempDir()
	onnxmem := filepath.Join(t.TempDir(), "onnxmem")
	if out, err := exec.Command("go", "build", "-C", "..", "-o", onnxmem, "./cmd/onnxmem").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, "zoo"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(block[1]), "\n") {
		args := strings.Fields(line)
		if args[0] == "onnxmem-beam" {
			if text, status := beamCommand(t, dir, args[1:]...); status != 0 || !strings.Contains(text, "models               2, 2 done now\n") {
				t.Fatalf("%s: exit status %d:\n%s", line, status, text)
			}
			continue
		}
		c := exec.Command(onnxmem, args[1:]...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	// A broken model makes the run fail, but the other models are planned.
	if err := os.WriteFile(filepath.Join(dir, "zoo", "broken.onnx"), []byte("no model"), 0o666); err != nil {
		t.Fatal(err)
	}
	text, status := beamCommand(t, dir, "--runner=prism", "zoo/*.onnx", "planned", "--dim", "batch=1")
	if status != exitFailed || !strings.Contains(text, "models               3, 1 done now\n") || !strings.Contains(text, "1 of 3 models failed") {
		t.Errorf("exit status %d:\n%s", status, text)
	}
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"--help", 0, "Examples:"},
		{"--beam-help", 0, "-environment_type"},
		{"out", exitUsage, "expected IN and OUT"},
		{"*.onnx out --schedule nosuch", exitUsage, `"nosuch"`},
		{"*.onnx out --nosuch", exitUsage, "unknown flag --nosuch"},
		{"*.onnx out", exitFailed, "matches nothing"},
		{"--list nosuch out", exitFailed, "nosuch: cannot be read"},
	} {
		if text, status := beamCommand(t, dir, strings.Fields(c.args)...); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit status %d, expected %d and %q:\n%s", c.args, status, c.status, c.want, text)
		}
	}
}

func TestSplit(t *testing.T) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.String("runner", "", "")
	flags.Bool("async", false, "")
	for args, want := range map[string]string{
		"--runner flink --async in out --dim a=1": "in out --dim a=1",
		"--runner=flink --list l out":             "--list l out",
		"-async -- --runner in":                   "--runner in",
		"in out":                                  "in out",
		"--runner":                                "",
	} {
		if got := split(strings.Fields(args), flags.Lookup); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}
