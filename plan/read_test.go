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
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "not a plan: EOF"},
		{"no JSON", "ONNX", "not a plan: invalid character 'O'"},
		{"the end is missing", good[:len(good)/2], "not a plan: unexpected EOF"},
		{"more behind the end", good + "{}", "not a plan: expected its end at byte"},
		{"another format", `{"format": "minimalloc", "version": 1}`, `format is "minimalloc", expected "onnxmem/plan"`},
		{"a version to come", `{"format": "onnxmem/plan", "version": 2}`, "plan version is 2, expected 1"},
		{"a text for a number", `{"format": "onnxmem/plan", "version": "1"}`, "not a plan: json: cannot unmarshal string"},
		{"a size beyond 63 bits", `{"summary": {"peak_bytes": 9223372036854775808}}`, "not a plan: json: cannot unmarshal number"},
		{"a size that is no integer", `{"summary": {"peak_bytes": 1.5}}`, "not a plan: json: cannot unmarshal number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.Read(strings.NewReader(c.text))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("plan %v, error %v, expected %q", p, err, c.want)
			}
		})
	}
}

// TestReadBounded: what is read takes memory in proportion to its bytes.
func TestReadBounded(t *testing.T) {
	text := `{"format": "onnxmem/plan", "version": 1, "buffers": [` + strings.Repeat("{},", 1<<18) + `{}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := plan.Read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	// A buffer is 112 bytes, its shortest text 3; a slice that grows is copied
	// a few times on the way.
	if used, most := after.TotalAlloc-before.TotalAlloc, uint64(400*len(text)); used > most {
		t.Errorf("%d bytes of text took %d bytes of memory, expected at most %d", len(text), used, most)
	}
}

// FuzzRead: the reader never panics, and what it takes it writes again.
func FuzzRead(f *testing.F) {
	for _, b := range marshal(f) {
		f.Add(b)
	}
	f.Add([]byte(`{"format": "onnxmem/plan", "version": 1, "buffers": [null, {"node": 3}], "dims": null}`))
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
