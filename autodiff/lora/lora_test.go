package lora_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/autodiff/lora"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
)

// build builds a built-in network with small settings.
func build(t *testing.T, name string, set map[string]string) *graph.Model {
	t.Helper()
	m, err := models.Build(name, models.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var small = map[string]string{"layers": "2", "hidden": "16", "ff": "32", "heads": "2", "vocab": "50", "positions": "16"}

// modulesOf are the modules of a record.
func modulesOf(r *lora.Record) (names []string) {
	for _, a := range r.Adapters {
		names = append(names, a.Module)
	}
	return names
}

// TestTargets: which modules of real networks get an adapter.
func TestTargets(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     map[string]string
		targets string
		count   int
		with    []string
		without string // a pattern
	}{
		{"bert", small, "", 12, []string{"encoder.0.attention.query", "encoder.1.output"}, "pooler|embeddings"},
		{"bert", small, "query|value", 4, []string{"encoder.0.attention.query", "encoder.1.attention.value"}, "key"},
		{"bert", small, "words", 1, []string{"embeddings.words"}, "encoder"},
		{"vit_b_16", map[string]string{"layers": "2", "hidden": "16", "ff": "32", "heads": "2", "size": "32"}, "", 12, nil, "patch|conv|head|classifier"},
		{"resnet50", map[string]string{"size": "32"}, "", 37, []string{"fc"}, `conv2|^conv1$`},
	} {
		opt := lora.Options{Rank: 4}
		if c.targets != "" {
			opt.Targets = regexp.MustCompile(c.targets)
		}
		_, r, err := lora.Adapt(build(t, c.name, c.set), opt)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		names := modulesOf(r)
		if len(names) != c.count {
			t.Errorf("%s %s: %d adapters, expected %d: %v", c.name, c.targets, len(names), c.count, names)
		}
		for _, n := range c.with {
			if !slices.Contains(names, n) {
				t.Errorf("%s: no adapter beside %s: %v", c.name, n, names)
			}
		}
		if wrong := regexp.MustCompile(c.without); slices.ContainsFunc(names, wrong.MatchString) {
			t.Errorf("%s: adapters beside %v, expected none that match %s", c.name, names, wrong)
		}
	}
}

// TestDynamicBase: products whose operand is quantized at every run get adapters, which read it
// as it is before and add to the scaled result. One that another node reads in between gets none.
func TestDynamicBase(t *testing.T) {
	product := func(name string) string {
		return strings.ReplaceAll(`init N.weight_quantized int8[4,5] = ...
init N.scale float32[] = [0.5]
N.m = MatMulInteger(q, N.weight_quantized, z)
N.c = Cast(N.m) to=1
N.s = Mul(a, N.scale)
N.y = Mul(N.s, N.c)
`, "N", name)
	}
	m, err := graph.Parse("net", "opset 17\nin x float32[3,4]\nq, a, z = DynamicQuantizeLinear(x)\n"+product("one")+product("two")+
		"sum = Add(one.y, two.y)\nout sum\nout two.m\n")
	if err != nil {
		t.Fatal(err)
	}
	_, r, err := lora.Adapt(m, lora.Options{Rank: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Adapters) != 1 || r.Adapters[0].Module != "one" || !slices.Equal(r.Adapters[0].Outputs, []string{"one.y"}) {
		t.Errorf("adapters %+v, expected one of module one that adds to one.y", r.Adapters)
	}
}

// TestFrozenBase: a step trains the adapters alone, has states for no other tensor, and leaves
// out those on which the loss does not depend.
func TestFrozenBase(t *testing.T) {
	m, r, err := lora.Adapt(build(t, "bert", small), lora.Options{Rank: 4, Targets: regexp.MustCompile("query|pooler")})
	if err != nil {
		t.Fatal(err)
	}
	step, err := autodiff.Train(m, autodiff.Options{Optimizer: "adamw", Adapters: r.Parameters(), Dims: map[string]int64{"batch": 2, "sequence": 8}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{}
	for _, a := range r.Adapters {
		if a.Module != "pooler.dense" {
			want = append(want, a.A, a.B)
		}
	}
	if got := slices.Sorted(slices.Values(step.Parameters)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("trained %v, expected %v", got, want)
	}
	for _, u := range step.Params.Graph.Tensors {
		if !strings.Contains(u.Name, "lora_") && u.Name != "step" {
			t.Errorf("%s is a parameter or state: expected those of adapters alone", u.Name)
		}
	}
}

// TestAdaptIsDeterministic: the same options give the same elements, and other adapters change
// none of them.
func TestAdaptIsDeterministic(t *testing.T) {
	elements := func(pattern string) map[string][]byte {
		m, r, err := lora.Adapt(build(t, "bert", small), lora.Options{Rank: 4, Targets: regexp.MustCompile(pattern)})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string][]byte{}
		for _, u := range m.Graph.Tensors {
			if slices.Contains(r.Parameters(), u.Name) && u.Data.Raw != nil {
				all[u.Name] = u.Data.Raw
			}
		}
		return all
	}
	a, b := elements("query"), elements("query|key")
	if len(a) != 2 || len(b) != 4 {
		t.Fatalf("%d and %d drawn tensors, expected 2 and 4", len(a), len(b))
	}
	for name, raw := range a {
		if !reflect.DeepEqual(raw, b[name]) {
			t.Errorf("%s: other elements beside other adapters", name)
		}
	}
}

// TestRefused: what cannot be adapted is one clear error.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		opt  lora.Options
		want string
	}{
		{lora.Options{}, "rank 0: expected 1"},
		{lora.Options{Rank: 4, Dropout: 1}, "dropout 1: expected"},
		{lora.Options{Rank: 4, Alpha: -1}, "alpha -1: expected"},
		{lora.Options{Rank: 4, Targets: regexp.MustCompile("nothing")}, `"nothing" matches no module beside which one can stand: expected a pattern of their names, such as embeddings.words`},
	} {
		_, _, err := lora.Adapt(build(t, "bert", small), c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("found %v, expected %q", err, c.want)
		}
	}
	m, _, err := lora.Adapt(build(t, "bert", small), lora.Options{Rank: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = lora.Adapt(m, lora.Options{Rank: 4}); err == nil || !strings.Contains(err.Error(), "has adapters already") {
		t.Errorf("adapters twice: found %v", err)
	}
}
