package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// file reads a file of testdata/traces, unpacked.
func file(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "..", "testdata", "traces", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// fourForms is one stream, in each form that says the same about it.
var fourForms = map[string]string{
	"JSON lines":     stream("| a:8 b:16 a | c:8 b c"),
	"spaced":         "\ufeff{ \"size\" : 8 , \"alloc\":\"a\", \"note\": [1] }\r\n\n{\"alloc\":7,\"size\":16}\n{\"free\":\"a\"}\n{\"mark\":\"other\"}\n {\"alloc\":\"a\",\"size\":8,\"stream\":0}\n{\"free\":7}\n{\"free\":\"a\"}",
	"CSV of events":  "event,id,size\nalloc,a,8\nalloc,b,16\nfree,a,\nalloc,a,8\nfree,b,\nfree,a,\n",
	"other columns":  "size, stream, id, event\n8,0,a,alloc\n16,,b,alloc\n,,a,free\n8,0,c,alloc\n,,b,free\n,,c,free",
	"CSV lifetimes":  "id,lower,upper,size\na,0,2,8\nb,1,3,16\nc,2,4,8\n",
	"Chrome trace":   `{"schemaVersion": 1, "traceEvents": [{"name": "[memory]", "ts": 3.5, "args": {"Addr": 1, "Bytes": -8, "Device Type": 0, "Device Id": -1}}, {"name": "x", "ts": 0, "args": {"Addr": "[memory]"}}, {"name": "[memory]", "ts": 1.5, "args": {"Addr": 1, "Bytes": 8}}, {"name": "[memory]", "ts": 2, "args": {"Addr": 2, "Bytes": 16}}, {"name": "[memory]", "ts": 4, "args": {"Addr": 1, "Bytes": 8}}, {"name": "[memory]", "ts": 5, "args": {"Addr": 2, "Bytes": -16}}, {"name": "[memory]", "ts": 6, "args": {"Addr": 1, "Bytes": -8}}], "after": [{}]}`,
	"a list of them": `[{"name": "[memory]", "ts": 1, "args": {"Addr": 1, "Bytes": 8}}, {"name": "[memory]", "ts": 2, "args": {"Addr": 2, "Bytes": 16}}, {"name": "[memory]", "ts": 3, "args": {"Addr": 1, "Bytes": -8}}, {"name": "[memory]", "ts": 4, "args": {"Addr": 1, "Bytes": 8}}, {"name": "[memory]", "ts": 5, "args": {"Addr": 2, "Bytes": -16}}, {"name": "[memory]", "ts": 6, "args": {"Addr": 1, "Bytes": -8}}]`,
}

func TestReadForms(t *testing.T) {
	blocks := []Block{{8, 0, 0, 2}, {16, 0, 1, 4}, {8, 0, 3, 5}}
	events := []Event{{0, false}, {1, false}, {0, true}, {2, false}, {1, true}, {2, true}}
	for name, text := range fourForms {
		got := read(t, text)
		if name == "CSV lifetimes" { // c begins at the step before which a ends
			got.Events[3] = events[3]
		}
		if diff := cmp.Diff(blocks, got.Blocks); diff != "" {
			t.Errorf("%s: blocks: -want +got:\n%s", name, diff)
		}
		if diff := cmp.Diff(events, got.Events); diff != "" {
			t.Errorf("%s: events: -want +got:\n%s", name, diff)
		}
	}
	if got := read(t, fourForms["JSON lines"]).Marks; !cmp.Equal(got, []int{0, 3}) {
		t.Errorf("marks %v, expected 0 and 3", got)
	}
}

// TestReadAlignment: a recording may say what its allocator rounds sizes up to.
func TestReadAlignment(t *testing.T) {
	if got := read(t, "{\"alignment\": 512}\n{\"alloc\": 1, \"size\": 8}\n"); got.Alignment != 512 || len(got.Events) != 1 {
		t.Errorf("alignment %d, %d events, expected 512 and 1", got.Alignment, len(got.Events))
	}
}

// TestReadSnapshot: each protocol of Python's pickle holds the same recording.
func TestReadSnapshot(t *testing.T) {
	for _, protocol := range []int{2, 4, 5} {
		got := read(t, string(file(t, fmt.Sprintf("snapshot.%d.pickle.gz", protocol))))
		it := got.Iteration()
		if it.Length != 8 || it.Repeats != 5 || got.Before != 1 || got.Alignment != 512 || it.Resident != (Count{1, 6 << 20}) {
			t.Errorf("protocol %d: %d events %d times, %d from before, resident %v", protocol, it.Length, it.Repeats, got.Before, it.Resident)
		}
		want := []Buffer{{3 << 20, 0, 0, 3}, {5 << 20, 0, 1, 6}, {1000, 140, 2, 5}, {2 << 20, 0, 4, 7}}
		if diff := cmp.Diff(want, it.Buffers); diff != "" {
			t.Errorf("protocol %d: -want +got:\n%s", protocol, diff)
		}
	}
}

// TestReadTorch: a recording of PyTorch's profiler and the JSON lines made from it by
// bench/record_traces.py are the same stream.
func TestReadTorch(t *testing.T) {
	chrome, lines := read(t, string(file(t, "cnn-train.chrome.json.gz"))), read(t, string(file(t, "cnn-train.jsonl.gz")))
	if diff := cmp.Diff(lines, chrome, cmpopts.IgnoreFields(Trace{}, "Format")); diff != "" {
		t.Errorf("-lines +chrome:\n%s", diff)
	}
	if it := lines.Iteration(); it.Found != ByMarks || it.Repeats < 2 || it.Kept.Blocks > 0 {
		t.Errorf("found %s, %d times, %v kept", it.Found, it.Repeats, it.Kept)
	}
}

func TestRefused(t *testing.T) {
	var text [1 << 12]byte
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "expected a recording of allocations, found nothing"},
		{"another file", "\x08\x07\x12pytorch", `expected a recording: JSON lines, a memory snapshot of PyTorch, a Chrome trace or CSV, found "\b\a\x12pytorch"`},
		{"no event", `{"mark": "run"}`, "JSON lines: expected at least one allocation or free, found none"},
		{"a free without an alloc", "{\"alloc\":1,\"size\":2}\n{\"free\":2}", "line 2: free of 2: expected an id that was allocated, found none"},
		{"two frees", "{\"alloc\":1,\"size\":2}\n{\"free\":1}\n{\"free\":1}", "line 3: free of 1: expected an id that is live, found one that event 1 frees"},
		{"two allocs", "{\"alloc\":1,\"size\":2}\n{\"alloc\":1,\"size\":2}", "line 2: alloc of 1: expected an id that is not live, found one that event 0 allocates"},
		{"no size", `{"alloc":1}`, "line 1: size: expected a whole number, found none"},
		{"below 0", `{"alloc":1,"size":-1}`, "line 1: size: expected a whole number from 0 to 2^63 - 1, found -1"},
		{"beyond an int64", `{"alloc":1,"size":9223372036854775808}`, "line 1: size: expected a whole number from 0 to 2^63 - 1, found 9223372036854775808"},
		{"too much", "{\"alloc\":1,\"size\":2000000000000000000}\n{\"alloc\":2,\"size\":2000000000000000000}", "line 2: size: 2000000000000000000 bytes: all sizes together exceed 2305843009213693951"},
		{"not an id", `{"alloc":1.5,"size":2}`, "line 1: alloc: expected a whole number or a string, found 1.5"},
		{"no alignment", "{\"alignment\":0}\n", "line 1: alignment: expected 1 to 2097152 bytes, found 0"},
		{"no number", `{"alignment":"512"}`, `line 1: alignment: expected a whole number from 0 to 2^63 - 1, found "512"`},
		{"two events", `{"alloc":1,"size":2,"free":1}`, `line 1: expected one of "alloc", "free" and "mark", found 2`},
		{"a key twice", `{"alloc":1,"alloc":1,"size":2}`, "line 1: key \"alloc\" occurs twice"},
		{"a key in another case", "{\"alloc\":1,\"size\":2}\n{\"Free\":1}", `line 2: expected the key "free", found "Free"`},
		{"a cut line", "{\"alloc\":1,\"size\":2}\n{\"fre", "line 2: unexpected end of JSON input"},
		{"a line without end", `{"alloc":1,"size":2}` + "\n{" + strings.Repeat(" ", maxLine+1), "line 2: expected at most 1048576 bytes in a line"},
		{"CSV: an event", "event,id,size\nmalloc,1,2\n", `line 2: column "event": expected alloc, free or mark, found "malloc"`},
		{"CSV: a column", "event,id,bytes\n", `line 1: column "bytes": unknown: expected event, id, size or stream`},
		{"CSV: fields", "event,id,size\nfree,1\n", "line 2: expected 3 fields, found 2"},
		{"CSV: lifetimes", "id,lower,upper,size\na,2,1,1\n", `line 2: column "upper": expected a lifetime of at least one step from 2 on, found 1`},
		{"CSV: offsets", "id,lower,upper,size,offset\na,0,1,1,0\n", `buffer 0 "a": a recording has no offsets, hints, gaps and alignments: expected the columns id, lower, upper and size (pack without --trace takes the others)`},
		{"Chrome: no list", `{"buffers": []}`, `expected JSON lines of {"alloc", "size"} and {"free"}, or a Chrome trace with a list traceEvents, found neither`},
		{"Chrome: no memory", `{"traceEvents": []}`, "expected events of memory, found none: was the recording of memory turned on?"},
		{"Chrome: cut", `{"traceEvents": [{"name": "[memory]", `, "byte 17: the JSON text ends early (truncated?)"},
		{"Chrome: a key twice", `{"traceEvents": [], "traceEvents": []}`, "byte 33: key \"traceEvents\" occurs twice"},
		{"Chrome: more text", `[] []`, "byte 4: expected the end of the text"},
		{"Chrome: no address", `[{"name": "[memory]", "ts": 1, "args": {"Bytes": 1}}]`, "byte 1: [memory]: args: expected Addr and Bytes, whole numbers"},
		{"Chrome: a size", `[{"name": "[memory]", "ts": 1, "args": {"Addr": 1, "Bytes": 1e30}}]`, "byte 1: [memory]: args: expected an object with whole numbers below 2^63"},
		{"Chrome: two devices", `[{"name": "[memory]", "ts": 1, "args": {"Addr": 1, "Bytes": 1}}, {"name": "[memory]", "ts": 1, "args": {"Addr": 1, "Bytes": 1, "Device Type": 1, "Device Id": 0}}]`, "2 devices have events: choose one with --trace-device: cpu, cuda:0"},
		{"a pickle of code", string(file(t, "code.pickle")), `byte 48: pickle opcode 0x93: not a pickle of plain data: it names "posix.system": expected data only`},
		{"a pickle that calls", "\x80\x02cos\nsystem\n(S'ls'\ntR.", `byte 2: pickle opcode 0x63: not a pickle of plain data: it names "os.system": expected data only`},
		{"a pickle that builds", "\x80\x02}}b.", "byte 4: pickle opcode 0x62: not a pickle of plain data: opcode BUILD runs code: expected data only"},
		{"a pickle of something else", "\x80\x02]q\x00.", "expected a memory snapshot of PyTorch, with a list device_traces, found another pickle"},
		{"a cut pickle", "\x80\x02}q\x00(X\xff\xff\xff\xff", "byte 11: the pickle ends before its opcode STOP (truncated?)"},
		{"a pickle with nothing on the stack", "\x80\x02.", "byte 2: pickle opcode 0x2e: not a pickle of plain data: expected one value at the end, found 0"},
		{"a pickle with a wrong memo", "\x80\x02h\x07.", "byte 2: pickle opcode 0x68: not a pickle of plain data: memo 7: expected one below 0"},
		{"bytes", "\x80" + string(text[:]), "byte 2: pickle opcode 0x00: not a pickle of plain data: unknown opcode"},
	} {
		_, err := Read(reader([]byte(c.text)), Options{})
		if at := (*Error)(nil); !errors.As(err, &at) {
			t.Errorf("%s: %T %v, expected a *trace.Error", c.name, err, err)
		} else if err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", c.name, err, c.want)
		}
	}
}

// TestTruncated: a recording that is cut anywhere is refused or shorter, and never
// panics.
func TestTruncated(t *testing.T) {
	for _, text := range [][]byte{file(t, "snapshot.4.pickle.gz"), file(t, "snapshot.2.pickle.gz"), []byte(fourForms["Chrome trace"])} {
		for n := 0; n < len(text)-1; n += 1 + n%5 {
			if _, err := Read(reader(text[:n]), Options{}); err == nil && text[n] != '}' {
				t.Fatalf("%.20q… cut to %d of %d bytes: no error", text, n, len(text))
			}
		}
	}
}

// FuzzRead: no text panics, and what is read is consistent.
func FuzzRead(f *testing.F) {
	for _, text := range fourForms {
		f.Add([]byte(text))
	}
	for _, name := range []string{"snapshot.2.pickle.gz", "snapshot.4.pickle.gz", "code.pickle", "cnn-train.jsonl.gz"} {
		f.Add(file(f, name))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(reader(text), Options{})
		if err != nil {
			return
		}
		for i, e := range r.Events {
			b := r.Blocks[e.Block]
			if e.Free && b.Free != i || !e.Free && b.Alloc != i || b.Size < 0 || b.Free >= 0 && b.Alloc >= b.Free {
				t.Fatalf("event %d %+v of block %+v", i, e, b)
			}
		}
		it := r.Iteration()
		for _, b := range it.Buffers {
			if b.Alloc < 0 || b.Alloc >= it.Steps() || b.Free < 0 || b.Free > it.Steps() || b.Alloc == b.Free {
				t.Fatalf("%d steps: buffer %+v", it.Steps(), b)
			}
		}
		for _, stream := range it.Streams() {
			if p, _ := it.problem(stream, r.Alignment); p.Validate() != nil {
				t.Fatal(p.Validate())
			}
		}
	})
}

// BenchmarkRead reads and searches a stream of two million events.
func BenchmarkRead(b *testing.B) {
	const iterations, blocks = 1000, 1000
	var text bytes.Buffer
	for i := range iterations {
		for k := range blocks {
			fmt.Fprintf(&text, "{\"alloc\": %d, \"size\": %d, \"stream\": 0}\n", i*blocks+k, 64+k*k%977)
			if k >= 10 {
				fmt.Fprintf(&text, "{\"free\": %d}\n", i*blocks+k-10)
			}
		}
		for k := blocks - 10; k < blocks; k++ {
			fmt.Fprintf(&text, "{\"free\": %d}\n", i*blocks+k)
		}
	}
	var t *Trace
	b.Run("lines", func(b *testing.B) {
		b.SetBytes(int64(text.Len()))
		for b.Loop() {
			var err error
			if t, err = Read(reader(text.Bytes()), Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("iteration", func(b *testing.B) {
		for b.Loop() {
			if it := t.Iteration(); it.Repeats != iterations {
				b.Fatal(it.Repeats)
			}
		}
		b.ReportMetric(float64(len(t.Events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}
