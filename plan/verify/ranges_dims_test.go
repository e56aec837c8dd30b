package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// turned has two open dimensions. With one of length 1, all tensors share one buffer.
var turned = text{main: `
	in x float32[n,d,16]
	in s float32[n+1]
	a = Relu(x)
	b = Transpose(a) perm=[1, 0, 2]
	c = Relu(b)
	t = Relu(s)
	out c
	out t
`}

func refusedFor(t *testing.T, file []byte, p *plan.Plan, opt verify.Options, code, says string) {
	t.Helper()
	r, err := verify.Plan(parse(t, file), p, opt)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == code && strings.Contains(v.Message, says) }) {
		t.Errorf("expected a violation %s with %q, found\n%s", code, says, r)
	}
}

// TestLengthsThatFollow: a length that is given does not follow from others because the plan
// says so: the points would be inferred with length 1.
func TestLengthsThatFollow(t *testing.T) {
	_, file, p := planReal(t, turned, passes.Options{Ranges: map[string]string{"n": "2..4"}, Dims: map[string]int64{"d": 16}})
	if r, err := verify.Plan(parse(t, file), p, verify.Options{}); err != nil || !r.Valid || !p.Dims["n+1"].Follows {
		t.Fatalf("expected a valid plan in which n+1 follows, found %v, %v", r, err)
	}
	set := func(name string, follows bool) {
		d := p.Dims[name]
		d.Follows = follows
		p.Dims[name] = d
	}
	set("d", true)
	refusedFor(t, file, p, verify.Options{}, verify.CodeDims, `"d" does not follow from other dimensions`)
	refusedFor(t, file, p, verify.Options{SkipBounds: true}, verify.CodeDims, `"d" does not follow from other dimensions`)
}

// TestBoundedSizes: with bounded lengths, a polynomial that gives the size at the points of
// the table alone is refused, and one that gives it everywhere is proven, however it is
// written. A size that is a sum of lengths is claimed.
func TestBoundedSizes(t *testing.T) {
	x := text{main: `
		in x float32[n,m,8]
		in y float32[n,2,8]
		a = Relu(x)
		b = Softmax(a)
		c = Add(b, x)
		d = Concat(c, y) axis=1
		e = Relu(d)
		out e
	`}
	_, file, p := planReal(t, x, passes.Options{Ranges: map[string]string{"n": "1..8", "m": "3,7"}, RangePoints: 2})
	if p.Ranges.Proof != plan.ProofBounded {
		t.Fatalf("proof %s, expected one with bounded lengths", p.Ranges.Proof)
	}
	r, err := verify.Plan(parse(t, file), p, verify.Options{})
	if err != nil || !r.Valid {
		t.Fatalf("expected a valid plan, found %v, %v", r, err)
	}
	if !slices.Contains(r.Claimed, "ranges.sizes") {
		t.Errorf("claimed: %v, expected ranges.sizes: that of d is 32*n*(m+2)", r.Claimed)
	}
	p.Ranges.Table = p.Ranges.Table[len(p.Ranges.Table)-1:]
	p.Ranges.Inferred, p.Ranges.Smallest, p.Ranges.Worst = 1, p.Ranges.Table[0], p.Ranges.Table[0]
	p.Ranges.OptimalPoints = min(1, p.Ranges.OptimalPoints)
	at := slices.IndexFunc(p.Buffers, func(b plan.Buffer) bool { return slices.Contains(b.Tensors, "b") })
	size := p.Ranges.SizeOf[at]
	for _, c := range []struct {
		name string
		is   plan.Polynomial
		ok   bool
	}{
		{"its own", p.Ranges.Sizes[size], true},
		{"a cube that is right at the corner", plan.Polynomial{{Factor: 4 * 7, Powers: map[string]int{"n": 2}}}, false},
		{"in two terms", plan.Polynomial{{Factor: 30, Powers: map[string]int{"n": 1, "m": 1}}, {Factor: 2, Powers: map[string]int{"n": 1, "m": 1}}}, true},
		{"a square of a dimension with two lengths", plan.Polynomial{
			{Factor: 32, Powers: map[string]int{"n": 1, "m": 2}}, {Factor: -32 * 9, Powers: map[string]int{"n": 1, "m": 1}}, {Factor: 32 * 21, Powers: map[string]int{"n": 1}},
		}, true},
		{"a square that is right at one of them", plan.Polynomial{{Factor: 32, Powers: map[string]int{"n": 1, "m": 2}}, {Factor: -32 * 42, Powers: map[string]int{"n": 1}}}, false},
	} {
		own := p.Ranges.Sizes[size]
		p.Ranges.Sizes[size] = c.is
		if c.ok {
			if r, err := verify.Plan(parse(t, file), p, verify.Options{}); err != nil || !r.Valid {
				t.Errorf("%s: expected a valid plan, found %v, %v", c.name, r, err)
			}
		} else {
			refusedFor(t, file, p, verify.Options{}, verify.CodeRange, `expected the size of tensor`)
		}
		p.Ranges.Sizes[size] = own
	}
}
