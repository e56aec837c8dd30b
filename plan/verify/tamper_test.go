package verify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// value is a JSON value whose objects keep their order and may hold a key twice.
type value struct {
	scalar string   // its text; "" for the others
	list   []*value // of an object: the values of its keys
	keys   []string // of an object, in the order of the text
	open   byte     // '{', '[' or 0
}

func readValue(t testing.TB, d *json.Decoder) *value {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	open, nested := token.(json.Delim)
	if !nested {
		text, err := json.Marshal(token)
		if err != nil {
			t.Fatal(err)
		}
		return &value{scalar: string(text)}
	}
	v := &value{open: byte(open)}
	for d.More() {
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			v.keys = append(v.keys, key.(string))
		}
		v.list = append(v.list, readValue(t, d))
	}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *value) write(b *bytes.Buffer) {
	if v.open == 0 {
		b.WriteString(v.scalar)
		return
	}
	b.WriteByte(v.open)
	for i, x := range v.list {
		if i > 0 {
			b.WriteByte(',')
		}
		if v.keys != nil {
			b.WriteString(quoted(v.keys[i]))
			b.WriteByte(':')
		}
		x.write(b)
	}
	b.WriteByte(v.open + 2)
}

// keyTexts holds the keys of plans as JSON, since each is written thousands of times.
var keyTexts = map[string]string{}

func quoted(key string) string {
	text, is := keyTexts[key]
	if !is {
		b, _ := json.Marshal(key)
		text = string(b)
		keyTexts[key] = text
	}
	return text
}

// tampering is one change of a plan's JSON.
type tampering struct {
	path     string // of the field: buffers[].offset
	what     string
	do       func()
	undo     func()
	old, new string // the texts of a scalar; "": it is another change
}

// by is what a change adds to a whole number; 0: it is another change.
func (c *tampering) by() int64 {
	from, err := strconv.ParseInt(c.old, 10, 64)
	to, err2 := strconv.ParseInt(c.new, 10, 64)
	if err != nil || err2 != nil {
		return 0
	}
	return to - from
}

// tamperings lists the changes of every scalar, object and list below a value. Each
// works on the value itself.
func (v *value) tamperings(path string, list []tampering) []tampering {
	first, last := 4, 2
	if strings.Contains(path, "[]") {
		first, last = 2, 1 // a list for each element of another
	}
	set := func(x *value, path, text string) {
		old := *x
		list = append(list, tampering{path, "to " + text, func() { *x = value{scalar: text} }, func() { *x = old }, old.scalar, text})
	}
	elements := func(path, what string, keys []string, elements []*value) {
		old := *v
		list = append(list, tampering{path, what, func() { v.keys, v.list = keys, elements }, func() { *v = old }, "", ""})
	}
	without := func(i int) ([]string, []*value) {
		keys := slices.Clone(v.keys)
		if keys != nil {
			keys = slices.Delete(keys, i, i+1)
		}
		return keys, slices.Delete(slices.Clone(v.list), i, i+1)
	}
	if v.open == 0 {
		for _, text := range changes(v.scalar) {
			set(v, path, text)
		}
		return list
	}
	for i, x := range v.list {
		if v.open == '[' && i >= first && i < len(v.list)-last {
			continue // a sample of a long list is enough
		}
		inner := path + "[]"
		if v.open == '{' {
			inner = strings.TrimPrefix(path+"."+v.keys[i], ".")
		}
		list = x.tamperings(inner, list)
		keys, rest := without(i)
		elements(inner, "dropped", keys, rest)
		set(x, inner, "null")
		insert := func(what string, at int, key string, extra *value) {
			keys := v.keys
			if keys != nil {
				keys = slices.Insert(slices.Clone(keys), at, key)
			}
			elements(inner, what, keys, slices.Insert(slices.Clone(v.list), at, extra))
		}
		if v.open == '[' {
			insert("twice", i, "", x)
			if i > 0 {
				swapped := slices.Clone(v.list)
				swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
				elements(inner, "exchanged with the one before", nil, swapped)
			}
			continue
		}
		other := &value{scalar: "0"}
		if x.open == 0 && len(changes(x.scalar)) > 0 {
			other.scalar = changes(x.scalar)[0]
		}
		insert("twice", i, v.keys[i], x)
		insert("twice, the first another", i, v.keys[i], other)
		insert("twice, the last another", i+1, v.keys[i], other)
		upper := strings.ToUpper(v.keys[i])
		insert("in another case behind it", i+1, upper, other)
		insert("in another case before it", i, upper, other)
		keys = slices.Clone(v.keys)
		keys[i] = upper
		elements(inner, "in another case alone", keys, v.list)
	}
	if v.open == '[' && len(v.list) > 0 {
		elements(path+"[]", "all dropped", nil, nil)
	}
	for _, name := range optional[dimension.ReplaceAllString(path, "$1.*")] {
		if v.open != '{' || slices.Contains(v.keys, name) {
			continue
		}
		for _, text := range []string{"0", "1", "-1", "true", `"x"`, "[]", "[0]", `[{"tensor": "x", "node": "", "reason": ""}]`, `[{"limit_bytes": 0, "extra_cost_percent": 1, "extra_cost_lower_bound_percent": 0}]`} {
			inner := strings.TrimPrefix(path+"."+name, ".")
			elements(inner, "added: "+text, append(slices.Clone(v.keys), name), append(slices.Clone(v.list), &value{scalar: text}))
		}
	}
	return list
}

// optional lists the fields that an object may lack, by path.
var optional = map[string][]string{}

func init() {
	for _, f := range planFields() {
		path, name := "", f.path
		if at := strings.LastIndex(name, "."); at >= 0 {
			path, name = name[:at], name[at+1:]
		}
		if f.optional {
			optional[path] = append(optional[path], name)
		}
	}
}

func planFields() []field { return fields("", reflect.TypeFor[plan.Plan]()) }

// field is a field of the JSON of a plan.
type field struct {
	path     string
	optional bool
	scalar   bool
}

// fields lists the fields in the JSON of a type.
func fields(path string, t reflect.Type) (list []field) {
	switch t.Kind() {
	case reflect.Pointer:
		return fields(path, t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Struct {
			return []field{{path + "[]", false, true}}
		}
		return fields(path+"[]", t.Elem())
	case reflect.Map:
		return fields(path+".*", t.Elem())
	case reflect.Struct:
	default:
		return []field{{path, false, true}}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := strings.TrimSuffix(strings.TrimPrefix(path+"."+name, "."), ".")
		typ := f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		nested := typ.Kind() == reflect.Struct || typ.Kind() == reflect.Map || typ.Kind() == reflect.Slice
		if name != "" {
			list = append(list, field{inner, options == "omitempty", !nested})
		}
		if nested {
			list = append(list, fields(inner, typ)...)
		}
	}
	return list
}

// changes returns other texts for a scalar.
func changes(scalar string) []string {
	if scalar == "true" || scalar == "false" {
		return []string{map[string]string{"true": "false", "false": "true"}[scalar], "0", `"true"`}
	}
	if scalar == "null" {
		return []string{"0", "1", "-1", "1e300", `"x"`}
	}
	var text string
	if json.Unmarshal([]byte(scalar), &text) == nil {
		var list []string
		for _, other := range []string{
			"", text + " ", strings.ToUpper(text), "../" + text, strings.Repeat("0", 64), "make b", "y",
			"arena", "resident", "host", "workspace", "constant", "state", "output", "gradient", "search", "first-of-set",
		} {
			quoted, _ := json.Marshal(other)
			if other != text {
				list = append(list, string(quoted))
			}
		}
		return append(list, "0", "true")
	}
	list := []string{"0", "1", "-1", "64", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e300", `"1"`}
	var n int64
	var f float64
	if json.Unmarshal([]byte(scalar), &n) == nil {
		for _, d := range []int64{1, -1, 64, -64, n, -2 * n, -n / 2} {
			list = append(list, fmt.Sprint(n+d))
		}
	} else if json.Unmarshal([]byte(scalar), &f) == nil {
		for _, g := range []float64{f / 2, f * 2, f - 1, f + 1, f * 1.0001, -f} {
			list = append(list, fmt.Sprint(g))
		}
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == scalar })
}

// real are plans of package passes, of every kind.
var real = []struct {
	name string
	x    text
	opt  passes.Options
	has  func(p *plan.Plan) bool // the plan has the feature that the case is about
}{
	{"nothing is shared", models["chain"], passes.Options{NoViews: true, NoInplace: true, Tool: "onnxmem 1.0"}, func(p *plan.Plan) bool {
		return len(p.Certificates) > 0 && p.Certificates[0].Kind == plan.CertificateCut
	}},
	{"views and in-place results", models["chain"], passes.Options{}, func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Buffers, func(b plan.Buffer) bool { return len(b.Tensors) > 2 })
	}},
	{"the sharing of another runtime", models["runtime"], passes.Options{Runtime: ops.ONNXRuntimeArena}, func(p *plan.Plan) bool {
		return p.Sharing.Runtime != "" && slices.ContainsFunc(p.Buffers, func(b plan.Buffer) bool { return len(b.Tensors) > 2 })
	}},
	{"the default order of another runtime", models["legs"], passes.Options{Runtime: ops.ONNXRuntime, RuntimeOrder: true}, func(p *plan.Plan) bool {
		return p.Traversal != nil
	}},
	{"alignment 1", models["constants"], passes.Options{Align: 1}, nil},
	{"dimensions", models["symbols"], passes.Options{Dims: map[string]int64{"batch": 4}}, func(p *plan.Plan) bool { return len(p.Dims) == 2 }},
	{"ranges of dimensions", ranged, passes.Options{Ranges: map[string]string{"batch": "1,2,5", "time": "2..6"}, Dims: map[string]int64{"other": 3}}, func(p *plan.Plan) bool {
		r := p.Ranges
		return r.Refused == 6 && len(r.Accepted) == 1 && len(r.Sizes) > 3 && p.Dims["time+1"].Follows
	}},
	{"ranges of dimensions with bodies", rangedBodies, passes.Options{Ranges: map[string]string{"batch": "2,9"}}, func(p *plan.Plan) bool {
		return len(p.Subgraphs) == 3 && p.Subgraphs[2].Parent != nil && len(p.Subgraphs[0].Ranges.Stacking) > 2 && len(p.Subgraphs[0].Ranges.Certificates) > 0
	}},
	{"dynamic and bounded", models["dynamic"], passes.Options{}, func(p *plan.Plan) bool { return len(p.Dynamic) > 1 }},
	{"subgraphs", models["branches"], passes.Options{}, func(p *plan.Plan) bool { return len(p.Subgraphs) == 4 && p.Subgraphs[2].Parent != nil }},
	{"a loop", models["loop"], passes.Options{}, nil},
	{"functions", models["functions"], passes.Options{}, nil},
	{"no nodes", models["no nodes"], passes.Options{}, nil},
	{"dynamic tensors of bodies", text{
		main:   "in p bool[]\nin k int64[1]\nr = If(p)\nout r",
		bodies: map[string]string{"r.then_branch": "z = ConstantOfShape(k)\nout z", "r.else_branch": "z = ConstantOfShape(k)\ny = Relu(z)\nout y"},
	}, passes.Options{}, func(p *plan.Plan) bool { return len(p.Subgraphs[0].Dynamic) == 2 }},
	{"a set of nodes", bases["competing nodes"].x, passes.Options{}, func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Certificates, func(c plan.Certificate) bool { return len(c.Steps) > 1 })
	}},
	{"an exhausted search", fans(2, 2), passes.Options{}, func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Certificates, func(c plan.Certificate) bool { return c.Kind == plan.CertificateSearch })
	}},
	{"random nodes in their order", text{main: `
		in x float32[64]
		a = RandomNormalLike(x)
		b = RandomNormalLike(x)
		c = Add(a, x)
		d = Add(b, c)
		out d
	`}, passes.Options{KeepRandomOrder: true}, func(p *plan.Plan) bool { return p.KeepsRandomOrder }},
	{"a step of training", classifier, passes.Options{Dims: map[string]int64{"batch": 3}, Train: &autodiff.Options{Optimizer: "momentum", KeepGradients: true}}, func(p *plan.Plan) bool { return p.Mode == "training" && len(p.Dims) == 1 }},
	{"a step of training in 16 bits", classifier, passes.Options{Dims: map[string]int64{"batch": 3}, Precision: &passes.Precision{Type: graph.BFloat16}, Train: &autodiff.Options{Optimizer: "momentum"}}, func(p *plan.Plan) bool {
		return p.Precision.Type == "bfloat16" && len(p.Precision.Casts) > 2
	}},
	{"attention of one node", text{opset: 20, main: `
		in q float32[1,2,4,8]
		in k float32[1,2,8,4]
		in v float32[1,2,4,8]
		s = MatMul(q, k)
		p = Softmax(s) axis=-1
		x = MatMul(p, v)
		t = MatMul(x, k)
		r = Softmax(t) axis=-1
		y = MatMul(r, v)
		out y`}, passes.Options{Attention: true}, func(p *plan.Plan) bool { return len(p.Attention) == 2 }},
	{"16 bits", classifier, passes.Options{Precision: &passes.Precision{Type: graph.Float16, Keep: regexp.MustCompile("^y$")}}, func(p *plan.Plan) bool {
		return p.Precision.Type == "float16" && len(p.Precision.Casts) > 2 && len(p.Precision.Kept) > 0
	}},
	{"a step of training for ranges of dimensions", classifier, passes.Options{Ranges: map[string]string{"batch": "2..4"}, Train: &autodiff.Options{Optimizer: "momentum"}}, func(p *plan.Plan) bool { return p.Mode == "training" && p.Ranges != nil && p.Ranges.Points == 3 }},
	{"ranges with bounded lengths", turned, passes.Options{Ranges: map[string]string{"n": "2..9", "d": "2,16"}, RangePoints: 2}, func(p *plan.Plan) bool {
		return p.Ranges.Proof == plan.ProofBounded && p.Ranges.Inferred > 1
	}},
	{"ranges of dimensions with the sharing of another runtime", turned, passes.Options{Runtime: ops.ONNXRuntimeArena, Ranges: map[string]string{"n": "2..4"}, Dims: map[string]int64{"d": 3}}, func(p *plan.Plan) bool {
		return p.Sharing.Runtime != "" && p.Ranges != nil
	}},
	{"a step of training with bodies", trainedLoops, passes.Options{Train: &autodiff.Options{Loss: "mse"}}, func(p *plan.Plan) bool {
		return p.Mode == "training" && slices.ContainsFunc(p.Subgraphs, func(s plan.Subgraph) bool { return s.Parent != nil })
	}},
	{"a step of training with aliases", trainedJoin, passes.Options{Train: &autodiff.Options{Loss: "mse", Optimizer: "adam"}}, func(p *plan.Plan) bool {
		return p.Mode == "training" && p.Sharing.Aliases && len(p.Spans) > 0
	}},
	{"slices of a step of training", trainedRows, passes.Options{Train: &autodiff.Options{Loss: "mse"}, Slices: passes.SlicesAny, Limit: &passes.Limit{Percent: 70}, UpdatesLast: true}, func(p *plan.Plan) bool {
		return p.Mode == "training" && p.Slices != nil
	}},
	{"slices for several pools", sliceable, passes.Options{Slices: passes.SlicesExact, Pools: []passes.Pool{{Name: "small", Capacity: 400 << 10}, {Name: "large", Capacity: 8 << 20, BytesPerSecond: 1e8}}}, func(p *plan.Plan) bool {
		return p.Slices != nil && len(p.Tiers()) == 2
	}},
	{"caches of a fixed capacity for ranges of dimensions", growing, passes.Options{KVCapacity: 8, Ranges: map[string]string{"batch": "1..3"}}, func(p *plan.Plan) bool {
		return p.KV != nil && p.Ranges != nil && p.Ranges.Points == 3
	}},
	{"below a limit", tower, passes.Options{Limit: &passes.Limit{Percent: 70}, Frontier: true}, func(p *plan.Plan) bool {
		return p.Summary.RecomputedNodes > 0 && len(p.Frontier) > 2 && p.Frontier[len(p.Frontier)-1].Impossible
	}},
	{"a limit that the best order keeps", models["chain"], passes.Options{Limit: &passes.Limit{Bytes: 1 << 20, Arena: true}}, func(p *plan.Plan) bool { return p.Summary.LimitArena }},
	{"a host", tower, passes.Options{Limit: &passes.Limit{Percent: 70}, Host: &passes.Host{Link: 1e9, NoRecompute: true}, Frontier: true}, func(p *plan.Plan) bool { return p.Summary.SwappedBuffers > 0 && p.Summary.WaitingPercent > 0 }},
	{"recorded workspaces", twins, passes.Options{Workspaces: &plan.Recording{Device: "a GPU", Products: "a library", Convolutions: "another", Nodes: []plan.NodeScratch{
		{Node: "make a", Output: "a", Bytes: 1000}, {Node: "make y", Output: "y", Bytes: 65},
	}}}, func(p *plan.Plan) bool { return len(p.Workspaces.Nodes) == 2 }},
	{"slices", sliceable, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 40}}, func(p *plan.Plan) bool {
		return p.Slices != nil && len(p.Slices.Constants) == 1 && slices.ContainsFunc(p.Slices.Regions, func(r plan.SlicedRegion) bool { return r.Outputs[0].Over != "" })
	}},
	{"slices that call functions", sliceable, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 40}, Compact: true}, func(p *plan.Plan) bool {
		return p.Slices != nil && len(p.Slices.Regions[0].Names) > 1
	}},
	{"caches", text{main: `
		in past float32[1,2,6,4]
		in new float32[1,2,1,4]
		in at int64[1]
		present = TensorScatter(past, new, at)
		y = Relu(present)
		out y
		out present
	`}, passes.Options{StatesAuto: true}, func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Buffers, func(b plan.Buffer) bool { return b.Kind == plan.KindCache })
	}},
	{"a state that a loop carries", text{main: `
		in m int64[]
		in state float32[1,4]
		in x float32[1,4]
		next = Loop(m, _, state)
		y = Relu(next)
		out y
		out next
	`, bodies: map[string]string{"next.body": "in i int64[]\nin c bool[]\nin s float32[1,4]\nt = Add(s, x)\nd = Identity(c)\nout d\nout t"}}, passes.Options{StatesAuto: true}, func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Buffers, func(b plan.Buffer) bool { return b.Kind == plan.KindCache })
	}},
	{"caches of a fixed capacity", growing, passes.Options{KVCapacity: 8, Dims: map[string]int64{"batch": 2}}, func(p *plan.Plan) bool {
		return p.KV != nil && len(p.KV.Masks) == 1 && len(p.KV.Caches) == 2
	}},
	{"slices inside of slices", nested, nestedOptions, func(p *plan.Plan) bool { return isNested(nil, p) }},
	{"slices of parts", attentive, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 60}}, func(p *plan.Plan) bool {
		return len(p.Slices.Parts) > 0
	}},
	{"slices of a mask and of a weight", masked, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 50}}, func(p *plan.Plan) bool {
		return p.Slices != nil && len(p.Slices.Copies) > 0 && len(p.Slices.Weights) > 0
	}},
	{"an attention in pieces", weighing, passes.Options{Slices: passes.SlicesAny, Limit: &passes.Limit{Bytes: 4100}}, func(p *plan.Plan) bool {
		return p.Slices != nil && len(p.Slices.Regions[0].Running) == 1
	}},
	{"the cost of limits by slices, recomputation and swaps", tower, passes.Options{Slices: passes.SlicesExact, Frontier: true, Host: &passes.Host{Link: 1e9}}, func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Frontier, func(x plan.FrontierPoint) bool {
			return x.Alone != nil && x.Alone.Slices != nil && x.Alone.Recompute != nil && x.Alone.Swap != nil
		})
	}},
	{"aliases", joined, passes.Options{Aliases: passes.AliasesOn}, func(p *plan.Plan) bool {
		return p.Sharing.Aliases && len(p.Spans) == 3 && slices.ContainsFunc(p.Spans, func(s plan.Span) bool { return len(s.Tensors) == 2 })
	}},
	{"aliases for ranges of dimensions", joinedRanges, passes.Options{Aliases: passes.AliasesOn, Ranges: map[string]string{"rows": "4..8:2"}}, func(p *plan.Plan) bool {
		return p.Sharing.Aliases && len(p.Spans) == 3 && p.Ranges != nil && slices.ContainsFunc(p.Buffers, func(b plan.Buffer) bool { return len(b.Tensors) == 0 })
	}},
	{"buffers that move between pools", moving, twoPools, func(p *plan.Plan) bool { return p.Summary.Tiered != nil && p.Summary.MovedBuffers == 2 }},
	{"several pools", pooled, pools, func(p *plan.Plan) bool { return len(p.Tiers()) == 3 && len(p.TrafficPrices) > 0 }},
	{"the value of a shape", models["dynamic"], passes.Options{Values: map[string]graph.Literal{"k": {Shape: []int64{1}, Data: []json.Number{"4"}}}}, func(p *plan.Plan) bool { return len(p.Values) == 1 }},
	{"the value of a condition", models["branches"], passes.Options{Values: map[string]graph.Literal{"p": {Data: []json.Number{"1"}}}}, func(p *plan.Plan) bool { return len(p.Subgraphs[0].Dynamic) > 0 }},
	{"a product that reads a constant as it lies", tied, passes.Options{Fold: passes.FoldAny}, func(p *plan.Plan) bool { return p.Folded != nil && len(p.Folded.Products) == 1 }},
	{"folded constants", foldable, passes.Options{}, func(p *plan.Plan) bool {
		return p.Folded != nil && slices.ContainsFunc(p.Folded.Tensors, func(f plan.FoldedTensor) bool { return f.Of != "" }) &&
			slices.ContainsFunc(p.Folded.Tensors, func(f plan.FoldedTensor) bool { return f.Subgraph != nil })
	}},
}

// trainedLoops has a Loop in the body of a Loop.
var trainedLoops = text{main: `
	in x float32[4,8]
	init w float32[8,8] = ...
	three = Constant() value_int=3
	h = MatMul(x, w)
	y = Loop(three, _, h)
	out y
`, bodies: map[string]string{
	"y.body": "in i int64[]\nin c bool[]\nin s float32[4,8]\nd = Identity(c)\nz = Loop(three, _, s)\nout d\nout z",
	"z.body": "in j int64[]\nin e bool[]\nin q float32[4,8]\nf = Identity(e)\nt = MatMul(q, w)\nu = Tanh(t)\nout f\nout u",
}}

// trainedJoin joins five inputs with what has a weight, and goes on part by part.
var trainedJoin = text{main: `
	in x float32[4,16]
	in a float32[1,16]
	in b float32[2,16]
	in c float32[3,16]
	in d float32[1,16]
	init w float32[16,16] = ...
	h = MatMul(x, w)
	j = Concat(a, b, h, c, d) axis=0
	y = Tanh(j)
	out y
`}

// trainedRows has many rows of a wide layer.
var trainedRows = text{main: `
	in x float32[1024,8]
	init w float32[8,128] = ...
	init v float32[128,4] = ...
	h = MatMul(x, w)
	r = Tanh(h)
	y = MatMul(r, v)
	out y
`}

// joined joins two tensors, cuts another apart, and takes rows in the middle of a third.
var joined = text{main: `
	in x float32[1,4,16]
	init w float32[16,16] = ...
	from = Constant() value_ints=[0, 1]
	end = Constant() value_ints=[1, 2]
	axis = Constant() value_ints=[0, 1]
	a = MatMul(x, w)
	b = MatMul(a, w)
	c = MatMul(a, w)
	cat = Concat(b, c) axis=1
	same = Identity(cat)
	s = MatMul(same, w)
	p, q = Split(s) axis=1 num_outputs=2
	y = MatMul(p, w)
	m = MatMul(q, w)
	r = Slice(m, from, end, axis)
	z = MatMul(r, w)
	d = MatMul(m, w)
	out y
	out z
	out d
`}

// joinedRanges is joined with an open number of rows.
var joinedRanges = text{main: strings.Replace(joined.main, "float32[1,4,16]", "float32[1,rows,16]", 1)}

// tied has a product by a transposed constant that another node reads, too.
var tied = text{main: `
	in i int64[2]
	in x float32[2,3,64]
	init w float32[32,64] = ...
	t = Transpose(w)
	y = MatMul(x, t)
	z = Relu(y)
	g = Gather(w, i)
	out z
	out g
`}

// sliceable is a wide layer between narrow ones: its rows can run in slices.
var sliceable = text{main: `
	in x float32[128,128]
	init w float32[128,1024] = ...
	init v float32[1024,128] = ...
	r = EyeLike(x)
	h = MatMul(r, w)
	g = Relu(h)
	m = MatMul(g, v)
	y = Add(r, m)
	s = Shape(x)
	z = Reshape(y, s)
	e = EyeLike(z)
	out e
`}

// weighing has a Softmax whose results weigh the rows of k, with a guard.
var weighing = text{main: `
	in q float32[4,4]
	in k float32[128,4]
	init z float32[] = ...
	t = Transpose(k) perm=[1, 0]
	s = MatMul(q, t)
	p = Softmax(s)
	n = IsNaN(p)
	w = Where(n, z, p)
	o = MatMul(w, k)
	y = Relu(o)
	out y
`}

// masked has a mask that is made of small tensors and read twice, and a weight that is
// as large.
var masked = text{main: `
	in x float32[128,8]
	in r float32[128,1]
	in c float32[1,128]
	init k float32[8,128] = ...
	init v float32[128,8] = ...
	init b float32[128,128] = ...
	m = Add(r, c)
	s = MatMul(x, k)
	d = Add(s, b)
	p = Add(d, m)
	h = MatMul(p, v)
	f = Transpose(h)
	t = MatMul(h, f)
	q = Add(t, m)
	y = MatMul(q, v)
	out y
`}

// attentive makes queries, keys and values in one product, and splits them.
var attentive = text{main: `
	in x float32[1,24,16]
	init w float32[16,48] = ...
	init b float32[48] = ...
	flat = Constant() value_ints=[24, 16]
	three = Constant() value_ints=[1, 24, 48]
	heads = Constant() value_ints=[1, 24, 2, 8]
	wide = Constant() value_ints=[1, 24, 16]
	r = Softmax(x) axis=1
	f = Reshape(r, flat)
	g = Gemm(f, w, b)
	y = Reshape(g, three)
	q, k, v = Split(y) axis=2 num_outputs=3
	q4 = Reshape(q, heads)
	k4 = Reshape(k, heads)
	v4 = Reshape(v, heads)
	qh = Transpose(q4) perm=[0, 2, 1, 3]
	kh = Transpose(k4) perm=[0, 2, 3, 1]
	vh = Transpose(v4) perm=[0, 2, 1, 3]
	s = MatMul(qh, kh)
	p = Softmax(s) axis=3
	h = MatMul(p, vh)
	t = Transpose(h) perm=[0, 2, 1, 3]
	o = Reshape(t, wide)
	e = Add(r, o)
	z = Softmax(e) axis=1
	out z
`}

// growing is a decoder of one head whose caches grow with every token.
var growing = text{main: `
	in q float32[batch,1,4]
	in k float32[batch,1,4]
	in v float32[batch,1,4]
	in mask float32[1,1,total]
	in past_k float32[batch,total-1,4]
	in past_v float32[batch,total-1,4]
	present_k = Concat(past_k, k) axis=1
	present_v = Concat(past_v, v) axis=1
	t = Transpose(present_k) perm=[0, 2, 1]
	s = MatMul(q, t)
	m = Add(s, mask)
	w = Softmax(m) axis=2
	y = MatMul(w, present_v)
	out y
	out present_k
	out present_v
`}

// foldable has nodes that read only constants, in the main graph and in a body.
var foldable = text{
	main: `
		in p bool[]
		in x float32[4,8]
		init w float32[8,4] = ...
		init v float32[8,8] = ...
		t = Transpose(w)
		a = Add(x, t)
		u = Transpose(v)
		b = MatMul(a, u)
		r = If(p)
		out r
	`,
	bodies: map[string]string{
		"r.then_branch": "init k float32[8,4] = ...\ni = Transpose(k)\nj = Sub(b, i)\nout j",
		"r.else_branch": "l = Neg(b)\nout l",
	},
}

// classifier is the smallest network with something to train.
var classifier = text{main: `
	in x float32[batch,8]
	init w float32[8,4] = ...
	init b float32[4] = ...
	h = MatMul(x, w)
	y = Add(h, b)
	out y
`}

// tower keeps four tensors of 2 MiB for its backward half.
var tower = text{main: `
	in x float32[512,1024]
	a = Relu(x)
	b = Sigmoid(a)
	c = Tanh(b)
	d = Softmax(c)
	e = Exp(d)
	f = Mul(e, d)
	g = Mul(f, c)
	h = Mul(g, b)
	i = Mul(h, a)
	out i
`}

// planReal plans a model as the command does, and returns both files.
func planReal(t testing.TB, x text, opt passes.Options) (source, file []byte, p *plan.Plan) {
	t.Helper()
	m := x.build(t)
	source = m.Source.Bytes
	if opt.Workspaces != nil {
		opt.Workspaces.Model = plan.SourceOf(m)
	}
	found, err := passes.Optimize(t.Context(), m, opt)
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(found.Model)
	if err != nil {
		t.Fatal(err)
	}
	found.Plan.Model = plan.ImageOf("out.onnx", im)
	return source, encode(t, found.Model), found.Plan
}

// realCase returns the case of real with that name.
func realCase(t *testing.T, name string) (c struct {
	x   text
	opt passes.Options
},
) {
	t.Helper()
	for _, r := range real {
		if r.name == name {
			c.x, c.opt = r.x, r.opt
			return c
		}
	}
	t.Fatalf("no case %q", name)
	return c
}

// stillTrue are changes after which a checked field is still true. For example, a plan
// may place a buffer anywhere; verify only checks that nothing else lies there.
var stillTrue = []struct{ path, what, why string }{
	{"alignment", "^to", "a multiple of 64 is a multiple of 1, too"},
	{"sharing.views", "^to", "no tensors of the plan could share in this way, and the bound stays the same"},
	{"sharing.inplace", "^to", "the same"},
	{"sharing.aliases", "^added: true", "no tensors of the plan lie in parts of others, and the bound stays the same"},
	{"keeps_random_order", "^(to false|dropped)", "it says less"},
	{"keeps_random_order", "^added: true", "no node is random"},
	{"pools[]", "^exchanged", "the order of the list has no meaning"},
	{"buffers[]", "^exchanged", "the order of the list has no meaning"},
	{"subgraphs[].buffers[]", "^exchanged", "the order of the list has no meaning"},
	{"dynamic[]", "^exchanged", "the order of the list has no meaning"},
	{"subgraphs[].dynamic[]", "^exchanged", "the order of the list has no meaning"},
	{"ranges.stacking[]", "^exchanged", "two neighbours that never live together lie where they lay"},
	{"folded.tensors[]", "^exchanged", "the order of the list has no meaning"},
	{"slices.parts[]", "^exchanged", "both are of tensors that stand before them"},
	{"slices.weights[]", "^exchanged", "the order of the list has no meaning"},
	{"slices.regions[].inputs[]", "^exchanged", "the order of the list has no meaning"},
	{"slices.regions[].nodes[]", "^exchanged", "no node stands before one that it reads"},
	{"certificates[]", "^(twice|exchanged)", "each is a proof by itself"},
	{"buffers[].offset", "^to", "the plan may choose any free place"},
	{"subgraphs[].buffers[].offset", "^to", "the same"},
	{"certificates[].kind", "^to .first-of-set", "for a single node it says the same as a cut"},
	{"summary.limit_bytes", "^to", "the peak is below that"},
	{"summary.limit_arena", "^(to false|dropped)", "it says less"},
	{"summary.limit_arena", "^added: true", "the arena is below the limit"},
	{"summary.extra_cost_lower_bound_percent", "^to (0|null)", "it says nothing"},
	{"frontier", "^(dropped|to null)", "it says less"},
	{"ranges.accepted", "^(dropped|to null)", "it says less"},
	{"ranges.accepted.*", "^dropped", "it says less"},
	{"ranges.table", "^to null", "it says less"},
	{"ranges.table[]", "dropped", "the others are still true"},
	{"ranges.optimal_points", "^to", "it says less"},
	{"ranges.table[].lower_bound_bytes", "^to", "it says less"},
	{"ranges.smallest.lower_bound_bytes", "^to", "it says less"},
	{"ranges.worst.lower_bound_bytes", "^to", "it says less"},
	{"ranges.certificates[]", "^(twice|dropped|exchanged)", "each is a proof by itself"},
	{"ranges.certificates[].kind", "^to .first-of-set", "for a single node it says the same as a cut"},
	{"ranges.size_of[]", "^(to -1|exchanged)", "it says less, or the sizes are the same"},
	{"ranges.size_of[]", "^to [0-9]", "rounded up, the other polynomial gives the same sizes"},
	{"ranges.sizes[]", "^(twice|exchanged)", "the first ones keep their indices, or give the same sizes"},
	{"ranges.sizes[][]", "^(twice|exchanged)", "the order of terms has no meaning; rounded up, the sizes are the same"},
	{"ranges.sizes[][]", "^dropped", "rounded up, the sizes are the same"},
	{"ranges.sizes[][].factor", "^to", "rounded up, it gives the same sizes"},
	{"ranges.sizes[][].powers", "^(dropped|to null)", "rounded up, it gives the same sizes"},
	{"ranges.sizes[][].powers.*", "^dropped", "rounded up, it gives the same sizes"},
	{"subgraphs[].ranges.stacking[]", "^exchanged", "two neighbours that never live together lie where they lay"},
	{"subgraphs[].ranges.size_of[]", "^(to -1|exchanged)", "it says less, or the sizes are the same"},
	{"subgraphs[].ranges.certificates[]", "^(twice|all dropped|dropped|exchanged)", "each is a proof by itself"},
	{"subgraphs[].ranges.certificates[].kind", "^to", "for a single node the kinds say the same"},
	{"pools[].name", "^to", "no buffer lies in the pool, and the user names it"},
	{"pools[].capacity", "^to", "the buffers fit, and the bound stays the same"},
	{"pools[].bytes_per_second", "^(to|dropped)", "the user says it, and the order stays the same"},
	{"traffic_prices[]", "^dropped", "the others prove the same bound"},
	{"traffic_prices[].price", "^to", "they prove the same bound"},
	{"traffic_prices[].step", "^to", "they prove the same bound"},
	{"frontier[]", "^all dropped", "it says less"},
	{"attention", "^(dropped|to null)", "it says less: a source may have the operator by itself"},
	{"precision", "^(dropped|to null)", "it says less: a source may be in 16 bits by itself"},
}

// stillTruePairs are pairs of equal changes after which both fields are still true, while
// either alone is refused.
var stillTruePairs = []struct{ a, b, why string }{
	{"summary.slice_cost_percent", "summary.total_cost_percent", "the first is claimed, and the second follows from it"},
	{"slices.parts[].tensor", "slices.regions[].inputs[].tensor", "a part that is in no file may have any name that nothing else has"},
}

// dimension matches the names of dimensions and inputs in paths.
var dimension = regexp.MustCompile(`^(dims|values|ranges\.accepted|ranges\.smallest\.dims|ranges\.worst\.dims|ranges\.table\[\]\.dims|ranges\.sizes\[\]\[\]\.powers)\.[^.]+`)

// tampered counts what was changed in all plans so far.
type tampered struct {
	used  map[string]bool // the paths, and the entries of stillTrue
	tried map[string]int  // path and change, but for the numbers in it -> how often
}

// enough is how often one kind of change is tried, over all plans: the plans have most
// fields in common, and the checks of most fields are the same in all of them.
const enough = 40

// mayStayTrue has the paths of stillTrue, of which every change is tried.
var mayStayTrue = func() map[string]bool {
	paths := map[string]bool{}
	for _, x := range stillTrue {
		paths[x.path] = true
	}
	return paths
}()

var digits = regexp.MustCompile(`[0-9]+`)

// covers reports whether a name in Report.Claimed covers a path.
func covers(claim, path string) bool {
	path = strings.TrimPrefix(strings.ReplaceAll(path, "[]", ""), "summary.")
	return path == claim || strings.HasPrefix(path, claim+".")
}

// TestTampered changes every value of plans of every kind in every named way, one at a
// time, and some two at a time. Either verify finds the change, or it lists the field as
// claimed, or the plan is still true, for a reason given in stillTrue or stillTruePairs.
func TestTampered(t *testing.T) {
	tally := &tampered{map[string]bool{}, map[string]int{}}
	for _, c := range real {
		t.Run(c.name, func(t *testing.T) {
			source, file, p := planReal(t, c.x, c.opt)
			if c.has != nil && !c.has(p) {
				t.Fatalf("the plan lacks the feature that the case is about: %+v", p)
			}
			tamper(t, file, p, verify.Options{}, tally)
			if p.Mode == "inference" {
				tamper(t, file, p, verify.Options{Source: parse(t, source)}, tally)
			}
		})
	}
	t.Run("claims of a solver", func(t *testing.T) {
		_, file, p := planReal(t, text{main: `
			in x float32[1,128]
			init w float32[128,64] = ...
			init v float32[64,192] = ...
			y = MatMul(x, w)
			z = MatMul(y, v)
			out z
		`}, passes.Options{Placement: "greedy-in-order"})
		sum := &p.Summary
		if sum.ArenaBytes == sum.PeakBytes {
			t.Fatal("expected an arena above the peak")
		}
		sum.PlacementOptimal, sum.PlacementClaimedBy = true, "solver 1.0"
		p.Certificates = []plan.Certificate{{Kind: plan.CertificateSearch, Nodes: []string{}, ValueBytes: sum.PeakBytes, ClaimedBy: "solver 2.0"}}
		m := parse(t, file)
		r, err := verify.Plan(m, p, verify.Options{})
		if err != nil || !r.Valid || r.Schedule != "claimed by solver 2.0" || r.Placement != "claimed by solver 1.0" {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := verify.Plan(m, p, verify.Options{Replay: true}); err != nil || r.Schedule != "proven" {
			t.Errorf("replayed: %+v, %v", r, err)
		}
		tamper(t, file, p, verify.Options{}, tally)
	})
	for _, name := range []string{repeated, swapped} {
		t.Run(name, func(t *testing.T) {
			file, p := mutation{of: name}.base(t)
			tamper(t, file, p, verify.Options{}, tally)
		})
	}
	if !sweep.On() {
		return
	}
	for _, x := range stillTrue {
		if !tally.used[x.path+x.what] {
			t.Errorf("stillTrue: no change of %s occurred", x.path)
		}
	}
	for _, f := range planFields() {
		if f.scalar && !tally.used[f.path] {
			t.Errorf("%s was not changed: no plan has it", f.path)
		}
	}
}

// tamperer changes one plan.
type tamperer struct {
	t    *testing.T
	file []byte
	p    *plan.Plan
	m    *graph.Model
	opt  verify.Options
	root *value
	list []tampering

	tally    *tampered
	counts   map[string]int
	unlisted map[string][]string
	accepted []int // of list: changes after which the plan is valid
	b        bytes.Buffer
}

func tamper(t *testing.T, file []byte, p *plan.Plan, opt verify.Options, tally *tampered) {
	t.Helper()
	text, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	x := &tamperer{t: t, file: file, p: p, m: parse(t, file), opt: opt, root: readValue(t, d), tally: tally, counts: map[string]int{}, unlisted: map[string][]string{}}
	if r := x.verify(p, x.m); !r.Valid {
		t.Fatalf("valid before:\n%s", r)
	}
	for _, c := range x.root.tamperings("", nil) {
		if opt.Source == nil || slices.ContainsFunc([]string{"source", "program_order", "keeps", "folded", "slices"}, func(s string) bool { return strings.HasPrefix(c.path, s) }) {
			x.list = append(x.list, c) // the source determines it
		}
	}
	x.singles()
	x.pairs()
	t.Log(x.counts)
	for _, path := range sorted(x.unlisted) {
		t.Errorf("%s is not checked and not listed as claimed: %.300v", path, x.unlisted[path])
	}
}

func (x *tamperer) verify(p *plan.Plan, m *graph.Model) *verify.Report {
	r, err := verify.Plan(m, p, x.opt)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, claim := range r.Claimed {
		if !slices.Contains(verify.Claims, claim) {
			x.t.Errorf("claim %q is not in the list", claim)
		}
	}
	return r
}

// with reads the plan after some changes; nil: the reader refuses it.
func (x *tamperer) with(changes ...tampering) *plan.Plan {
	for _, c := range changes {
		c.do()
	}
	x.b.Reset()
	x.root.write(&x.b)
	for _, c := range slices.Backward(changes) {
		c.undo()
	}
	q, err := plan.Read(bytes.NewReader(x.b.Bytes()))
	if err != nil {
		return nil
	}
	return q
}

// explained reports whether a plan may be valid after a change: a report lists the field as
// claimed, or the plan is still true.
func (x *tamperer) explained(c tampering, r *verify.Report) (claimed, still bool) {
	if slices.ContainsFunc(r.Claimed, func(claim string) bool { return covers(claim, c.path) }) {
		return true, false
	}
	path := dimension.ReplaceAllString(c.path, "$1.*")
	for _, s := range stillTrue {
		if s.path == path && regexp.MustCompile(s.what).MatchString(c.what) {
			x.tally.used[s.path+s.what] = true
			still = true
		}
	}
	return false, still
}

// singles tries one change at a time.
func (x *tamperer) singles() {
	t := x.t
	for i, c := range x.list {
		if !sweep.On() && i%11 > 0 {
			continue // make sweeps tries all
		}
		path := dimension.ReplaceAllString(c.path, "$1.*")
		kind := fmt.Sprint(path, digits.ReplaceAllString(c.what, "0"), x.opt.Source != nil)
		if x.tally.tried[kind] >= enough && !mayStayTrue[path] {
			x.counts["like many before"]++
			continue
		}
		x.tally.tried[kind]++
		x.tally.used[path] = true
		x.counts["all"]++
		q := x.with(c)
		if q == nil {
			x.counts["refused by the reader"]++
			continue
		}
		r := x.verify(q, x.m)
		if !r.Valid {
			x.counts["not valid"]++
			continue
		}
		x.accepted = append(x.accepted, i)
		claimed, still := x.explained(c, r)
		if claimed {
			x.counts["claimed"]++
			continue
		}
		if cmp.Equal(x.p, q, cmpopts.EquateEmpty()) {
			x.counts["the same"]++
			continue
		}
		if again := x.verify(q, parse(t, x.file)); !again.Valid { // m was already inferred
			t.Errorf("%s %s: valid, but not for a freshly read model: %v", c.path, c.what, again)
		}
		if x.counts["still true"]++; !still {
			x.unlisted[c.path] = append(x.unlisted[c.path], c.what)
		}
	}
}

// pairs tries two changes at a time: of one value that stands in two places, to the same
// other value; of two numbers, by the same; of what may change alone, with anything else; and
// any two. The plan may be valid after both where each of them is explained by itself, or the
// pair is.
func (x *tamperer) pairs() {
	if len(x.list) == 0 {
		return
	}
	h := fnv.New64a()
	fmt.Fprint(h, x.t.Name(), x.opt.Source != nil)
	random := rand.New(rand.NewPCG(h.Sum64(), 11))
	alike := map[[2]string][]int{} // by the texts
	sums := map[int64][]int{}      // by what is added
	for i, c := range x.list {
		if c.old != "" {
			alike[[2]string{c.old, c.new}] = append(alike[[2]string{c.old, c.new}], i)
		}
		if by := c.by(); by != 0 {
			sums[by] = append(sums[by], i)
		}
	}
	most := 12
	if sweep.On() {
		most = 1500
	}
	readable := map[int]bool{}
	draw := func(from func() int) (i int) { // what the reader refuses alone, it refuses with another
		for range 8 {
			i = from()
			if _, known := readable[i]; !known {
				readable[i] = x.with(x.list[i]) != nil
			}
			if readable[i] {
				break
			}
		}
		return i
	}
	anyOf := func() int { return random.IntN(len(x.list)) }
	for k := range most {
		i, j := draw(anyOf), draw(anyOf)
		switch k % 5 {
		case 0, 1:
			if same := alike[[2]string{x.list[i].old, x.list[i].new}]; len(same) > 1 {
				j = draw(func() int { return same[random.IntN(len(same))] })
			}
		case 2:
			if same := sums[x.list[i].by()]; len(same) > 1 {
				j = draw(func() int { return same[random.IntN(len(same))] })
			}
		case 3:
			if len(x.accepted) > 0 {
				i = x.accepted[random.IntN(len(x.accepted))]
			}
		}
		if i == j {
			continue
		}
		a, b := x.list[i], x.list[j]
		x.counts["pairs"]++
		q := x.with(a, b)
		if q == nil {
			x.counts["pairs refused by the reader"]++
			continue
		}
		r := x.verify(q, x.m)
		if !r.Valid {
			x.counts["pairs not valid"]++
			continue
		}
		claimedA, trueA := x.explained(a, r)
		claimedB, trueB := x.explained(b, r)
		if (claimedA || trueA) && (claimedB || trueB) {
			x.counts["pairs claimed or still true"]++
			continue
		}
		if a.what == b.what && slices.ContainsFunc(stillTruePairs, func(s struct{ a, b, why string }) bool {
			return s.a == a.path && s.b == b.path || s.a == b.path && s.b == a.path
		}) {
			x.counts["pairs claimed or still true"]++
			continue
		}
		undone := false // one of them undoes the other, or has no effect beside it
		for _, other := range []*plan.Plan{x.p, x.with(a), x.with(b)} {
			undone = undone || other != nil && cmp.Equal(other, q, cmpopts.EquateEmpty())
		}
		if undone {
			x.counts["pairs of which one has no effect"]++
			continue
		}
		x.counts["pairs unexplained"]++
		x.unlisted[a.path+" and "+b.path] = append(x.unlisted[a.path+" and "+b.path], a.what+" and "+b.what)
	}
}
