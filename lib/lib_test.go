package main_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// built is the library and the host program of testdata/host.c, built once.
var built = sync.OnceValues(func() (dir string, err error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", fmt.Errorf("no C compiler: libonnxmem is not tested: %w", exec.ErrNotFound)
	}
	if dir, err = os.MkdirTemp("", "libonnxmem-"); err != nil {
		return "", err
	}
	c := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags", "-s -w", "-o", filepath.Join(dir, "libonnxmem.so"), ".")
	c.Env = append(os.Environ(), "CGO_ENABLED=1")
	for _, c := range []*exec.Cmd{
		c,
		exec.Command(cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-I.", "testdata/host.c", "-o", filepath.Join(dir, "host"), "-ldl", "-pthread"),
		exec.Command(cc, "-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "onnxmem.h"),
	} {
		if text, err := c.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, text)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if dir, _ := built(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// host runs the host program in a mode, with numbers on its standard input.
func host(t *testing.T, mode string, numbers []int64) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the host program is one of POSIX")
	}
	dir, err := built()
	if err != nil && dir == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var in, text bytes.Buffer
	if err := binary.Write(&in, binary.NativeEndian, numbers); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(dir, "host"), filepath.Join(dir, "libonnxmem.so"), mode)
	c.Stdin, c.Stderr = &in, &text
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", mode, err, text.String())
	}
	return strings.TrimSpace(string(out))
}

// numbers are the buffers of a problem as the host program reads them.
func numbers(p alloc.Problem, effort alloc.Effort, capacity int64) []int64 {
	list := []int64{int64(effort), int64(len(p.Buffers)), p.Alignment, capacity}
	for _, field := range []func(b *alloc.Buffer) int64{
		func(b *alloc.Buffer) int64 { return int64(b.First) },
		func(b *alloc.Buffer) int64 { return int64(b.Last) + 1 },
		func(b *alloc.Buffer) int64 { return b.Size },
		func(b *alloc.Buffer) int64 { return b.Align },
	} {
		for i := range p.Buffers {
			list = append(list, field(&p.Buffers[i]))
		}
	}
	return list
}

func readBuffers(t *testing.T, path string) alloc.Problem {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := alloc.ReadCSV(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// small is four buffers whose best arena is 7 bytes.
var small = alloc.Problem{Buffers: []alloc.Buffer{
	{Size: 4, First: 0, Last: 1}, {Size: 2, First: 0, Last: 1}, {Size: 1, First: 1, Last: 2}, {Size: 4, First: 2, Last: 3},
}}

// TestProcess: threads, signals, fork and dlclose of a host program, and what it does wrong.
func TestProcess(t *testing.T) {
	for mode, want := range map[string]string{
		"version": "0.1.0", "errors": "refused", "empty": "empty", "threads": "0 4 6 0",
		"signals": strings.Repeat("7 7 1 -1 0 4 6 0\n", 3), "close": strings.Repeat("7 7 1 -1 0 4 6 0\n", 3),
	} {
		if got := host(t, mode, numbers(small, 0, -1)); got != strings.TrimSpace(want) {
			t.Errorf("%s: %q, expected %q", mode, got, want)
		}
	}
	if got := host(t, "fork", numbers(small, 0, 7)); strings.Count(got, "7 7 1 1 0 4 6 0") < 2 || !strings.Contains(got, "0.1.0") {
		t.Errorf("fork: %q", got)
	}
}

// TestCancel: a search of minutes that is under way ends when another thread sets the flag.
func TestCancel(t *testing.T) {
	p := readBuffers(t, datafolder.Path(t, "dsa", "iopddl-idealloc-S.csv"))
	if got := host(t, "cancel", numbers(p, alloc.EffortMax, -1)); got != "ended" {
		t.Errorf("%q", got)
	}
}

// TestPack: the library places real buffers where the command does, and verifies them, from
// eight threads, too.
func TestPack(t *testing.T) {
	for _, name := range []string{"iree-first", "minimalloc-A.1048576", "minimalloc-example.12", "somas-bert_base", "somas-resnet50", "tflite-deeplab_v3", "tflite-inception_v3", "iopddl-G"} {
		p := readBuffers(t, datafolder.Path(t, "dsa", name+".csv"))
		for _, alignment := range []int64{1, 64} {
			p.Alignment = alignment
			found, err := alloc.Solve(t.Context(), p, alloc.Options{Effort: alloc.EffortFast})
			if err != nil {
				t.Fatal(err)
			}
			proven := 0
			if found.Optimal {
				proven = 1
			}
			offsets := strings.Trim(fmt.Sprint(found.Offsets), "[]")
			want := fmt.Sprintf("%d %d %d -1 %s", found.Arena, found.LowerBound, proven, offsets)
			if got := host(t, "pack", numbers(p, alloc.EffortFast, -1)); got != want {
				t.Errorf("%s, alignment %d: %.60s, expected %.60s", name, alignment, got, want)
			}
			if alignment == 1 {
				if got := host(t, "threads", numbers(p, alloc.EffortFast, -1)); got != offsets {
					t.Errorf("%s: eight threads: %.60s, expected %.60s", name, got, offsets)
				}
			}
		}
	}
}

// graphNumbers are a scheduling problem, with a limit in per cent, as the host program reads it.
func graphNumbers(p *schedule.Problem, effort schedule.Effort, percent, link int64) []int64 {
	n, m := len(p.Nodes), len(p.Tensors)
	list := []int64{int64(effort), percent, link, int64(n), int64(m)}
	each := func(n int, f func(i int) int64) {
		for i := range n {
			list = append(list, f(i))
		}
	}
	lists := func(n int, f func(i int) []int32) {
		total := int64(0)
		list = append(list, 0)
		each(n, func(i int) int64 { total += int64(len(f(i))); return total })
		for i := range n {
			for _, x := range f(i) {
				list = append(list, int64(x))
			}
		}
	}
	truth := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	each(n, func(i int) int64 { return p.Nodes[i].Workspace })
	each(n, func(i int) int64 { return p.Nodes[i].Cost })
	each(n, func(i int) int64 { return truth(p.Nodes[i].Once) })
	lists(n, func(i int) []int32 { return p.Nodes[i].Writes })
	each(m, func(i int) int64 { return p.Tensors[i].Bytes })
	each(m, func(i int) int64 { return int64(p.Tensors[i].Producer) })
	lists(m, func(i int) []int32 { return p.Tensors[i].Consumers })
	each(m, func(i int) int64 { return truth(p.Tensors[i].Output) })
	each(m, func(i int) int64 { return truth(p.Tensors[i].Resident) })
	lists(m, func(i int) []int32 { return p.Tensors[i].Reuses })
	return list
}

// TestOrder: the library orders real steps as the command does, and its verifier proves them;
// below limits, too, by recomputation and by swaps.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		folder, name  string
		percent, link int64
	}{
		{"training", "resnet18-train-bs32.json", 0, 0},
		{"training", "transformer-infer-bs1.json", 0, 0},
		{"training", "llama_8l-train-bs1.json", 0, 0},
		{"training", "densenet121-infer-bs1.json", 0, 0},
		{"budget", "resnet50-train-bs32.json.gz", 60, 0},
		{"budget", "gpt2-train-bs1.json.gz", 80, 0},
		{"budget", "mobilenet_v2-train-bs32.json.gz", 70, 12e9},
	} {
		f, err := os.Open(datafolder.Path(t, c.folder, c.name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := schedule.ReadProblem(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		r, err := schedule.Solve(t.Context(), p, schedule.Options{Effort: schedule.EffortFast})
		if err != nil {
			t.Fatal(err)
		}
		orders, peak := r.Orders, r.Evaluation.Peak
		if err := r.TakeLeastArea(p); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%d %d %d %s", peak, r.Bound, map[bool]int{true: 1}[r.Optimal], strings.Trim(fmt.Sprint(r.Order), "[]"))
		lines := strings.Split(host(t, "order", graphNumbers(p, schedule.EffortFast, c.percent, c.link)), "\n")
		if lines[0] != want {
			t.Errorf("%s: %.60s, expected %.60s", c.name, lines[0], want)
		}
		if lines[1] != "verified 1" && r.Optimal && r.Certificates[0].Kind != schedule.KindSearch {
			t.Errorf("%s: the order is %s", c.name, lines[1])
		}
		if c.percent == 0 {
			continue
		}
		limit := peak / 100 * c.percent
		limit += peak % 100 * c.percent / 100
		var plan *budget.Plan
		if c.link > 0 {
			s, err := budget.NewSwapper(p, orders, budget.SwapOptions{Effort: schedule.EffortFast, Link: c.link})
			if err != nil {
				t.Fatal(err)
			}
			plan = &s.Solve(t.Context(), limit).Plan
			plan.LowerBoundPercent = 0
		} else if plan, err = budget.Solve(t.Context(), p, orders, limit, budget.Options{Effort: schedule.EffortFast}); err != nil {
			t.Fatal(err)
		}
		want = fmt.Sprintf("%d 1 %d %.6f %.6f %s", limit, plan.PeakBytes, plan.ExtraPercent, plan.LowerBoundPercent, strings.Trim(fmt.Sprint(plan.Steps), "[]"))
		if got := lines[len(lines)-1]; got != want {
			t.Errorf("%s at %d %%: %.90s, expected %.90s", c.name, c.percent, got, want)
		}
	}
}

// TestHeader: the header is short, and the package for CMake has its version.
func TestHeader(t *testing.T) {
	header, err := os.ReadFile("onnxmem.h")
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(header, []byte("\n")); lines > 200 {
		t.Errorf("onnxmem.h has %d lines, expected at most 200", lines)
	}
	version := regexp.MustCompile(`#define ONNXMEM_VERSION "(\d+\.\d+\.\d+)"`).FindSubmatch(header)
	if version == nil {
		t.Fatal("onnxmem.h has no version")
	}
	cmake, err := os.ReadFile("cmake/onnxmem-config-version.cmake")
	if want := fmt.Sprintf("set(PACKAGE_VERSION %q)", version[1]); err != nil || !strings.Contains(string(cmake), want) {
		t.Errorf("the package for CMake lacks %s (%v)", want, err)
	}
}

// TestLifted: guard.c lifts every pointer of the structs that a caller fills.
func TestLifted(t *testing.T) {
	header, err := os.ReadFile("onnxmem.h")
	if err != nil {
		t.Fatal(err)
	}
	guard, err := os.ReadFile("guard.c")
	if err != nil {
		t.Fatal(err)
	}
	comments, pointers := regexp.MustCompile(`(?s)/\*.*?\*/`), regexp.MustCompile(`\*(\w+)`)
	found := 0
	for _, s := range regexp.MustCompile(`(?s)typedef struct onnxmem_\w+ \{(.*?)\n\}`).FindAllStringSubmatch(string(header), -1) {
		body := comments.ReplaceAllString(s[1], "")
		if !strings.Contains(body, "size_t struct_size") {
			continue
		}
		for _, p := range pointers.FindAllStringSubmatch(body, -1) {
			if found++; !regexp.MustCompile(`->` + p[1] + `\b`).Match(guard) {
				t.Errorf("guard.c does not lift %s", p[1])
			}
		}
	}
	if found < 29 {
		t.Errorf("onnxmem.h has %d pointers in structs of the caller, expected 29 or more", found)
	}
}

// TestExamples: the crate in examples/rust passes its tests, and the pass in examples/memory-pass
// writes the same in C++, built by CMake's package, and in Rust, by that crate, as in Go.
func TestExamples(t *testing.T) {
	dir, err := built()
	if err != nil && dir == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	example := filepath.Join("..", "examples", "memory-pass")
	want, err := os.ReadFile(filepath.Join(example, "four.planned.mlir"))
	if err != nil {
		t.Fatal(err)
	}
	// As make lib lays it out.
	for from, to := range map[string]string{"onnxmem.h": "onnxmem.h", "cmake": "cmake"} {
		path, err := filepath.Abs(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, to)); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		tool, program string
		build         [][]string
	}{
		{"cmake", "cpp/memory_pass", [][]string{
			{"cmake", "-B", filepath.Join(dir, "cpp"), "-S", filepath.Join(example, "cpp"), "-D", "CMAKE_PREFIX_PATH=" + dir, "-D", "CMAKE_BUILD_TYPE=Release"},
			{"cmake", "--build", filepath.Join(dir, "cpp")},
		}},
		{"cargo", "rust/release/memory-pass", [][]string{
			{"cargo", "test", "--quiet", "--offline", "--manifest-path", filepath.Join("..", "examples", "rust", "Cargo.toml"), "--target-dir", filepath.Join(dir, "crate")},
			{"cargo", "build", "--quiet", "--release", "--offline", "--manifest-path", filepath.Join(example, "rust", "Cargo.toml"), "--target-dir", filepath.Join(dir, "rust")},
		}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skipf("no %s: its example is not built", c.tool)
			}
			for _, line := range c.build {
				b := exec.Command(line[0], line[1:]...)
				b.Env = append(os.Environ(), "ONNXMEM_LIB="+dir)
				if text, err := b.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", strings.Join(line, " "), err, text)
				}
			}
			in, err := os.Open(filepath.Join(example, "four.mlir"))
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			run := exec.Command(filepath.Join(dir, c.program))
			run.Stdin = in
			if got, err := run.Output(); err != nil || string(got) != string(want) {
				t.Errorf("%v: %s\nexpected %s", err, got, want)
			}
		})
	}
}
