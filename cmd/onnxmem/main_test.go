package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// lineVariable is an environment variable: the test binary runs the command line in it,
// words separated by newlines.
const lineVariable = "ONNXMEM_TEST_LINE"

func TestMain(m *testing.M) {
	if line := os.Getenv(lineVariable); line != "" {
		os.Exit(run(strings.Split(line, "\n"), os.Stdout, os.Stderr))
	}
	// A run within this process that ends late, as on a busy machine, must not end the process:
	// all tests would fail, without a word.
	standard := grace
	grace = time.Hour
	testscript.Main(m, map[string]func(){
		"onnxmem": func() {
			grace = standard
			os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
		},
	})
}

// gpuVariables are the environment of a process whose GPU is the fake one.
var gpuVariables = sync.OnceValues(fake.Environment)

// TestScripts runs testdata/script/*.txtar: one file per behaviour of the command. $DATA
// is the small test data of this repository. Where the condition fakegpu holds, the GPU of
// the commands is the fake one.
func TestScripts(t *testing.T) {
	data, err := filepath.Abs(filepath.Join("..", "..", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"status": expectStatus},
		Setup: func(e *testscript.Env) error {
			e.Setenv("DATA", data)
			e.Setenv("GOGC", os.Getenv("GOGC"))
			variables, err := gpuVariables()
			if err != nil && !errors.Is(err, fake.ErrNoCompiler) {
				return err
			}
			for name, value := range variables {
				e.Setenv(name, value)
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "fakegpu" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			_, err := gpuVariables()
			return err == nil, nil
		},
	})
}

// expectStatus is the script command "status N COMMAND ARG...": like exec, but it
// expects exit status N.
func expectStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND ARG...")
	}
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); !errors.As(err, &exit) {
		ts.Fatalf("expected exit status %s, found %v", args[0], err)
	}
	if got := strconv.Itoa(exit.ExitCode()); got != args[0] {
		ts.Fatalf("exit status %s, expected %s", got, args[0])
	}
}

// TestSignalEndsASearch: a signal during a search ends it with the best order so far,
// which is printed, and does not kill the process.
func TestSignalEndsASearch(t *testing.T) {
	// Random reads without end: no bound meets the peak of any order.
	r := rand.New(rand.NewPCG(1, 300))
	p := schedule.Problem{Nodes: make([]schedule.Node, 4000)}
	p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 1 << 16, Producer: -1})
	for v := range p.Nodes {
		for range 1 + r.IntN(3) {
			in := &p.Tensors[max(0, len(p.Tensors)-1-r.IntN(64))]
			in.Consumers = append(in.Consumers, int32(v))
		}
		p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 1 << (8 + r.IntN(8)), Producer: int32(v)})
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "hard.json")
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	e := &env{stdout: people{&stream{Writer: &out}}, stderr: &errs, signals: &signals{stderr: &errs}}
	ended := make(chan error, 1)
	go func() {
		ended <- (&orderCmd{Problem: file, Effort: "max", ScheduleGoal: "peak", Align: 1, JSON: true}).Run(e)
	}()
	for !e.signals.interrupt() { // until the search has started
		runtime.Gosched()
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var got struct {
		EndedBy string `json:"ended_by"`
		Optimal bool   `json:"optimal"`
		Order   []int  `json:"order"`
		Peak    int64  `json:"peak_bytes"`
		Bound   int64  `json:"lower_bound_bytes"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.EndedBy != "interrupted" || len(got.Order) != len(p.Nodes) || got.Optimal || got.Bound > got.Peak || got.Bound == 0 {
		t.Errorf("%d nodes, peak %d, bound %d, ended by %q", len(got.Order), got.Peak, got.Bound, got.EndedBy)
	}
	if want := "onnxmem: " + file + ": interrupted: the best order so far\n"; errs.String() != want {
		t.Errorf("got %q, want %q", &errs, want)
	}
	if e.signals.interrupt() {
		t.Error("a search is still running")
	}
}

// TestOrderTakesAllTrainingSteps: every bare problem of the large test data is ordered
// and proven; two runs differ only in times.
func TestOrderTakesAllTrainingSteps(t *testing.T) {
	for _, file := range datafolder.Glob(t, "training", "*.json*") {
		var out, errs bytes.Buffer
		if status := run([]string{"order", file, "--json"}, &out, &errs); status != 0 || errs.Len() > 0 {
			t.Errorf("%s: exit status %d: %s", file, status, &errs)
			continue
		}
		var got struct {
			Nodes   int   `json:"nodes"`
			Program int64 `json:"program_order_peak_bytes"`
			Peak    int64 `json:"peak_bytes"`
			Bound   int64 `json:"lower_bound_bytes"`
			Optimal bool  `json:"optimal"`
			Order   []int `json:"order"`
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if !got.Optimal || got.Peak != got.Bound || got.Peak > got.Program || len(got.Order) != got.Nodes {
			t.Errorf("%s: %+v", file, got)
		}
	}
}

// badFolders returns the folders of broken files: that of this repository, and that of
// the test data if they are there.
func badFolders(t *testing.T) []string {
	folders := []string{filepath.Join("..", "..", "testdata", "bad")}
	big := datafolder.Lookup("bad")
	if big == "" {
		t.Logf("no test data: %s does not have bad", datafolder.Variable)
		return folders
	}
	return append(folders, big)
}

// TestBadInput: hostile, broken and odd files get the answer in expected.csv: they are
// planned, or refused with exit status 3 and one line that names the file. A refused
// file leaves nothing behind. None needs much memory. Wrong declarations are refused,
// since --strict is given.
func TestBadInput(t *testing.T) {
	const mostAllocated = 200 << 20
	folders := badFolders(t)
	for k, folder := range folders {
		for _, c := range readCSV(t, filepath.Join(folder, "expected.csv")) {
			name, expected := c[0], c[1]
			in := filepath.Join(folder, name)
			if _, err := os.Stat(in); err != nil {
				continue // the small folder lacks the large files
			}
			if k > 0 && sameFile(in, filepath.Join(folders[0], name)) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				var out, errs bytes.Buffer
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				status := run([]string{"optimize", "--strict", in, filepath.Join(dir, "out.onnx")}, &out, &errs)
				runtime.ReadMemStats(&after)
				if n := after.TotalAlloc - before.TotalAlloc; n > mostAllocated {
					t.Errorf("allocated %d bytes, expected at most %d", n, mostAllocated)
				}
				left, _ := filepath.Glob(filepath.Join(dir, "*"))
				switch {
				case status == 0 && expected != "refuse":
					var out, errs bytes.Buffer
					if run([]string{"verify", filepath.Join(dir, "out.onnx")}, &out, &errs) != 0 {
						t.Errorf("planned, but the plan is not valid:\n%s%s", &out, &errs)
					}
				case status == exitRefused && expected != "accept":
					lines := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
					if len(lines) != 1 || !strings.HasPrefix(lines[0], in+": ") {
						t.Errorf("expected one line that begins with the file's name, found %q", errs.String())
					}
					if len(left) > 0 || out.Len() > 0 {
						t.Errorf("refused, but wrote %q and printed %q", left, out.String())
					}
				default:
					t.Errorf("exit status %d, expected to %s: %s%s", status, expected, c[2], &errs)
				}
			})
		}
	}
}

// sameFile reports whether two files have the same bytes.
func sameFile(a, b string) bool {
	x, err := os.ReadFile(a)
	y, err2 := os.ReadFile(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %d rows, %v", path, len(rows), err)
	}
	return rows[1:]
}
