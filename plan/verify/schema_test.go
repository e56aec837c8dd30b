package verify_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onnxmem/onnxmem/plan"
)

// schema compiles docs/plan.schema.json.
func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "plan.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decode(t testing.TB, b []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchema(t *testing.T) {
	s := schema(t)
	for i, b := range marshal(t) {
		if err := s.Validate(decode(t, b)); err != nil {
			t.Errorf("%s: %v", planned[i].name, err)
		}
	}
}

// TestSchemaRefuses: the schema says more than "an object".
func TestSchemaRefuses(t *testing.T) {
	s := schema(t)
	good := marshal(t)[0]
	first := func(v map[string]any, key string) map[string]any { return v[key].([]any)[0].(map[string]any) }
	for _, c := range []struct {
		name   string
		change func(v map[string]any)
	}{
		{"another version", func(v map[string]any) { v["version"] = json.Number("3") }},
		{"no buffers", func(v map[string]any) { delete(v, "buffers") }},
		{"a negative offset", func(v map[string]any) { first(v, "buffers")["offset"] = json.Number("-64") }},
		{"a size that is no integer", func(v map[string]any) { first(v, "buffers")["bytes"] = json.Number("1.5") }},
		{"a kind of no meaning", func(v map[string]any) { first(v, "buffers")["kind"] = "scratch" }},
		{"a pool of no meaning", func(v map[string]any) { first(v, "buffers")["pool"] = "workspace" }},
		{"a buffer without tensors", func(v map[string]any) { first(v, "buffers")["tensors"] = []any{} }},
		{"a buffer of tensors with a node", func(v map[string]any) { first(v, "buffers")["node"] = json.Number("1") }},
		{"a workspace without a node", func(v map[string]any) {
			b := first(v, "buffers")
			b["kind"], b["tensors"] = "workspace", []any{}
		}},
		{"a short hash", func(v map[string]any) { v["model"].(map[string]any)["graph_sha256"] = "abc" }},
		{"a certificate of no kind", func(v map[string]any) {
			v["certificates"] = []any{map[string]any{"kind": "trust me", "nodes": []any{}, "value_bytes": json.Number("1")}}
		}},
		{"a cut without its node", func(v map[string]any) {
			v["certificates"] = []any{map[string]any{"kind": "cut", "nodes": []any{"a"}, "value_bytes": json.Number("1")}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := decode(t, good)
			c.change(v.(map[string]any))
			if s.Validate(v) == nil {
				t.Error("expected the schema to refuse it")
			}
		})
	}
	v := decode(t, good).(map[string]any)
	v["note"] = "fields may be added"
	if err := s.Validate(v); err != nil {
		t.Errorf("a field that was added: %v", err)
	}
}

// TestSchemaRequires: the reader misses exactly the fields that the schema requires.
func TestSchemaRequires(t *testing.T) {
	s := schema(t)
	plans := marshal(t)
	for _, c := range real {
		_, _, p := planReal(t, c.x, c.opt)
		b, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(decode(t, b)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		plans = append(plans, b)
	}
	dropped := map[string]bool{}
	for _, b := range plans {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		root := readValue(t, d)
		for _, x := range root.tamperings("", nil) {
			if x.what != "dropped" || dropped[x.path] || strings.HasSuffix(x.path, "]") {
				continue
			}
			dropped[x.path] = true
			x.do()
			var text bytes.Buffer
			root.write(&text)
			x.undo()
			_, read := plan.Read(bytes.NewReader(text.Bytes()))
			// Only the verifier decides which buffers and certificates need these.
			kind := strings.HasSuffix(x.path, "buffers[].node") || x.path == "certificates[].steps"
			if valid := s.Validate(decode(t, text.Bytes())); (read == nil) != (valid == nil) && !kind {
				t.Errorf("without %s: the reader says %v, the schema %v", x.path, read, valid)
			}
		}
	}
	if len(dropped) < 60 {
		t.Errorf("%d fields were dropped, expected all", len(dropped))
	}
}
