package plan_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// These tests stand behind a tag because go.mod does not require jsonschema
// ("go mod tidy" counts tagged files and adds it; then the tag can go):
//
//	go test -tags schema ./plan

// schema compiles docs/plan.schema.json.
func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "plan.schema.json"))
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
		{"another version", func(v map[string]any) { v["version"] = json.Number("2") }},
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
