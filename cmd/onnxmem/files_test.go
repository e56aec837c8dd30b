package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// noFiles are the text arguments and flags that are not file names.
var noFiles = []string{
	"schedule", "placement", "strategy", "disable-pass", "print-after", "effort", "fold", "slices", "cublas", "cudnn", "schedule-goal", "runtime", "order", "format", "to", "shell", "pack", "replay", "solver", // choices
	"loss", "loss-output", "optimizer", "trainable", "freeze", "no-lean", "updates", "group", "loss-scale", "fused-gradients", // of a training graph
	"dim", "batch-dim", "shard", "trace-device", "external-data", "state", "decode", "mask", "positions",
	"name", "set", // of a network
	"autocast", "precision", "keep", // of 16 bits
	"lora-targets",                     // modules
	"save-adapter", "adapter", "proof", // folders
	"device",  // a GPU
	"without", // rows of the lowering
	"ilp",     // choices of an integer program
	"devices", // names
}

// fileValues lists the arguments and flags of a command whose values are texts.
func fileValues(command *kong.Node) []*kong.Value {
	var list []*kong.Value
	values := slices.Clone(command.Positional)
	for _, f := range command.Flags {
		values = append(values, f.Value)
	}
	for _, v := range values {
		switch v.Target.Interface().(type) {
		case string, []string, map[string]string:
			if !slices.Contains(noFiles, v.Name) {
				list = append(list, v)
			}
		}
	}
	return list
}

// TestFilesAreKnown: a tag marks every input and output file of a command, so that the
// command can refuse to overwrite an input.
func TestFilesAreKnown(t *testing.T) {
	parser, err := newParser(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		for _, v := range fileValues(command) {
			in, out := v.Tag.Get("in"), v.Tag.Get("out")
			switch _, list := v.Target.Interface().([]string); {
			case list && command.Name == "batch": // batchCmd.uses
			case list || (in == "") == (out == ""):
				t.Errorf("%s %s: expected a tag in or out that says what the file is, or a line in noFiles", command.Name, v.Name)
			}
		}
	}
}

// outputLines has a command line for every output of every command: @ is the output, and
// inputs are the files that it must not overwrite.
var outputLines = []struct{ output, line, inputs string }{
	{"optimize out", "optimize m.onnx @", "external.bin"},
	{"optimize plan", "optimize m.onnx out.onnx --limit 99% --costs costs.json --plan @", "m.onnx external.bin costs.json"},
	{"optimize plan", "optimize p.onnx out.onnx --plan @", "p.plan.json"},
	{"optimize params", "optimize --train m.onnx out.onnx --params @", "m.onnx external.bin"},
	{"optimize frontier-svg", "optimize m.onnx --frontier --frontier-svg @", "m.onnx external.bin"},
	{"report out", "report p.onnx -o @", "p.onnx p.plan.json external.bin"},
	{"report out", "report p.onnx --plan other.json -o @", "p.onnx other.json external.bin"},
	{"report out", "report p.plan.json -o @", "p.onnx p.plan.json"},
	{"report out", "report m.onnx --limit 99% --costs costs.json -o @", "m.onnx external.bin costs.json"},
	{"export out", "export --to csv p.onnx -o @", "p.onnx p.plan.json external.bin"},
	{"export out", "export --to csv p.plan.json -o @", "p.onnx p.plan.json"},
	{"run outputs", "run p.onnx --inputs in.npz --outputs @", "p.onnx p.plan.json external.bin in.npz"},
	{"run output", "run p.onnx --input x=x.npy --output y=@", "x.npy"},
	{"run save", "run t.onnx --save @", "t.onnx t.plan.json"},
	{"run save", "run t.onnx --params q.onnx --save @", "t.onnx t.plan.json"},
	{"run save-model", "run t.onnx --save-model @", "t.onnx t.plan.json t.params.onnx external.bin m.onnx"},
	{"run save-model", "run t.onnx --params q.onnx --source c.onnx --save-model @", "q.onnx c.onnx external.bin"},
	{"run profile", "run p.onnx --profile @", "p.onnx p.plan.json external.bin"},
	{"run workspaces-out", "run p.onnx --device cuda --workspaces-out @", "p.onnx p.plan.json external.bin"},
	{"run costs-out", "run p.onnx --costs-out @", "p.onnx p.plan.json external.bin"},
	{"run host-file", "run p.onnx --host-file @", "p.onnx p.plan.json external.bin"},
	{"verify plain", "verify p.onnx --plain @", "m.onnx p.onnx p.plan.json external.bin"},
	{"merge out", "merge m.onnx . @", "m.onnx external.bin adapter_config.json adapter_model.safetensors"},
	{"order out", "order problem.json --out @", "problem.json"},
	{"order lp", "order problem.json --lp @", "problem.json"},
	{"order mps", "order problem.json --mps @", "problem.json"},
	{"order cp-sat", "order problem.json --cp-sat @", "problem.json"},
	{"order minizinc", "order problem.json --minizinc @", "problem.json"},
	{"pack out", "pack buffers.csv --out @", "buffers.csv"},
	{"pack svg", "pack buffers.csv --svg @", "buffers.csv"},
	{"pack lp", "pack buffers.csv --lp @", "buffers.csv"},
	{"pack mps", "pack buffers.csv --mps @", "buffers.csv"},
	{"pack cp-sat", "pack buffers.csv --cp-sat @", "buffers.csv"},
	{"pack minizinc", "pack buffers.csv --minizinc @", "buffers.csv"},
	{"pack out", "pack --trace buffers.csv --out @", "buffers.csv"},
	{"report out", "report --trace buffers.csv -o @", "buffers.csv"},
	{"model out", "model mobilenet_v1 @", ""},
}

// someFiles makes a folder with files of every kind and changes to it.
func someFiles(t *testing.T) {
	t.Helper()
	bad, err := filepath.Abs(filepath.Join("..", "..", "testdata", "bad"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	copyFile := func(to, from string) {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyFile("m.onnx", filepath.Join(bad, "external-sound.onnx"))
	copyFile("external.bin", filepath.Join(bad, "external.bin"))
	copyFile("c.onnx", "m.onnx")
	for name, text := range map[string]string{
		"costs.json":          `{}`,
		"buffers.csv":         "id,lower,upper,size\na,0,1,8\n",
		"problem.json":        `{"nodes": [{"name": "a"}], "tensors": [{"bytes": 1, "producer": 0}]}`,
		"adapter_config.json": `{}`, "adapter_model.safetensors": "", // not read before the names are checked
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		"optimize m.onnx p.onnx",
		"optimize m.onnx p.onnx --plan other.json",
		"optimize m.onnx p.onnx",
		"run p.onnx --output y=x.npy",
		"optimize --train m.onnx t.onnx",
		"run t.onnx --save q.onnx",
	} {
		if status, errs := onCommandLine(line); status != 0 {
			t.Fatalf("%s: exit status %d: %s", line, status, errs)
		}
	}
	copyFile("in.npz", "x.npy") // its content is not read
}

func onCommandLine(line string) (status int, errs string) {
	var out, text bytes.Buffer
	status = run(strings.Fields(line), &out, &text)
	return status, text.String()
}

// contents returns the contents of the files in this folder.
func contents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// TestNoOutputReplacesAnInput: if an output names an input of the command, also by a
// link or another spelling, the command refuses and changes nothing.
func TestNoOutputReplacesAnInput(t *testing.T) {
	parser, err := newParser(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, command := range parser.Model.Children {
		for _, v := range fileValues(command) {
			if name := command.Name + " " + v.Name; v.Tag.Get("out") != "" {
				known = append(known, name)
				if !slices.ContainsFunc(outputLines, func(l struct{ output, line, inputs string }) bool { return l.output == name }) {
					t.Errorf("%s: expected a line in outputLines", name)
				}
			}
		}
	}
	someFiles(t)
	for _, l := range outputLines {
		if !slices.Contains(known, l.output) {
			t.Errorf("%s: not an output of any command", l.output)
		}
		for _, input := range strings.Fields(l.inputs) {
			ext := filepath.Ext(input)
			if l.output == "run output" {
				ext = ".npy"
			}
			spellings := []string{input, "./" + input}
			for k, link := range []func(from, to string) error{os.Symlink, os.Link} {
				to := fmt.Sprintf("link%d%s", k, ext)
				if err := link(input, to); err != nil {
					t.Logf("no links: %v", err)
					continue
				}
				spellings = append(spellings, to)
			}
			before := contents(t)
			for _, output := range spellings {
				line := strings.Replace(l.line, "@", output, 1)
				status, errs := onCommandLine(line)
				if status != exitUsage || !strings.Contains(errs, ": it is ") || strings.Count(errs, "\n") != 1 {
					t.Errorf("%s: exit status %d, expected %d: %s", line, status, exitUsage, errs)
				}
				if after := contents(t); !reflect.DeepEqual(before, after) {
					t.Fatalf("%s: changed files", line)
				}
			}
			for _, link := range spellings[2:] {
				os.Remove(link)
			}
		}
	}
}

// TestNoOutputTwice: two outputs must be two files.
func TestNoOutputTwice(t *testing.T) {
	someFiles(t)
	for _, line := range []string{
		"optimize m.onnx out.onnx --plan ./out.onnx",
		"optimize m.onnx out --plan out.plan.json --frontier --frontier-svg ./out.plan.json",
		"optimize m.onnx out.onnx --frontier --frontier-svg out.plan.json",
		"optimize --train m.onnx out.onnx --params out.plan.json",
		"optimize --train m.onnx out.onnx --plan out.params.onnx.zeros",
		"run p.onnx --outputs y.npy --output y=y.npy",
		"run p.onnx --profile p.json --costs-out ./p.json",
		"run t.onnx --save s.onnx --save-model s.onnx",
		"run t.onnx --save s.onnx --save-model s.onnx.data",
		"order problem.json --out o.json --lp ../" + filepath.Base(cwd(t)) + "/o.json",
		"pack buffers.csv --out o --svg ./o",
	} {
		before := contents(t)
		status, errs := onCommandLine(line)
		if status != exitUsage || !strings.Contains(errs, " goes there: expected another place for ") {
			t.Errorf("%s: exit status %d, expected %d: %s", line, status, exitUsage, errs)
		}
		if after := contents(t); !reflect.DeepEqual(before, after) {
			t.Fatalf("%s: changed files", line)
		}
	}
	for _, line := range []string{
		"optimize m.onnx m.onnx",                   // plans in place
		"run t.onnx --params q.onnx --save q.onnx", // continues training
		"run t.onnx --save t.params.onnx",
		"run p.onnx --profile /dev/null --costs-out /dev/null",
		"run p.onnx --input x=1 --outputs 1",
	} {
		if strings.Contains(line, "/dev/") && runtime.GOOS == "windows" {
			continue
		}
		if status, errs := onCommandLine(line); status != 0 {
			t.Errorf("%s: exit status %d: %s", line, status, errs)
		}
	}
}

func cwd(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBatchReplacesNoModel: a link in the results folder may lead back to a model, or
// the results folder may be the models' folder under another name.
func TestBatchReplacesNoModel(t *testing.T) {
	someFiles(t)
	if err := os.Mkdir("zoo", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"zoo/a.onnx", "zoo/b.onnx"} {
		if status, errs := onCommandLine("model mobilenet_v1 --set width=0.25 --set size=32 " + name); status != 0 {
			t.Fatal(errs)
		}
	}
	if err := os.Symlink("zoo", "same"); err != nil {
		t.Skip(err)
	}
	if err := os.Mkdir("planned", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../zoo/b.onnx", "planned/a.onnx"); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{"same", "planned"} {
		status, errs := onCommandLine("batch zoo " + out)
		if status != exitUsage || !strings.Contains(errs, ": it is the model ") {
			t.Errorf("batch zoo %s: exit status %d: %s", out, status, errs)
		}
	}
}
