package verify_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestHostile changes plans at random places, in values that keep their types. The
// verifier never panics, and accepts a changed plan only if nothing that matters has
// changed.
func TestHostile(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	names := []string{repeated, swapped}
	for _, c := range planned {
		if c.name != "many steps" {
			names = append(names, c.name)
		}
	}
	for _, name := range names {
		file, p := mutation{of: name}.base(t)
		text, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for range rounds {
			changed := corrupt(t, r, text)
			q, err := plan.Read(bytes.NewReader(changed))
			if err != nil {
				continue // another format or version
			}
			report, err := verify.Plan(parse(t, file), q, verify.Options{})
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, changed)
			}
			if s := q.Summary; report.Valid && (s.PeakBytes != p.Summary.PeakBytes || s.ResidentBytes != p.Summary.ResidentBytes || s.LowerBoundBytes > s.PeakBytes) {
				t.Fatalf("%s: valid:\n%s", name, changed)
			}
		}
	}
}

// corrupt changes one to four places of a JSON text.
func corrupt(t testing.TB, r *rand.Rand, text []byte) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	for range 1 + r.IntN(4) {
		v = change(r, v)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var hostile = []int64{0, 1, -1, 2, 7, 63, 64, 65, -64, 1 << 20, 1 << 31, 1 << 62, math.MaxInt64, math.MaxInt64 - 63, math.MinInt64}

// change follows a random path and changes the value at its end.
func change(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if key := pick(r, sorted(v)); key != "" && key != "format" && key != "version" {
			v[key] = change(r, v[key])
		}
	case []any:
		if len(v) == 0 {
			return v
		}
		i, j := r.IntN(len(v)), r.IntN(len(v))
		switch r.IntN(8) {
		case 0:
			return append(v[:i:i], v[i+1:]...)
		case 1:
			return append(v, v[i])
		case 2:
			v[i], v[j] = v[j], v[i]
		default:
			v[i] = change(r, v[i])
		}
	case json.Number:
		return hostile[r.IntN(len(hostile))]
	case bool:
		return !v
	case string:
		return pick(r, []string{"", "x", "a", "y", "arena", "resident", "host", "workspace", "cut", "search", "parameter", "output", "constant"})
	}
	return v
}

func pick(r *rand.Rand, list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[r.IntN(len(list))]
}

// TestCheckHostile: Plan.Check returns a verdict on every plan and never panics.
func TestCheckHostile(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	_, p := mutation{of: "nothing is shared"}.base(t)
	text, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 2000 {
		q, err := plan.Read(bytes.NewReader(corrupt(t, r, text)))
		if err == nil && q.Check() != nil {
			refused++
		}
	}
	if refused < 500 {
		t.Errorf("of 2000 corrupted plans %d were refused, expected more", refused)
	}
}
