package plan_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/plan"
)

// planned are the valid plans of the verifier's tests, which write them here (go test
// ./plan/verify -update).
var planned = func() (list []example) {
	files, err := filepath.Glob(filepath.Join("testdata", "planned", "*.plan.json"))
	if err != nil || len(files) == 0 {
		panic("no plans in testdata/planned")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		list = append(list, example{strings.TrimSuffix(filepath.Base(file), ".plan.json"), text})
	}
	return list
}()

// example is a valid plan and its name.
type example struct {
	name string
	text []byte
}

// plan reads the plan of x.
func (x example) plan(t testing.TB) *plan.Plan {
	t.Helper()
	p, err := plan.Read(bytes.NewReader(x.text))
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	return p
}

// named returns the plan of that name.
func named(t testing.TB, name string) example {
	t.Helper()
	i := slices.IndexFunc(planned, func(x example) bool { return x.name == name })
	if i < 0 {
		t.Fatalf("no plan %q", name)
	}
	return planned[i]
}

// marshal returns the JSON of every valid plan, first that of a plan without sharing.
func marshal(t testing.TB) [][]byte {
	t.Helper()
	all := [][]byte{named(t, "nothing-is-shared").text}
	for _, x := range planned {
		all = append(all, x.text)
	}
	return all
}

func TestRead(t *testing.T) {
	for _, x := range planned {
		var again bytes.Buffer
		if err := x.plan(t).Write(&again); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(x.text), again.String()); d != "" {
			t.Errorf("%s: written again (-first +second):\n%s", x.name, d)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := string(marshal(t)[0])
	with := func(old, replacement string) string {
		t.Helper()
		if !strings.Contains(good, old) {
			t.Fatalf("no %s in the plan", old)
		}
		return strings.Replace(good, old, replacement, 1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "not a plan: byte 0: expected an object, found nothing"},
		{"no JSON", "ONNX", `not a plan: byte 0: expected an object, found "ONNX"`},
		{"a list", "[" + good + "]", `not a plan: byte 0: expected an object, found "[`},
		{"the end is missing", good[:len(good)/2], "not a plan: byte 1372: unexpected end of JSON input"},
		{"more behind the end", good + "{}", `not a plan: byte 2745: expected the end of the text, found "{}"`},
		{"another format", `{"format": "minimalloc", "version": 1}`, `format is "minimalloc", expected "onnxmem/plan"`},
		{"a version to come", `{"format": "onnxmem/plan", "version": 3}`, "plan version is 3, expected 1 or 2"},
		{"a version to come, that says other things", strings.NewReplacer(`"version": 1`, `"version": 3`, `"steps"`, `"Steps"`).Replace(good), "plan version is 3, expected 1 or 2"},
		{"a text for a number", with(`"version": 1`, `"version": "1"`), "not a plan: byte 44: version: expected a whole number of 64 bits, found string"},
		{"a size beyond 63 bits", with(`"peak_bytes": 192`, `"peak_bytes": 9223372036854775808`), "not a plan: byte 624: summary.peak_bytes: expected a whole number of 64 bits, found number 9223372036854775808"},
		{"a size that is no integer", with(`"peak_bytes": 192`, `"peak_bytes": 192.5`), "not a plan: byte 610: summary.peak_bytes: expected a whole number of 64 bits, found number 192.5"},
		{"a key twice", with(`"mode"`, `"alignment": 64, "mode"`), `not a plan: byte 393: key "alignment" occurs twice`},
		{"a key twice, deep", with(`"offset": 64,`, `"offset": 64, "offset": 128,`), `not a plan: byte 1248: buffers[2]: key "offset" occurs twice`},
		{"a key in another case", with(`"offset": 64,`, `"Offset": 64,`), `not a plan: byte 1234: buffers[2]: expected the key "offset", found "Offset"`},
		{"a key in another case beside its own", with(`"offset": 64,`, `"offset": 64, "OFFSET": 128,`), `not a plan: byte 1248: buffers[2]: expected the key "offset", found "OFFSET"`},
		{"a key twice in a field that was added", with(`"mode"`, `"note": {"a": 1, "a": 2}, "mode"`), `not a plan: byte 358: note: key "a" occurs twice`},
		{"a field is missing", with(`"offset": 64,`, ""), `not a plan: byte 1352: buffers[2]: "offset" is missing`},
		{"a list is missing", with(`"certificates": [],`, ""), `not a plan: byte 2724: "certificates" is missing`},
		{"some figures of a limit", with(`"nodes": 5`, `"nodes": 5, "limit_bytes": 192`), `summary: "plain_peak_bytes" is missing`},
		{"null for a figure", with(`"offset": 64,`, `"offset": null,`), "not a plan: byte 1244: buffers[2].offset: expected a value, found null"},
		{"names that are not UTF-8", with(`"make a"`, "\"make \xff\""), `steps[0].name: expected UTF-8, found byte 0xff`},
		{"names that are half a character", with(`"make a"`, `"make \ud800"`), `steps[0].name: expected both halves of a surrogate pair`},
		{"lists in lists", with(`"mode"`, `"note": `+strings.Repeat("[", 1<<20)), "expected at most 200 levels of lists and objects, found more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.Read(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("plan %v, error %v, expected %q", p, err, c.want)
			}
		})
	}
}

// TestReadAdded: Read skips unknown fields, wherever they are.
func TestReadAdded(t *testing.T) {
	for _, x := range planned {
		if len(x.plan(t).Dims) > 0 {
			continue // any key of dims is a dimension
		}
		added := strings.ReplaceAll(string(x.text), "{\n", `{"note": {"x": [1, null, {"offset": -1}]}, "notes": "x",`+"\n")
		p, err := plan.Read(strings.NewReader(added))
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		again, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(x.text), string(again)); d != "" {
			t.Errorf("%s: with fields added (-without +with):\n%s", x.name, d)
		}
	}
}

// TestReadBounded: a plan takes memory in proportion to its text. Lists of empty objects
// are refused before they are decoded.
func TestReadBounded(t *testing.T) {
	good := string(marshal(t)[0])
	list := func(field, item string) string {
		at := strings.Index(good, `"`+field+`": [`) + len(field) + 5
		return good[:at] + strings.Repeat(item+",", 1<<16) + item + "," + good[at:]
	}
	for _, c := range []struct {
		name, text string
		refused    bool
	}{
		{"empty buffers", list("buffers", "{}"), true},
		{"null buffers", list("buffers", "null"), true},
		{"empty steps", list("steps", "{}"), true},
		{"the shortest buffers", list("buffers", `{"pool":"","offset":0,"bytes":0,"first":0,"last":0,"bounded":true,"kind":"","tensors":[]}`), false},
		{"the shortest steps", list("steps", `{"name":"","op":"","load_bytes":0}`), false},
		{"the shortest names", list("tensors", `""`), false},
		{"steps of program order", list("steps\": [\n   0,\n   1,\n   2,\n   3,\n   4\n  ],\n  \"load_bytes", "0"), false},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := plan.Read(strings.NewReader(c.text)); (err != nil) != c.refused {
			t.Errorf("%s: error %v, expected one: %t", c.name, err, c.refused)
		}
		runtime.ReadMemStats(&after)
		// Reading copies the text into a slice that grows a few times; an empty name is
		// three bytes of text and sixteen in memory.
		if used, most := after.TotalAlloc-before.TotalAlloc, uint64(48*len(c.text)); used > most {
			t.Errorf("%s: %d bytes of text took %d bytes of memory, expected at most %d", c.name, len(c.text), used, most)
		} else {
			t.Logf("%s: %d bytes took %d", c.name, len(c.text), used)
		}
	}
}

// FuzzRead: the reader never panics, and a plan that it accepts can be written and read
// again.
func FuzzRead(f *testing.F) {
	for _, b := range marshal(f) {
		f.Add(b)
	}
	f.Add([]byte(`{"format": "onnxmem/plan", "version": 1, "buffers": [null, {"node": 3}], "dims": null}`))
	f.Add(bytes.Replace(marshal(f)[0], []byte(`"dims": {}`), []byte(`"dims": null`), 1))
	f.Add(bytes.Replace(marshal(f)[0], []byte(`"dims"`), []byte(`"DIMS": {}, "dims"`), 1))
	f.Add(bytes.Replace(marshal(f)[0], []byte(`"dims"`), []byte(`"dim\u0073": {}, "dims"`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := plan.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		first, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		q, err := plan.Read(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("written and not read again: %v", err)
		}
		if second, err := q.Marshal(); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v\nfirst  %s\nsecond %s", err, first, second)
		}
	})
}

// BenchmarkRead reads the plan of a large network: ours, with as many buffers as steps.
func BenchmarkRead(b *testing.B) {
	p := named(b, "nothing-is-shared").plan(b)
	for i := range 24_000 {
		name := fmt.Sprintf("block%d/conv/output_%d", i/10, i)
		p.Steps = append(p.Steps, plan.Step{Name: "n_" + name, Op: "Conv", LoadBytes: int64(i) * 3456})
		p.Buffers = append(p.Buffers, plan.Buffer{Pool: "arena", Offset: int64(i) * 64, Bytes: 8028160, First: i, Last: i + 1, Kind: plan.KindActivation, Tensors: []string{name}})
		p.ProgramOrder.Steps = append(p.ProgramOrder.Steps, i)
		p.ProgramOrder.LoadBytes = append(p.ProgramOrder.LoadBytes, int64(i)*3456)
	}
	text, err := p.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.Read(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
