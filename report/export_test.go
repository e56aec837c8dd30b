package report

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report/internal/samples"
)

// odd is a plan with names that try to break out of their context.
func odd(t testing.TB) *plan.Plan {
	t.Helper()
	names := []string{
		"", "a b", "a_b", "a.b", "a/b", "a_b_2", "*/ int x; /*", "/*/", "??/", "???/\n", `\`, `"`, "\n#error\n", ",", " , ", "int",
		"1st", "größe", "\u202e\u2066", "\xff\xfe", "%s%n", "</script>", strings.Repeat("long", 400), strings.Repeat("long", 400) + "x",
	}
	p := samples.Lanes(t, len(names), 4)
	for i := range p.Steps {
		p.Steps[i].Name, p.Steps[i].Op = names[len(names)-1-i], names[i]
	}
	for i := range p.Buffers {
		p.Buffers[i].Tensors = []string{names[i]}
	}
	p.Buffers[2].Tensors = nil
	p.Buffers[2].Node, p.Buffers[2].Kind = &p.Buffers[2].First, plan.KindWorkspace
	p.Buffers = append(p.Buffers, plan.Buffer{Pool: plan.Resident, Bytes: 64, Offset: 128, Last: len(names) - 1, Kind: plan.KindConstant, Tensors: []string{"w", "w.new"}})
	p.Dynamic = []plan.Dynamic{{Tensor: "*/ #error", Reason: "*/"}}
	p.Tool, p.Model.File = "*/ #error", "*/ odd model.onnx"
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// exported are plans of several kinds: many buffers, odd names, none.
func exported(t testing.TB) map[string]*plan.Plan {
	empty := &plan.Plan{
		Pools:   []plan.Pool{{Name: plan.Arena, Bytes: 64}},
		Buffers: []plan.Buffer{{Pool: plan.Arena, Bytes: 64, Kind: plan.KindInput, Tensors: []string{"x"}}},
		Summary: plan.Summary{NaiveBytes: 64, PeakBytes: 64, ProgramPeakBytes: 64, ArenaBytes: 64, TotalBytes: 64},
	}
	if err := empty.Check(); err != nil {
		t.Fatal(err)
	}
	return map[string]*plan.Plan{"many": samples.Lanes(t, 3000, 40), "odd": odd(t), "hostile": samples.Hostile(t), "no nodes": empty, "nothing": {}}
}

func export(t testing.TB, name string, p *plan.Plan) []byte {
	t.Helper()
	for _, x := range Exports {
		if x.Name == name {
			var a, b bytes.Buffer
			if err := x.Write(&a, p); err != nil {
				t.Fatal(err)
			}
			if err := x.Write(&b, p); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Fatal("two exports of one plan differ")
			}
			return a.Bytes()
		}
	}
	t.Fatalf("no export %q", name)
	return nil
}

// The trace is JSON. Its slices never overlap on a track, and its counters are the
// loads.
func TestPerfetto(t *testing.T) {
	for name, p := range exported(t) {
		var trace struct {
			Events []struct {
				Name string
				Ph   string
				Ts   int
				Dur  int
				Pid  int
				Tid  int
				Args map[string]any
			} `json:"traceEvents"`
		}
		if err := json.Unmarshal(export(t, "perfetto", p), &trace); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ends, slices, loads := map[[2]int]int{}, 0, 0
		for _, e := range trace.Events {
			switch {
			case e.Ph == "X":
				track := [2]int{e.Pid, e.Tid}
				if e.Dur < 1 || e.Ts < ends[track] {
					t.Fatalf("%s: %q at %d overlaps on track %v", name, e.Name, e.Ts, track)
				}
				ends[track] = e.Ts + e.Dur
				if e.Pid >= tracePools {
					slices++
				}
			case e.Ph == "C" && e.Name == "load" && e.Ts < len(p.Steps):
				if e.Args["bytes"] != float64(p.Steps[e.Ts].LoadBytes) {
					t.Fatalf("%s: step %d: load %v, expected %d", name, e.Ts, e.Args["bytes"], p.Steps[e.Ts].LoadBytes)
				}
				loads++
			}
		}
		want := 0
		for _, b := range p.Buffers {
			if b.Pool != plan.Resident && b.Bytes > 0 {
				want++
			}
		}
		if slices != want || loads != len(p.Steps) {
			t.Errorf("%s: %d lifetimes and %d loads, expected %d and %d", name, slices, loads, want, len(p.Steps))
		}
	}
}

// The CSV can be read back, and has the arena's buffers at their places.
func TestBuffersCSV(t *testing.T) {
	for name, p := range exported(t) {
		text := export(t, "csv", p)
		if name == "nothing" {
			continue
		}
		got, err := alloc.ReadCSV(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ids, k := map[string]bool{}, 0
		for _, b := range p.Buffers {
			if b.Pool != plan.Arena || b.Bytes == 0 {
				continue
			}
			x := got.Buffers[k]
			if x.First != b.First || x.Last != b.Last || x.Size != b.Bytes || *x.Fixed != b.Offset || ids[x.ID] || x.ID == "" {
				t.Fatalf("%s: buffer %d: %+v, expected %+v with an ID of its own", name, k, x, b)
			}
			ids[x.ID] = true
			k++
		}
		if k != len(got.Buffers) {
			t.Errorf("%s: %d buffers, expected %d", name, len(got.Buffers), k)
		}
	}
}

// The header compiles without a warning, with and without its tables, whatever the names
// are. Its macros and tables hold the plan's figures.
func TestCHeader(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: the header is not compiled")
	}
	for name, p := range exported(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			header := export(t, "c-header", p)
			NAME := string(regexp.MustCompile(`#ifndef (\w+)_PLAN_H`).FindSubmatch(header)[1])
			seen := map[string]bool{}
			for _, m := range regexp.MustCompile(`(?m)^#define (\w+)`).FindAllSubmatch(header, -1) {
				if id := string(m[1]); seen[id[:min(len(id), 63)]] {
					t.Fatalf("%s is defined twice, or differs from another behind its 63rd character", id)
				}
				seen[string(m[1])] = true
			}
			program := "#define " + NAME + "_DEFINE_TABLES\n#include \"plan.h\"\n#include \"plan.h\"\n#include <stdio.h>\nint main(void) {\n"
			program += fmt.Sprintf("\tprintf(\"%%zu %%zu\\n\", (size_t)%[1]s_ARENA_BYTES, (size_t)%[1]s_TENSORS);\n", NAME)
			var want strings.Builder
			text := func(s string) string { s, _, _ = strings.Cut(s, "\x00"); return s } // as C prints it
			tensors := 0
			for _, b := range p.Buffers {
				tensors += max(1, len(b.Tensors))
			}
			fmt.Fprintf(&want, "%d %d\n", p.Summary.ArenaBytes, tensors)
			if len(p.Steps) > 0 {
				low := strings.ToLower(NAME)
				program += fmt.Sprintf("\tfor (unsigned long i = 0; i < %s_TENSORS; i++) printf(\"%%s %%zu %%zu %%lu %%lu\\n\", %[2]s_tensors[i].name, %[2]s_tensors[i].offset, %[2]s_tensors[i].bytes, %[2]s_tensors[i].first_step, %[2]s_tensors[i].last_step);\n", NAME, low)
				program += fmt.Sprintf("\tfor (unsigned long i = 0; i < %s_STEPS; i++) printf(\"%%s %%s %%zu\\n\", %[2]s_steps[i].name, %[2]s_steps[i].op, %[2]s_steps[i].load_bytes);\n", NAME, low)
				for i := range p.Buffers {
					b := &p.Buffers[i]
					names := b.Tensors
					if len(names) == 0 {
						names = []string{bufferLabel(p, b)}
					}
					for _, n := range names {
						fmt.Fprintf(&want, "%s %d %d %d %d\n", text(n), b.Offset, b.Bytes, b.First, b.Last)
					}
				}
				for _, s := range p.Steps {
					fmt.Fprintf(&want, "%s %s %d\n", text(s.Name), text(s.Op), s.LoadBytes)
				}
			}
			program += "\treturn 0;\n}\n"
			for file, text := range map[string]string{
				"plan.h": string(header), "main.c": program, "other.c": "#include \"plan.h\"\nint other(void);\nint other(void) { return " + NAME + "_STEPS > 0; }\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			exe := filepath.Join(dir, "plan")
			if out, err := exec.Command(gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", exe, filepath.Join(dir, "main.c"), filepath.Join(dir, "other.c")).CombinedOutput(); err != nil {
				t.Fatalf("%v:\n%.2000s", err, out)
			}
			got, err := exec.Command(exe).Output()
			if err != nil || string(got) != want.String() {
				t.Errorf("%v: the program prints\n%.1000s\nexpected\n%.1000s", err, got, want.String())
			}
		})
	}
}

// unpickle reads the output of pickler: the opcodes that PyTorch's viewer knows.
func unpickle(t testing.TB, b []byte) any {
	t.Helper()
	var stack []any
	var marks []int
	cut := func() (items []any) {
		at := marks[len(marks)-1]
		items, stack, marks = append(items, stack[at:]...), stack[:at], marks[:len(marks)-1]
		return items
	}
	if !bytes.HasPrefix(b, []byte("\x80\x02")) {
		t.Fatal("no pickle of protocol 2")
	}
	for i := 2; ; {
		op := b[i]
		i++
		switch op {
		case '}':
			stack = append(stack, map[string]any{})
		case ']':
			stack = append(stack, new([]any))
		case '(':
			marks = append(marks, len(stack))
		case 'u':
			items := cut()
			for k := 0; k < len(items); k += 2 {
				stack[len(stack)-1].(map[string]any)[items[k].(string)] = items[k+1]
			}
		case 'e':
			items := cut()
			if len(items) > 1000 {
				t.Fatalf("a batch of %d", len(items))
			}
			list := stack[len(stack)-1].(*[]any)
			*list = append(*list, items...)
		case 'X':
			n := int(binary.LittleEndian.Uint32(b[i:]))
			stack = append(stack, string(b[i+4:i+4+n]))
			i += 4 + n
		case 0x8a:
			stack = append(stack, int64(binary.LittleEndian.Uint64(b[i+1:])))
			i += 9
		case 0x89:
			stack = append(stack, false)
		case '.':
			if i != len(b) || len(stack) != 1 {
				t.Fatalf("%d bytes behind the end, %d values", len(b)-i, len(stack))
			}
			return stack[0]
		default:
			t.Fatalf("byte %d: opcode %#x", i-1, op)
		}
	}
}

// The snapshot, replayed, has the plan's load after the events of each step, and never
// two allocations at one place. Its blocks fill the segments, and the allocated blocks
// of the arena are those still allocated at the end.
func TestMemoryViz(t *testing.T) {
	for name, p := range exported(t) {
		snapshot := unpickle(t, export(t, "memory-viz", p)).(map[string]any)
		blocks, left := map[int64]int64{}, map[int64]int64{}
		for _, s := range *snapshot["segments"].(*[]any) {
			s := s.(map[string]any)
			at := s["address"].(int64)
			for _, b := range *s["blocks"].(*[]any) {
				b := b.(map[string]any)
				if b["address"] != at {
					t.Fatalf("%s: a block at %d, expected it at %d", name, b["address"], at)
				}
				at += b["size"].(int64)
				if b["state"] == "active_allocated" {
					blocks[b["address"].(int64)] = b["size"].(int64)
				}
			}
			if at != s["address"].(int64)+s["total_size"].(int64) {
				t.Fatalf("%s: blocks end at %d of segment %v", name, at, s)
			}
		}
		traces := *snapshot["device_traces"].(*[]any)
		loads := make([]int64, len(p.Steps)+1)
		load, step := int64(0), 0
		for _, e := range *traces[0].(*[]any) {
			e := e.(map[string]any)
			addr, size := e["addr"].(int64), e["size"].(int64)
			for ; int64(step) < e["time_us"].(int64); step++ {
				loads[step] = load
			}
			switch e["action"] {
			case "alloc":
				for other, bytes := range left {
					if addr < other+bytes && other < addr+size {
						t.Fatalf("%s: step %d: two allocations at %d", name, step, addr)
					}
				}
				left[addr] = size
				load += size
			case "free_completed":
				if left[addr] != size {
					t.Fatalf("%s: step %d: %d bytes freed at %d, %d are there", name, step, size, addr, left[addr])
				}
				delete(left, addr)
				load -= size
			case "free_requested":
			default:
				t.Fatalf("%s: action %v", name, e["action"])
			}
			if frames := *e["frames"].(*[]any); len(frames) != 1 {
				t.Fatalf("%s: %d frames", name, len(frames))
			}
		}
		for ; step < len(loads); step++ {
			loads[step] = load
		}
		for i, s := range p.Steps {
			if loads[i] != s.LoadBytes {
				t.Fatalf("%s: step %d: load %d, expected %d", name, i, loads[i], s.LoadBytes)
			}
		}
		for addr, size := range left {
			if blocks[addr] != size {
				t.Fatalf("%s: %d bytes at %d are still allocated, but no block is", name, size, addr)
			}
		}
	}
}

// Pools that exceed the address space are refused.
func TestMemoryVizRefuses(t *testing.T) {
	p := &plan.Plan{Pools: []plan.Pool{{Name: plan.Arena, Bytes: math.MaxInt64 - 5}, {Name: plan.Resident, Bytes: 5}}}
	if err := MemoryViz(&bytes.Buffer{}, p); err == nil || !strings.Contains(err.Error(), "the pools exceed the address space") {
		t.Errorf("found %v", err)
	}
}
