package attend_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/attend"
)

const plain = `
	in q float32[2,3,4,8]
	in k float32[2,3,5,8]
	in v float32[2,3,5,6]
	kt = Transpose(k) perm=[0,1,3,2]
`

const end = `
	y = MatMul(p, v)
	out y
`

// forms are ways to spell attention out, as exporters do.
var forms = []struct {
	name  string
	graph string
	call  string // the node that stands for it, without the name; "": there is none
	kept  string // the reason
	opset int    // 0: 23
}{
	{name: "a scale behind the product", call: "Attention(q, k, v) scale=0.25", graph: plain + `
		init c float32[] = 0.25
		t = MatMul(q, kt)
		s = Mul(t, c)
		p = Softmax(s)` + end},
	{name: "a quotient, and an added mask of its own type", call: "Attention(q, k, v, m) scale=0.5", graph: plain + `
		in m float32[2,1,4,5]
		init c float32[] = 2.0
		t = MatMul(q, kt)
		d = Div(t, c)
		s = Add(d, m)
		p = Softmax(s) axis=3` + end},
	{name: "PyTorch: the root of the scale on both sides, and NaN replaced", call: "Attention(q, k, v, keep) scale=0.25", graph: plain + `
		in keep bool[2,1,4,5]
		init zero float32[] = 0.0
		init low float32[] = -inf
		init c float32[] = 0.5
		init three int64[3] = [-1, 5, 8]
		init four int64[4] = [2, 3, 8, 5]
		k3 = Reshape(k, three)
		t3 = Transpose(k3) perm=[0,2,1]
		t4 = Reshape(t3, four)
		qs = Mul(q, c)
		ks = Mul(t4, c)
		m = Where(keep, zero, low)
		t = MatMul(qs, ks)
		s = Add(t, m)
		w = Softmax(s) axis=-1
		n = IsNaN(w)
		p = Where(n, zero, w)` + end},
	{name: "Keras: Einsums, keys on the left, and a result with the heads behind the queries", call: "Attention(t.turned, t.turned_.turned, y.turned) scale=1.0", graph: `
		in x float32[2,4,3,8]
		in k float32[2,5,3,8]
		in v float32[2,5,3,6]
		init c float32[] = 0.25
		s = Mul(x, c)
		t = Einsum(k, s) equation="aecd, abcd->acbe"
		p = Softmax(t)
		y = Einsum(p, v) equation="acbe,aecd->abcd"
		out y`},
	{name: "an Einsum that sums two axes is no product", kept: "their scores are made in a form that is not known", graph: `
		in q float32[2,3,4,8]
		in k float32[2,3,5,8]
		in v float32[2,3,5,6]
		t = Einsum(q, k) equation="abqd,acks->abqk"
		p = Softmax(t)` + end},
	{name: "an Einsum that repeats the numbers of a query", kept: "their scores are made in a form that is not known", graph: `
		in q float32[1,2,64,1]
		in k float32[1,2,64,8]
		in v float32[1,2,64,8]
		t = Einsum(q, k) equation="abqd,abkd->abqk"
		p = Softmax(t)
		y = Einsum(p, v) equation="abqk,abkd->abqd"
		out y`},
	{name: "an Einsum that repeats one value", graph: `
		in q float32[1,2,64,8]
		in k float32[1,2,64,8]
		in v float32[1,2,1,8]
		t = Einsum(q, k) equation="abqd,abkd->abqk"
		p = Softmax(t)
		y = Einsum(p, v) equation="abqk,abkd->abqd"
		out y`},
	{name: "an Einsum that repeats the one head of queries", kept: "queries, keys and values have not three or four axes", graph: `
		in q float32[1,1,6,8]
		in k float32[1,2,5,8]
		in v float32[1,2,5,8]
		t = Einsum(q, k) equation="abqd,abkd->abqk"
		p = Softmax(t)
		y = Einsum(p, v) equation="abqk,abkd->abqd"
		out y`},
	{name: "scores replaced by -Inf where they are hidden", call: "Attention(q, k, v, hide.seen) scale=1.0", graph: plain + `
		in hide bool[4,5]
		init low float32[1] = [-inf]
		t = MatMul(q, kt)
		s = Where(hide, low, t)
		p = Softmax(s)` + end},
	{name: "scores replaced by a low number: a row without keys has equal weights", call: "Attention(q, k, v, keep.mask) scale=1.0", graph: plain + `
		in keep bool[4,5]
		init low float32[1] = [-1000000000.0]
		t = MatMul(q, kt)
		s = Where(keep, t, low)
		p = Softmax(s)` + end},
	{name: "two masks", call: "Attention(q, k, v, m.mask) scale=1.0", graph: plain + `
		in b float32[1,3,4,5]
		in m float32[2,1,1,5]
		t = MatMul(q, kt)
		u = Add(b, t)
		s = Add(u, m)
		p = Softmax(s)
		` + end},
	{name: "a Dropout, and an Identity", call: "Attention(q, k, v) scale=1.0", graph: plain + `
		t = MatMul(q, kt)
		w = Softmax(t)
		d = Dropout(w)
		p = Identity(d)` + end},
	{name: "heads beside the batch", call: "Attention(q.heads, k.heads, v.heads) scale=1.0", graph: `
		in q float32[6,4,8]
		in k float32[6,5,8]
		in v float32[6,5,6]
		kt = Transpose(k) perm=[0,2,1]
		t = MatMul(q, kt)
		p = Softmax(t)` + end},
	{name: "heads beside the batch, and scores with an axis of heads where the mask is added", call: "Attention(q, k, v.heads, m) scale=1.0", graph: `
		in q float32[2,3,4,8]
		in k float32[2,3,5,8]
		in v float32[6,5,6]
		in m float32[2,1,4,5]
		init rows int64[3] = [6, -1, 8]
		init four int64[4] = [2, 3, 4, 5]
		init three int64[3] = [6, 4, 5]
		q3 = Reshape(q, rows)
		k3 = Reshape(k, rows)
		kt = Transpose(k3) perm=[0,2,1]
		t = MatMul(q3, kt)
		t4 = Reshape(t, four)
		s = Add(t4, m)
		w = Softmax(s)
		p = Reshape(w, three)` + end},
	{name: "Llama: heads that share keys", call: "Attention(q, k, v) scale=1.0", graph: `
		in q float32[2,6,4,8]
		in k float32[2,3,5,8]
		in v float32[2,3,5,6]
		init two int64[1] = [2]
		init five int64[5] = [2, 3, 2, 5, 8]
		init five_v int64[5] = [2, 3, 2, 5, 6]
		init four int64[4] = [2, 6, 5, 8]
		init four_v int64[4] = [2, 6, 5, 6]
		k1 = Unsqueeze(k, two)
		k2 = Expand(k1, five)
		k4 = Reshape(k2, four)
		v1 = Unsqueeze(v, two)
		v2 = Expand(v1, five_v)
		v4 = Reshape(v2, four_v)
		kt = Transpose(k4) perm=[0,1,3,2]
		t = MatMul(q, kt)
		p = Softmax(t)
		y = MatMul(p, v4)
		out y`},
	{name: "one head of keys for all of queries", call: "Attention(q, k, v) scale=1.0", graph: `
		in q float32[2,6,4,8]
		in k float32[2,1,5,8]
		in v float32[2,1,5,6]
		kt = Transpose(k) perm=[0,1,3,2]
		t = MatMul(q, kt)
		p = Softmax(t)` + end},
	{name: "keys that were transposed from [batch, keys, heads, size] at once", call: "Attention(q, kt.turned, v) scale=1.0", graph: `
		in q float32[2,3,4,8]
		in k float32[2,5,3,8]
		in v float32[2,3,5,6]
		kt = Transpose(k) perm=[0,2,3,1]
		t = MatMul(q, kt)
		p = Softmax(t)` + end},
	{name: "scores of 16 bits in float32", call: "Attention(q, k, v) scale=1.0 softmax_precision=1", graph: `
		in q float16[2,3,4,8]
		in k float16[2,3,5,8]
		in v float16[2,3,5,6]
		kt = Transpose(k) perm=[0,1,3,2]
		t = MatMul(q, kt)
		s = Cast(t) to=1
		w = Softmax(s)
		p = Cast(w) to=10` + end},
	{name: "a scale that is not known", call: "Attention(q.scaled, k, v) scale=1.0", graph: plain + `
		in c float32[]
		t = MatMul(q, kt)
		s = Div(t, c)
		p = Softmax(s)` + end},
	{name: "a scale behind the mask", kept: "their scores are scaled behind the mask", graph: plain + `
		in m float32[4,5]
		init c float32[] = 0.25
		t = MatMul(q, kt)
		u = Add(t, m)
		s = Mul(u, c)
		p = Softmax(s)` + end},
	{name: "weights that are an output", graph: plain + `
		t = MatMul(q, kt)
		p = Softmax(t)
		y = MatMul(p, v)
		out y
		out p`},
	{name: "scores that are an output", kept: "their scores or weights are read elsewhere, too", graph: plain + `
		t = MatMul(q, kt)
		p = Softmax(t)
		y = MatMul(p, v)
		out y
		out t`},
	{name: "a mask of one number for each query", kept: "a mask has other axes than scores", graph: plain + `
		in m float32[4,1]
		t = MatMul(q, kt)
		s = Add(t, m)
		p = Softmax(s)` + end},
	{name: "scores that are no product", kept: "their scores are made in a form that is not known", graph: plain + `
		in m float32[2,3,4,5]
		t = MatMul(q, kt)
		u = Tanh(t)
		s = Add(u, m)
		p = Softmax(s)` + end},
	{name: "a number beside another mask, which leaves scores", kept: "a mask beside others replaces scores by a number that leaves some", graph: plain + `
		in m float32[2,1,4,5]
		in keep bool[2,1,4,5]
		init low float32[] = -10000.0
		t = MatMul(q, kt)
		u = Where(keep, t, low)
		s = Add(u, m)
		p = Softmax(s)` + end},
	{name: "a sum of itself, again and again", kept: "their scores are made in a form that is not known", graph: plain + `
		x0 = MatMul(q, kt)
		y0 = Tanh(x0)
		` + doubled("y", 50) + `
		p = Softmax(y50)` + end},
	{name: "a Softmax along another axis", graph: plain + `
		t = MatMul(q, kt)
		p = Softmax(t) axis=2` + end},
}

// doubled is lines in which name0 is added to itself, and the sum to itself, n times.
func doubled(name string, n int) string {
	var b strings.Builder
	for k := range n {
		fmt.Fprintf(&b, "%s%d = Add(%[1]s%[3]d, %[1]s%[3]d)\n\t\t", name, k+1, k)
	}
	return b.String()
}

// TestForms: each form becomes the node that is expected, or stays, and the graph computes the same.
func TestForms(t *testing.T) {
	for _, c := range forms {
		t.Run(c.name, func(t *testing.T) {
			parse := func() *graph.Model {
				m, err := graph.Parse("m", fmt.Sprintf("ir 11\nopset 23\ngraph g\n%s", c.graph))
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			m := parse()
			found, err := ops.Infer(m, ops.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, report, err := attend.Rewrite(m, found.Values)
			if err != nil {
				t.Fatal(err)
			}
			if kept := strings.Join(report.Reasons(), "; "); kept != c.kept {
				t.Errorf("kept: got %q, want %q", kept, c.kept)
			}
			if (c.call != "") != (len(report.Tensors) == 1) {
				t.Fatalf("found %q, want %q", report.Tensors, c.call)
			}
			var printed strings.Builder
			if err := graph.Print(&printed, got, graph.PrintOptions{}); err != nil {
				t.Fatal(err)
			}
			text := printed.String()
			if c.call != "" && !strings.Contains(text, " = "+c.call) {
				t.Errorf("want a node %s in\n%s", c.call, text)
			}
			if left := strings.Count(text, "Softmax("); left != map[bool]int{true: 0, false: 1}[c.call != ""] {
				t.Errorf("%d nodes Softmax in\n%s", left, text)
			}
			if _, err := ops.Infer(got, ops.Options{}); err != nil {
				t.Fatal(err)
			}
			alike(t, parse(), got)
		})
	}
}

// alike fails unless both models compute the same outputs up to rounding, by the plain evaluator.
func alike(t *testing.T, a, b *graph.Model) {
	t.Helper()
	feeds := map[string]*reference.Tensor{}
	for k, id := range a.Graph.Inputs {
		in := a.Graph.Tensors[id]
		x := &reference.Tensor{Type: in.Declared.Type.Elem}
		n := 1
		for _, d := range in.Declared.Type.Shape {
			x.Shape, n = append(x.Shape, int(d)), n*int(d)
		}
		for i := range n {
			v := float64((i*7919+k*31)%13) / 8
			if x.Type == graph.Bool {
				x.I = append(x.I, int64((i*7+k)%3&1))
				if i < x.Shape[len(x.Shape)-1] {
					x.I[i] = 0 // a query that sees no key, or all
				}
				continue
			}
			x.F = append(x.F, v-0.75)
		}
		feeds[in.Name] = x
	}
	x, err := reference.Eval(a, feeds)
	if err != nil {
		t.Fatal(err)
	}
	y, err := reference.Eval(b, feeds)
	if err != nil {
		t.Fatal(err)
	}
	for name := range x {
		for i, v := range x[name].F {
			if w := y[name].F[i]; !(math.Abs(v-w) <= 2e-3) {
				t.Fatalf("%s[%d]: %v, with Attention %v", name, i, v, w)
			}
		}
	}
}
