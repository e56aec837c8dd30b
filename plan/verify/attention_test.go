package verify_test

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// spelledOut is attention as exporters write it: heads that share keys, a scale on both sides, a mask of
// bools, NaN that become 0. What stands in brackets is what a source may have otherwise.
const spelledOut = `
	in x float32[2,4,6,8]
	in z float32[2,4,6,8]
	in k float32[2,2,6,8]
	in v float32[2,2,6,8]
	in u float32[2,2,6,8]
	in keep bool[2,1,6,6]
	in other bool[2,1,6,6]
	in bias float32[1,4,6,6]
	init c float32[] = [0.5]
	init d float32[] = 0.5
	init zero float32[] = [0.0]
	init low float32[] = [-inf]
	init two int64[1] = [2]
	init [five int64[5] = [2, 2, 2, 6, 8]]
	init four int64[4] = [2, 4, 6, 8]
	k1 = Unsqueeze(k, two)
	k2 = [Expand(k1, five)]
	k4 = Reshape(k2, four)
	v1 = Unsqueeze([v], two)
	v2 = Expand(v1, five)
	v4 = Reshape(v2, four)
	kt = Transpose(k4) perm=[[0, 1, 3, 2]]
	qs = Mul([x], c)
	ks = Mul(kt, d)
	t = MatMul(qs, ks)
	a = Add(t, bias)
	s = [Where(keep, a, low)]
	w = Softmax(s) axis=[-1]
	n = IsNaN(w)
	p = Where(n, zero, w)
	y = MatMul(p, v4)
	r = Relu(y)
	out r`

// TestAttentionFromAnotherSource: a plan in which one node computes attention is valid with the source
// that spells it out, and refused with one that spells another.
func TestAttentionFromAnotherSource(t *testing.T) {
	build := func(from, to string) text {
		x := spelledOut
		if from != "" {
			if x = strings.Replace(x, "["+from+"]", to, 1); x == spelledOut {
				t.Fatalf("%q is not in the text", from)
			}
		}
		for _, s := range []string{"0.5", "0.0", "-inf", "five int64[5] = [2, 2, 2, 6, 8]", "Expand(k1, five)", "v", "[0, 1, 3, 2]", "x", "Where(keep, a, low)", "-1"} {
			x = strings.Replace(x, "["+s+"]", s, 1)
		}
		return text{main: x, opset: 20}
	}
	source := build("", "").build(t)
	r, err := passes.Optimize(t.Context(), source, passes.Options{Attention: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Plan.Attention) != 1 || r.Plan.Attention[0] != "y" {
		t.Fatalf("attention: %q, want y", r.Plan.Attention)
	}
	file := encode(t, r.Model)
	check := func(x text) *verify.Report {
		t.Helper()
		other := parse(t, encode(t, x.build(t)))
		p := clone(t, r.Plan)
		p.Source = plan.SourceOf(other)
		p.Model = plan.SourceOf(parse(t, file))
		report, err := verify.Plan(parse(t, file), p, verify.Options{Source: other})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if report := check(build("", "")); !report.Valid || !strings.Contains(report.Attention, "spells out 1 attention") {
		t.Fatalf("%v: %s", report, report.Attention)
	}
	for _, c := range []struct{ what, from, to string }{
		{"another scale", "0.5", "0.25"},
		{"what is no number becomes 1", "0.0", "1.0"},
		{"a number that hides nothing", "-inf", "-1.0"},
		{"other queries", "x", "z"},
		{"other values", "v", "u"},
		{"keys in another order", "[0, 1, 3, 2]", "[1, 0, 3, 2]"},
		{"heads in another order", "Expand(k1, five)", "Concat(k1, k1) axis=1"},
		{"another mask", "Where(keep, a, low)", "Where(other, a, low)"},
		{"what is seen is hidden", "Where(keep, a, low)", "Where(keep, low, a)"},
		{"no mask", "Where(keep, a, low)", "Identity(a)"},
		{"a Softmax along another axis", "-1", "2"},
	} {
		if report := check(build(c.from, c.to)); report.Valid {
			t.Errorf("%s: valid", c.what)
		} else if code := report.Violations[0].Code; code != verify.CodeTraining {
			t.Errorf("%s: %v", c.what, report.Violations[0])
		}
	}
}

// TestEinsumsFromAnotherSource: products that are an Einsum are compared letter by letter.
func TestEinsumsFromAnotherSource(t *testing.T) {
	build := func(scores, values string) text {
		return text{main: `
			in q float32[2,3,4,4]
			in k float32[2,3,4,4]
			in v float32[2,3,4,4]
			t = Einsum(k, q) equation="` + scores + `"
			p = Softmax(t) axis=-1
			y = Einsum(p, v) equation="` + values + `"
			r = Relu(y)
			out r`, opset: 20}
	}
	const scores, values = "aecd,abcd->acbe", "acbe,aecd->abcd"
	r, err := passes.Optimize(t.Context(), build(scores, values).build(t), passes.Options{Attention: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Plan.Attention) != 1 || r.Plan.Attention[0] != "y" {
		t.Fatalf("attention: %q, want y", r.Plan.Attention)
	}
	file := encode(t, r.Model)
	for _, c := range []struct {
		what, scores, values string
		valid                bool
	}{
		{"the same", scores, values, true},
		{"other letters", "xbyz,xayz->xyab", "acbe,aecd->abcd", true},
		{"keys on the other side", "abcd,aecd->acbe", values, false},
		{"a sum along another axis", "aecd,abdc->acbe", values, false},
		{"a result with other axes", scores, "acbe,aecd->acbd", false},
		{"values with other axes", scores, "acbe,adce->abcd", false},
	} {
		other := parse(t, encode(t, build(c.scores, c.values).build(t)))
		p := clone(t, r.Plan)
		p.Source = plan.SourceOf(other)
		p.Model = plan.SourceOf(parse(t, file))
		report, err := verify.Plan(parse(t, file), p, verify.Options{Source: other})
		if err != nil {
			t.Logf("%s: %v", c.what, err)
			if c.valid {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		if report.Valid != c.valid {
			t.Errorf("%s: valid %t, %v", c.what, report.Valid, report)
		}
	}
}

// sharedStep is attention in which two heads of queries share one of keys and values. What stands in
// brackets is what a source may have otherwise.
const sharedStep = `
	in a float32[2,6,32]
	init wq float32[32,32] = 0.25
	init wk float32[32,16] = 0.5
	init wv float32[32,16] = 0.5
	init c float32[] = [0.25]
	init z float32[] = [2.0]
	init two int64[1] = [2]
	init hq int64[4] = [2, 6, 4, 8]
	init hk int64[4] = [2, 6, 2, 8]
	init five int64[5] = [2, 2, 2, 6, 8]
	init four int64[4] = [2, 4, 6, 8]
	mq = MatMul(a, wq)
	mk = MatMul(a, wk)
	mv = MatMul(a, wv)
	rq = Reshape(mq, hq)
	rk = Reshape(mk, hk)
	rv = Reshape(mv, hk)
	q = Transpose(rq) perm=[0, 2, 1, 3]
	k = Transpose(rk) perm=[0, 2, 1, 3]
	v = Transpose(rv) perm=[0, 2, 1, 3]
	kz = Mul(k, z)
	k1 = Unsqueeze(kz, two)
	k2 = [Expand(k1, five)]
	k4 = Reshape(k2, four)
	v1 = Unsqueeze([v], two)
	v2 = Expand(v1, five)
	v4 = Reshape(v2, four)
	kt = Transpose(k4) perm=[[0, 1, 3, 2]]
	ks = Mul(kt, c)
	t = MatMul(q, ks)
	s = [Mul(t, c)]
	w = Softmax(s) axis=-1
	y = MatMul(w, v4)
	out y`

// TestSharedHeadsFromAnotherSource: a step whose attention has keys and values once for several heads is
// valid with the source that repeats them, and refused with one that repeats others, also where the step
// multiplies the keys by 0, or the source by Inf.
func TestSharedHeadsFromAnotherSource(t *testing.T) {
	type change = struct{ what, from, to string }
	scales := []change{
		{"another scale", "0.25", "0.5"},
		{"another scale of keys", "2.0", "5.0"},
		{"keys times Inf", "2.0", "inf"},
		{"scores divided by 0", "Mul(t, c)", "Div(t, z)"},
	}
	sharedHeads(t, "2.0", append(scales[:3:3],
		change{"heads in another order", "Expand(k1, five)", "Concat(k1, k1) axis=1"},
		change{"other values", "v", "k"},
		change{"keys that are not turned", "[0, 1, 3, 2]", "[1, 0, 3, 2]"}))
	sharedHeads(t, "0.0", scales[1:]) // all scales of 0 are one
}

// sharedHeads checks the step of keys that are multiplied by a number with its source and with changed ones.
func sharedHeads(t *testing.T, keys string, changes []struct{ what, from, to string }) {
	t.Helper()
	build := func(from, to string) text {
		x := sharedStep
		if from != "" {
			if x = strings.Replace(x, "["+from+"]", to, 1); x == sharedStep {
				t.Fatalf("%q is not in the text", from)
			}
		}
		x = strings.Replace(x, "[2.0]", keys, 1)
		for _, s := range []string{"0.25", "Expand(k1, five)", "v", "[0, 1, 3, 2]", "Mul(t, c)"} {
			x = strings.Replace(x, "["+s+"]", s, 1)
		}
		return text{main: x, opset: 20}
	}
	r, err := passes.Optimize(t.Context(), build("", "").build(t), passes.Options{Train: &autodiff.Options{Loss: "mse", Attention: true}})
	if err != nil {
		t.Fatal(err)
	}
	file := encode(t, r.Model)
	check := func(x text) *verify.Report {
		t.Helper()
		other := parse(t, encode(t, x.build(t)))
		p := clone(t, r.Plan)
		p.Source = plan.SourceOf(other)
		p.Model = plan.SourceOf(parse(t, file))
		report, err := verify.Plan(parse(t, file), p, verify.Options{Source: other})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if report := check(build("", "")); !report.Valid {
		t.Fatal(report.Violations[0])
	}
	for _, c := range changes {
		if report := check(build(c.from, c.to)); report.Valid {
			t.Errorf("keys times %s: %s: valid", keys, c.what)
		} else if code := report.Violations[0].Code; code != verify.CodeTraining {
			t.Errorf("keys times %s: %s: %v", keys, c.what, report.Violations[0])
		}
	}
}
