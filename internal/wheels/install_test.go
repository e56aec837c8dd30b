package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/onnxmem/onnxmem/internal/sweep"
)

// TestInstalled: the wheel of this machine, installed into an empty environment without
// a network, brings a command that starts without Python and a module that passes its
// tests.
func TestInstalled(t *testing.T) {
	sweep.Only(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: the wheel is not installed")
	}
	for _, module := range []string{"venv", "pip"} {
		if exec.Command(python, "-c", "import "+module).Run() != nil {
			t.Skipf("python3 lacks %s: the wheel is not installed", module)
		}
	}
	t.Chdir(filepath.Join("..", ".."))
	dir := t.TempDir()
	host := hostTarget(t)
	file := installable(t, host, dir)
	venv := filepath.Join(dir, "venv")
	bin := filepath.Join(venv, "bin")
	if runtime.GOOS == "windows" {
		bin = filepath.Join(venv, "Scripts")
	}
	outside(t, "", python, "-m", "venv", "--without-pip", venv)
	outside(t, "", python, "-m", "pip", "-q", "--disable-pip-version-check", "--python", venv, "install", "--no-index", "--no-compile", file)
	if got := outside(t, dir, filepath.Join(bin, "onnxmem"), "--version"); got != "v1.2.3" {
		t.Errorf("version %q, expected that of the build", got)
	}
	tests, err := filepath.Abs(filepath.Join("python", "tests"))
	if err != nil {
		t.Fatal(err)
	}
	if host.os == "linux" && !host.static {
		binary, err := os.ReadFile(filepath.Join(bin, "onnxmem"))
		if err != nil {
			t.Fatal(err)
		}
		if checkStatic(binary) == nil {
			t.Error("the command for glibc is taken for a static one")
		}
	}
	python = filepath.Join(bin, "python")
	if got := outside(t, dir, python, "-c", "import onnxmem; print(onnxmem.__file__, onnxmem.command())"); strings.Count(got, venv) != 2 {
		t.Errorf("module and command %s, expected them in %s", got, venv)
	}
	if _, err := exec.LookPath("cc"); err == nil && host.hasPlanner() {
		if got := outside(t, dir, python, "-c", "from onnxmem import _library; print(_library.library())"); !strings.Contains(got, venv) {
			t.Errorf("libonnxmem: %s, expected it in %s", got, venv)
		}
	}
	outside(t, dir, python, "-B", "-m", "unittest", "discover", "-q", tests)
	checkAction(t, dir, bin)
	checkHook(t, dir, bin)
}

// TestStaticCommand: the command without a GPU (the tag nocuda) asks for no loader on Linux, and
// says that it has none.
func TestStaticCommand(t *testing.T) {
	sweep.Only(t)
	host := hostTarget(t)
	if host.os != "linux" {
		t.Skip("only commands for Linux are static")
	}
	t.Chdir(filepath.Join("..", ".."))
	host.static = true
	binary, err := compile(host, "v1.2.3") // fails if it is not static
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "onnxmem")
	if err := os.WriteFile(path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	outside(t, dir, path, "model", "tiny_resnet8", "in.onnx")
	outside(t, dir, path, "optimize", "--effort", "fast", "in.onnx", "out.onnx")
	c := exec.Command(path, "run", "out.onnx", "--device", "cuda")
	c.Dir = dir
	if text, err := c.CombinedOutput(); err == nil || !strings.Contains(string(text), "nocuda") {
		t.Errorf("%v: %s, expected an error that names the tag", err, text)
	}
}

// checkAction runs the last step of the GitHub action, with the installed command.
func checkAction(t *testing.T, dir, bin string) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Log("no bash: the action's script is not run")
		return
	}
	text, err := os.ReadFile("action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	last := a.Runs.Steps[len(a.Runs.Steps)-1]
	outside(t, dir, filepath.Join(bin, "onnxmem"), "model", "tiny_resnet8", "model.onnx")
	for _, c := range []struct {
		variables string
		status    int
		want      string
	}{
		{"MAX_ARENA=192KiB", 0, "ok: arena"},
		{"MAX_ARENA=192KiB DIMS=batch=2\n", 1, "::error file=model.onnx"},
		{"MAX_PEAK=1MiB MAX_TOTAL=2MiB FLAGS=--fold=off\n--effort=fast", 0, "ok: total"},
		{"MAX_PEAK=1MiB;touch${IFS}hacked", 2, ""},
	} {
		run := exec.Command(bash, "-eo", "pipefail", "-c", last.Run)
		run.Dir = dir
		run.Env = append(os.Environ(), "MODEL=model.onnx", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		for name := range last.Env {
			if name != "MODEL" {
				run.Env = append(run.Env, name+"=")
			}
		}
		run.Env = append(run.Env, strings.Split(c.variables, " ")...)
		out, _ := run.CombinedOutput()
		if got := run.ProcessState.ExitCode(); got != c.status || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: exit status %d, expected %d with %q in:\n%s", c.variables, got, c.status, c.want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "hacked")); err == nil {
		t.Error("an input ran as a command")
	}
}

// checkHook runs the hook of pre-commit on two models, with the installed command.
func checkHook(t *testing.T, dir, bin string) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Log("no bash: the hook's script is not run")
		return
	}
	hook, err := filepath.Abs(filepath.Join("packaging", "pre-commit"))
	if err != nil {
		t.Fatal(err)
	}
	outside(t, dir, filepath.Join(bin, "onnxmem"), "model", "tiny_ds_cnn", "other.onnx")
	for limit, want := range map[string]string{"192KiB": "0 model.onnx other.onnx", "100KiB": "1 model.onnx other.onnx"} {
		run := exec.Command(bash, hook, "--effort=fast", "--max-arena", limit, "model.onnx", "other.onnx")
		run.Dir = dir
		run.Env = append(os.Environ(), "ONNXMEM_COMMAND="+filepath.Join(bin, "onnxmem"))
		out, _ := run.Output()
		got := []string{strconv.Itoa(run.ProcessState.ExitCode())}
		for _, line := range strings.Split(string(out), "\n") {
			if strings.HasSuffix(line, ".onnx") {
				got = append(got, line)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: exit status and models %q, expected %q:\n%s", limit, got, want, out)
		}
	}
}

// hostTarget is the target of this machine.
func hostTarget(t *testing.T) target {
	t.Helper()
	hosts, err := choose([]string{"host"})
	if err != nil {
		t.Skipf("%v: the wheel is not built", err)
	}
	musl, _ := filepath.Glob("/lib/ld-musl-*")
	if glibc, _ := filepath.Glob("/lib*/ld-linux-*"); len(musl) > 0 && len(glibc) == 0 { // which may have musl beside it
		return hosts[len(hosts)-1]
	}
	return hosts[0]
}

// installable writes the wheel of the command into a folder, and returns its path.
func installable(t *testing.T, host target, dir string) string {
	t.Helper()
	c, err := host.build("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("cc"); err == nil && host.hasPlanner() {
		if c.planner, err = host.buildPlanner([]string{"cc"}); err != nil {
			t.Fatal(err)
		}
	}
	path, packed, err := c.writeWheel(dir, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	text := fileOf(t, packed, "onnxmem-1.2.3.dist-info/sboms/onnxmem.cyclonedx.json")
	if sum := fmt.Sprintf("%x", sha256.Sum256(c.planner)); strings.Contains(text, sum) != (c.planner != nil) {
		t.Errorf("libonnxmem of %d bytes, and a bill of materials:\n%s", len(c.planner), text)
	}
	return path
}

// outside runs a command in a folder without the variables that lead to the sources,
// and returns its output without blanks at the ends.
func outside(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PYTHON") && !strings.HasPrefix(v, "ONNXMEM_COMMAND=") {
			c.Env = append(c.Env, v)
		}
	}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
