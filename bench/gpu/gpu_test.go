package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// TestMain lets the test binary be the process that describes the device.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "--probe") {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestParseNetwork(t *testing.T) {
	n, err := parseNetwork("bert:layers=2,sequence=8")
	if err != nil || n.name != "bert" || n.set["layers"] != "2" || n.dims["sequence"] != "8" || len(n.set) != 1 {
		t.Errorf("got %+v, %v", n, err)
	}
	if sequenceDims["bert"]["sequence"] != "128" {
		t.Error("the table of dimensions was changed")
	}
	for _, bad := range []string{"", ":a=1", "bert:layers", "bert:=2", "bert:layers=2,"} {
		if n, err := parseNetwork(bad); err == nil {
			t.Errorf("%q: no error, got %+v", bad, n)
		}
	}
}

func TestChooseParts(t *testing.T) {
	list, err := chooseParts([]string{"times", "networks"})
	if err != nil || len(list) != 2 || list[0].name != "networks" {
		t.Errorf("got %v, %v: the order is the table's", list, err)
	}
	if _, err := chooseParts([]string{"networks", "speed"}); err == nil || !strings.Contains(err.Error(), `"speed"`) {
		t.Errorf("an unknown part: %v", err)
	}
}

func TestCounts(t *testing.T) {
	out := []byte("=== RUN   TestA\n--- PASS: TestA (0.1s)\n    --- PASS: TestA/x (0.0s)\n--- FAIL: TestB (0.0s)\n--- SKIP: TestC (0.0s)\nFAIL\n")
	if p, f, s := countTests(out); p != 2 || f != 1 || s != 1 {
		t.Errorf("%d passed, %d failed, %d skipped", p, f, s)
	}
	for text, want := range map[string]int{
		"========= ERROR SUMMARY: 0 errors\n": 0, "x\n========= ERROR SUMMARY: 12 errors\n": 12,
		"========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n": 3, "PASS\n": -1,
	} {
		n := countFaults([]byte(text))
		if n == nil != (want < 0) || n != nil && *n != want {
			t.Errorf("%q: got %v, want %d", text, n, want)
		}
	}
}

func TestTorchRuns(t *testing.T) {
	list := torchRuns([]byte("a warning\n{\"mode\": \"adamw\", \"seconds\": 0.5, \"reserved_bytes\": 7, \"version\": \"2\"}\n{\n"), "resnet50", "eager", 4)
	if len(list) != 1 || list[0].name() != "resnet50, batch 4, adamw step, PyTorch 2 eager" || list[0].Step != 0.5 || list[0].TakenBytes != 7 {
		t.Errorf("got %+v", list)
	}
}

// TestTorchJobs: two networks at batch 32 come first, and their training steps have the bar.
func TestTorchJobs(t *testing.T) {
	m := &measurer{opt: &options{Batch: 8}}
	for _, text := range []string{"xlmr", "resnet50", "bert", "resnet18", "vgg16:width=0.5"} {
		n, err := parseNetwork(text)
		if err != nil {
			t.Fatal(err)
		}
		m.networks = append(m.networks, n)
	}
	want := []torchJob{
		{"eager", "resnet50", 32},
		{"eager", "bert", 32},
		{"compile", "resnet50", 32},
		{"compile", "bert", 32},
		{"eager", "resnet50", 8},
		{"eager", "bert", 8},
		{"eager", "resnet18", 8},
	}
	if got := m.torchJobs(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for what, c := range map[string]struct {
		r    run
		want string
	}{
		"a step that meets the bar":   {run{Batch: 32, Mode: "adamw", What: "PyTorch 2 eager", OfTorch: 1.5}, "ours takes 1.50 of it, within 1.5"},
		"one that does not":           {run{Batch: 32, Mode: "adamw", What: "PyTorch 2 eager", OfTorch: 1.51}, "ours takes 1.51 of it, BEYOND 1.5"},
		"a batch that has no bar":     {run{Batch: 8, Mode: "adamw", What: "PyTorch 2 eager", OfTorch: 3}, "ours takes 3.00 of it"},
		"inference":                   {run{Batch: 32, Mode: inference, What: "PyTorch 2 eager", OfTorch: 3}, "ours takes 3.00 of it"},
		"a compiled step has no bar ": {run{Batch: 32, Mode: "adamw", What: "PyTorch 2 compile", OfTorch: 3}, "ours takes 3.00 of it"},
	} {
		if got := c.r.verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	no, n, extra, gone := false, 3, 4.25, 12.5
	d := &document{Parts: []*part{{Name: "networks", Status: failed, Seconds: 2}, {Name: memoryPart, Status: done}, {Name: "tests", Status: cut, Message: "a|b\nc"}}}
	d.Device = &device{Name: "Some GPU", Link: link{Bytes: 8, Up: 2e9, Down: 3e9, Both: 1e9}}
	d.Suites = []suite{{Part: "tests", Name: "gpu", Passed: 5, Faults: &n}}
	d.Runs = []*run{
		{Part: "networks", Network: "vgg16", Mode: inference, Batch: 8, SameBits: &no, ArenaBytes: 640, FallbackNodes: &n, FallbackOps: []string{"NonZero"}, Step: 0.001, Promised: &extra, Measured: &extra},
		{Part: memoryPart, Network: "vgg16", Mode: "sgd", Batch: 8, PlannedBytes: 1e8, TakenBytes: 1.3e8, LibraryBytes: 175e5, Deviation: &gone},
	}
	got := d.table()
	for _, want := range []string{
		"Some GPU", "2.00 GB/s up",
		"| networks | vgg16, batch 8 | BITS DIFFER from apart | 640 |  |  | 3 NonZero | 1.000 |  | +4.2 % | +4.2 % |\n",
		"| memory | vgg16, batch 8, sgd step | blocks of 112500000 B: BEYOND 2 % of the plan's 100000000 B, or pages; kernels 0 B, recorded graph 0 B, libraries 17500000 B |  | 130000000 | +12.5 % |  |  |  |  |  |\n",
		"| tests |  | cut, 0 s: a/b c |", "| tests | gpu | 5 passed, 0 failed, 0 skipped, 0 s, 3 faults |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("expected %q in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != 12 {
			t.Errorf("a row of other cells: %s", line)
		}
	}
	if n := d.failures(); n != 1 {
		t.Errorf("%d failures", n)
	}
	d.Device = nil
	if !strings.HasPrefix(d.table(), "No GPU") {
		t.Error("without a device, the table does not say so")
	}
}

// TestFormatIsDescribed: every field of results.json stands in docs/formats/gpu-results.md.
func TestFormatIsDescribed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats", "gpu-results.md"))
	if err != nil {
		t.Fatal(err)
	}
	section := string(text)
	for _, v := range []any{document{}, machine{}, device{}, link{}, part{}, suite{}, run{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !strings.Contains(section, "`"+name+"`") {
				t.Errorf("%T: %q is not described", v, name)
			}
		}
	}
}

// TestOnFake runs parts on the fake driver, with a kit of one program.
func TestOnFake(t *testing.T) {
	sweep.Only(t)
	fake.Use(t)
	library, _, _, err := fake.Build()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKECUDA_INCLUDE", "") // the library's path is all that a user gives
	o := &options{
		Parts: "networks memory profile swaps tests products times machine sanitizer", Networks: "resnet18:width=0.25,size=32,classes=10 alexnet:speed=3", Batch: 2, Steps: 3,
		Kit: t.TempDir(), Work: t.TempDir(), Out: t.TempDir(), Device: "cuda", Fake: library, LinkBytes: 1 << 16, TimeLimit: 10 * time.Minute,
		began: time.Now(), say: t.Logf,
	}
	build := exec.Command("go", "build", "-o", filepath.Join(o.Work, "onnxmem"), "../../cmd/onnxmem")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // kernels are compiled
	if _, err := o.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(o.Out, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Device == nil || d.Device.Link.Up <= 0 || !d.Fake || d.Format != "onnxmem/gpu" {
		t.Errorf("got %+v, device %+v", d, d.Device)
	}
	right := 0
	for _, r := range d.Runs {
		switch {
		case r.Network == "alexnet":
			if r.Error == "" {
				t.Errorf("%s: a setting that does not exist: no error", r.name())
			}
		case r.Part == memoryPart:
			if r.KernelBytes <= 0 || r.GraphBytes <= 0 || r.TakenBytes < r.OwnBytes+r.KernelBytes+r.GraphBytes {
				t.Errorf("%s: memory %+v", r.name(), r)
			}
		case r.Part == "times":
			if r.Error != "" || r.Base <= 0 || r.Step <= 0 || r.ReplayedSteps != 0 {
				t.Errorf("%s: %+v", r.name(), r)
			}
		case r.Part == "networks" || r.Part == "profile":
			if r.Error != "" || r.Step <= 0 || r.TakenBytes < r.OwnBytes || *r.FallbackNodes != 0 || r.Part == "networks" && !*r.SameBits || r.Part == "profile" && r.ProfileSum <= 0 {
				t.Errorf("%s: %+v", r.name(), r)
			}
			right++
		}
	}
	if right != 3 {
		t.Errorf("%d good runs, want 3", right)
	}
	for _, p := range d.Parts {
		if p.Name == "tests" && p.Status != failed { // the kit has none: the next part runs nevertheless
			t.Errorf("tests: %+v", p)
		}
		if p.Name == "machine" && p.Status != absent {
			t.Errorf("machine: %+v", p)
		}
		if p.Name == "products" && (p.Status != absent || !strings.Contains(p.Message, "pip install nvidia-cublas")) {
			t.Errorf("products: %+v", p)
		}
	}
	if len(d.Parts) != 10 {
		t.Errorf("%d parts", len(d.Parts))
	}
}

// TestResume: a run takes over what an earlier one measured of a precision, if that was by the
// same version, and did not fail.
func TestResume(t *testing.T) {
	out := t.TempDir()
	earlier := &document{Tool: "onnxmem 1", Runs: []*run{
		{Part: precisionPart, Network: "bert", Mode: "adamw", Batch: 32, What: "bf16", Step: 0.5},
		{Part: precisionPart, Network: "bert", Mode: "adamw", Batch: 32, What: "PyTorch 2 eager bf16", Step: 0.25},
		{Part: precisionPart, Network: "bert", Mode: "adamw", Batch: 32, What: "TF32", Error: "stopped"},
		{Part: "steps", Network: "vit_b_16", Mode: "adamw", Batch: 32, What: "bf16", Step: 1},
	}}
	if err := earlier.write(out); err != nil {
		t.Fatal(err)
	}
	bert, vit := spec{network: "bert", mode: "adamw", batch: 32, cast: "bf16"}, spec{network: "vit_b_16", mode: "adamw", batch: 32}
	m := &measurer{opt: &options{Out: out}, doc: &document{Tool: "onnxmem 1"}}
	if err := m.takeOver(); err != nil {
		t.Fatal(err)
	}
	if r := m.resumed(bert, "bf16"); r == nil || r.Step != 0.5 {
		t.Errorf("ours: %+v", r)
	}
	if r := m.resumed(bert, "eager bf16"); r == nil || r.Step != 0.25 || r.goal() != eagerGoal {
		t.Errorf("PyTorch's: %+v", r)
	}
	if r := m.resumed(bert, "TF32"); r != nil {
		t.Errorf("one that failed: %+v", r)
	}
	if r := m.resumed(vit, "bf16"); r != nil {
		t.Errorf("one of another part: %+v", r)
	}
	other := &measurer{opt: m.opt, doc: &document{Tool: "onnxmem 2"}}
	if err := other.takeOver(); err != nil || len(other.earlier) != 0 {
		t.Errorf("of another version: %d runs, %v", len(other.earlier), err)
	}
	if got := bert.file(); got != "bert-adamw-32-bf16" {
		t.Errorf("its files are %q", got)
	}
}
