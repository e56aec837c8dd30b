package plan_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/plan"
)

// marshal gives the JSON of every valid plan of the tests.
func marshal(t testing.TB) [][]byte {
	t.Helper()
	var all [][]byte
	for _, c := range planned {
		_, p := c.plan(t, models[c.model])
		b, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

func TestRead(t *testing.T) {
	for i, b := range marshal(t) {
		p, err := plan.Read(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if err := p.Write(&again); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(b), again.String()); d != "" {
			t.Errorf("%s: written again (-first +second):\n%s", planned[i].name, d)
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
		{"a version to come", `{"format": "onnxmem/plan", "version": 2}`, "plan version is 2, expected 1"},
		{"a version to come, that says other things", strings.NewReplacer(`"version": 1`, `"version": 2`, `"steps"`, `"Steps"`).Replace(good), "plan version is 2, expected 1"},
		{"a text for a number", with(`"version": 1`, `"version": "1"`), "not a plan: byte 44: version: expected a whole number of 64 bits, found string"},
		{"a size beyond 63 bits", with(`"peak_bytes": 192`, `"peak_bytes": 9223372036854775808`), "not a plan: byte 624: summary.peak_bytes: expected a whole number of 64 bits, found number 9223372036854775808"},
		{"a size that is no integer", with(`"peak_bytes": 192`, `"peak_bytes": 192.5`), "not a plan: byte 610: summary.peak_bytes: expected a whole number of 64 bits, found number 192.5"},
		{"a key twice", with(`"mode"`, `"alignment": 64, "mode"`), `not a plan: byte 393: key "alignment" stands there twice`},
		{"a key twice, deep", with(`"offset": 64,`, `"offset": 64, "offset": 128,`), `not a plan: byte 1248: buffers[2]: key "offset" stands there twice`},
		{"a key in another case", with(`"offset": 64,`, `"Offset": 64,`), `not a plan: byte 1234: buffers[2]: expected the key "offset", found "Offset"`},
		{"a key in another case beside its own", with(`"offset": 64,`, `"offset": 64, "OFFSET": 128,`), `not a plan: byte 1248: buffers[2]: expected the key "offset", found "OFFSET"`},
		{"a key twice in a field that was added", with(`"mode"`, `"note": {"a": 1, "a": 2}, "mode"`), `not a plan: byte 358: note: key "a" stands there twice`},
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

// TestReadAdded: fields that somebody has added are skipped, wherever they stand.
func TestReadAdded(t *testing.T) {
	for i, b := range marshal(t) {
		if planned[i].model == "symbols" {
			continue // any key of dims is a dimension
		}
		added := strings.ReplaceAll(string(b), "{\n", `{"note": {"x": [1, null, {"offset": -1}]}, "notes": "x",`+"\n")
		p, err := plan.Read(strings.NewReader(added))
		if err != nil {
			t.Fatalf("%s: %v", planned[i].name, err)
		}
		again, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(b), string(again)); d != "" {
			t.Errorf("%s: with fields added (-without +with):\n%s", planned[i].name, d)
		}
	}
}

// TestReadBounded: what is read takes memory in proportion to its bytes. Lists of
// empty objects are refused before they are decoded.
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
		// The text is copied while it is read, a slice that grows a few times on
		// the way; an empty name is three bytes of text and sixteen in memory.
		if used, most := after.TotalAlloc-before.TotalAlloc, uint64(48*len(c.text)); used > most {
			t.Errorf("%s: %d bytes of text took %d bytes of memory, expected at most %d", c.name, len(c.text), used, most)
		} else {
			t.Logf("%s: %d bytes took %d", c.name, len(c.text), used)
		}
	}
}

// FuzzRead: the reader never panics, and what it takes it writes again.
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

// FuzzVerify: no plan, however hostile, makes Verify panic, and none that
// differs in meaning from the plan of a file is valid with another arena.
func FuzzVerify(f *testing.F) {
	type file struct {
		onnx []byte
		good *plan.Plan
	}
	var files []file
	for i, c := range planned {
		if c.name == "many steps" {
			continue
		}
		b, p := c.plan(f, models[c.model])
		files = append(files, file{b, p})
		f.Add(uint8(len(files)-1), marshal(f)[i])
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		p, err := plan.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		x := files[int(which)%len(files)]
		r, err := plan.Verify(parse(t, x.onnx), p, plan.VerifyOptions{})
		if err != nil {
			t.Fatalf("a model that is refused: %v", err)
		}
		if r.Valid != (len(r.Violations) == 0) {
			t.Fatalf("valid %t with %d violations", r.Valid, len(r.Violations))
		}
		// The annotations fix every offset that a node makes, hence these.
		if want := x.good.Summary; r.Valid && (p.Summary.PeakBytes != want.PeakBytes || p.Summary.ArenaBytes != want.ArenaBytes || p.Summary.ResidentBytes != want.ResidentBytes) {
			t.Fatalf("valid with summary %+v, expected %+v", p.Summary, want)
		}
		if r.String() == "" {
			t.Fatal("no report")
		}
	})
}
