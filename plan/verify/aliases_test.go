package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// bufferWith returns the index of the buffer that lists a tensor.
func bufferWith(t testing.TB, p *plan.Plan, tensor string) int {
	t.Helper()
	k := slices.IndexFunc(p.Buffers, func(b plan.Buffer) bool { return slices.Contains(b.Tensors, tensor) })
	if k < 0 {
		t.Fatalf("no buffer of %q", tensor)
	}
	return k
}

// dropBuffer removes a buffer that is in no span.
func dropBuffer(p *plan.Plan, k int) {
	p.Buffers = slices.Delete(p.Buffers, k, k+1)
	for _, s := range p.Spans {
		for i := range s.Buffers {
			if s.Buffers[i] > k {
				s.Buffers[i]--
			}
		}
	}
}

func spanWith(t testing.TB, p *plan.Plan, tensor string) *plan.Span {
	t.Helper()
	k := slices.IndexFunc(p.Spans, func(s plan.Span) bool { return slices.Contains(s.Tensors, tensor) })
	if k < 0 {
		t.Fatalf("no span of %q", tensor)
	}
	return &p.Spans[k]
}

// TestWrongAliases: a plan whose tensors do not lie where the bytes of their operands are,
// or that frees or overwrites bytes too early, is not valid.
func TestWrongAliases(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, p *plan.Plan)
		code   string // "": the plan is valid
		says   string
	}{
		{"no change", func(*testing.T, *plan.Plan) {}, "", ""},
		{"the operands of a Concat exchanged", func(t *testing.T, p *plan.Plan) {
			b, c := &p.Buffers[bufferWith(t, p, "b")], &p.Buffers[bufferWith(t, p, "c")]
			b.Offset, c.Offset = c.Offset, b.Offset
			slices.Reverse(spanWith(t, p, "cat").Buffers)
		}, verify.CodeInplace, `"make cat" (Concat) may not write it there`},
		{"the buffers of a span in another order", func(t *testing.T, p *plan.Plan) {
			slices.Reverse(spanWith(t, p, "cat").Buffers)
		}, verify.CodeAlias, "right behind"},
		{"a part elsewhere", func(t *testing.T, p *plan.Plan) {
			p.Buffers[bufferWith(t, p, "c")].Offset = p.Summary.ArenaBytes
		}, verify.CodeAlias, "right behind"},
		{"a part that dies before the whole is read", func(t *testing.T, p *plan.Plan) {
			p.Buffers[bufferWith(t, p, "b")].Last--
		}, verify.CodeLifetime, `buffer "b"`},
		{"a whole that is shorter", func(t *testing.T, p *plan.Plan) {
			s := spanWith(t, p, "m")
			s.Buffers = s.Buffers[:1]
		}, verify.CodeAlias, "two or more"},
		{"a whole that is larger", func(t *testing.T, p *plan.Plan) {
			s := spanWith(t, p, "m")
			p.Buffers[s.Buffers[len(s.Buffers)-1]].Bytes += 64
		}, verify.CodeSize, `"m"`},
		{"a whole that is listed as a buffer, too", func(t *testing.T, p *plan.Plan) {
			b := &p.Buffers[bufferWith(t, p, "b")]
			b.Tensors = append(b.Tensors, "cat")
		}, verify.CodeDuplicate, `tensor "cat"`},
		{"a whole without its view", func(t *testing.T, p *plan.Plan) {
			s := spanWith(t, p, "cat")
			s.Tensors = s.Tensors[:1]
		}, verify.CodeView, `"same" is a view of "cat"`},
		{"a view that lies in a buffer", func(t *testing.T, p *plan.Plan) {
			s := spanWith(t, p, "cat")
			s.Tensors = s.Tensors[:1]
			b := &p.Buffers[bufferWith(t, p, "b")]
			b.Tensors = append(b.Tensors, "same")
		}, verify.CodeView, ""},
		{"a slice of other rows", func(t *testing.T, p *plan.Plan) {
			s := spanWith(t, p, "m")
			from, to := &p.Buffers[bufferWith(t, p, "r")], &p.Buffers[s.Buffers[0]]
			from.Tensors, to.Tensors = to.Tensors, from.Tensors
		}, verify.CodeInplace, ""},
		{"a result over a part that another reads later", func(t *testing.T, p *plan.Plan) {
			k := bufferWith(t, p, "p")
			y := slices.IndexFunc(p.Buffers, func(b plan.Buffer) bool { return b.Tensors[0] == "y" })
			p.Buffers[k].Tensors = append(p.Buffers[k].Tensors, "y")
			dropBuffer(p, y)
		}, verify.CodeInplace, ""},
		{"aliases that the plan denies", func(_ *testing.T, p *plan.Plan) { p.Sharing.Aliases = false }, verify.CodeAlias, "spans"},
		{"a bound that holds only without aliases", func(t *testing.T, p *plan.Plan) {
			p.Certificates[0].ValueBytes += 64
			p.Summary.LowerBoundBytes += 64
		}, verify.CodeCertificate, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := joined.build(t)
			r, err := passes.Optimize(t.Context(), m, passes.Options{Aliases: passes.AliasesOn})
			if err != nil {
				t.Fatal(err)
			}
			c.change(t, r.Plan)
			rep, err := verify.Plan(r.Model, r.Plan, verify.Options{SkipAnnotations: true})
			if err != nil {
				t.Fatal(err)
			}
			if c.code == "" {
				if !rep.Valid {
					t.Errorf("not valid: %s", rep)
				}
				return
			}
			if !slices.ContainsFunc(rep.Violations, func(v verify.Violation) bool { return v.Code == c.code && strings.Contains(v.Message, c.says) }) {
				t.Errorf("expected a violation %s with %q, found\n%s", c.code, c.says, rep)
			}
		})
	}
}

// twice reads the same rows of x as two tensors: writing the result over one of them would
// change the other before it is read.
var twice = text{main: `
	in x float32[1,4,16]
	in i int64[1,2,16]
	init w float32[16,16] = ...
	from = Constant() value_ints=[0, 0]
	to = Constant() value_ints=[1, 2]
	axis = Constant() value_ints=[0, 1]
	m = MatMul(x, w)
	a = Slice(m, from, to, axis)
	b = Slice(m, from, to, axis)
	y = ScatterElements(a, i, b) axis=1
	out y
`}

// TestNoResultOverBytesReadTwice: of two tensors with the same bytes, a node that may write
// over one still needs the other.
func TestNoResultOverBytesReadTwice(t *testing.T) {
	m := twice.build(t)
	r, err := passes.Optimize(t.Context(), m, passes.Options{Aliases: passes.AliasesOn})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Plan
	rep, err := verify.Plan(r.Model, p, verify.Options{SkipAnnotations: true})
	if err != nil || !rep.Valid {
		t.Fatalf("%v\n%s", err, rep)
	}
	if k := bufferWith(t, p, "y"); slices.Contains(p.Buffers[k].Tensors, "a") {
		if slices.Contains(p.Buffers[k].Tensors, "b") {
			t.Fatal("y lies over a and b")
		}
	}
	k, y := bufferWith(t, p, "a"), bufferWith(t, p, "y")
	if !slices.Contains(p.Buffers[k].Tensors, "b") {
		t.Skip("the slices do not share bytes in the best plan")
	}
	p.Buffers[k].Tensors = append(p.Buffers[k].Tensors, "y")
	p.Buffers[k].Last = p.Buffers[y].Last
	dropBuffer(p, y)
	if rep, err = verify.Plan(r.Model, p, verify.Options{SkipAnnotations: true}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(rep.Violations, func(v verify.Violation) bool {
		return v.Code == verify.CodeInplace && strings.Contains(v.Message, "parts of 2 tensors")
	}) {
		t.Errorf("expected a violation, found\n%s", rep)
	}
}

// halves joins the same 32 bytes with others, twice: each result has its own bytes behind
// them, within the same multiple of the alignment.
var halves = text{main: `
	in x float32[1,1,8]
	in y float32[1,1,8]
	in z float32[1,1,8]
	init w float32[8,8] = ...
	h = MatMul(x, w)
	a = Concat(h, y) axis=1
	b = Concat(h, z) axis=1
	c = MatMul(a, w)
	d = MatMul(b, w)
	e = Add(c, d)
	out e
`}

// TestNoTwoResultsOverOneOperand: what two nodes write behind an operand whose size is no
// multiple of the alignment is not the same.
func TestNoTwoResultsOverOneOperand(t *testing.T) {
	m := halves.build(t)
	r, err := passes.Optimize(t.Context(), m, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Plan
	p.Sharing.Aliases = true
	for _, name := range []string{"a", "b"} {
		k := bufferWith(t, p, name)
		h := &p.Buffers[bufferWith(t, p, "h")]
		h.Tensors, h.Last = append(h.Tensors, name), max(h.Last, p.Buffers[k].Last)
		dropBuffer(p, k)
	}
	rep, err := verify.Plan(r.Model, p, verify.Options{SkipAnnotations: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if !slices.ContainsFunc(rep.Violations, func(v verify.Violation) bool {
			return v.Code == verify.CodeInplace && strings.Contains(v.Message, fmt.Sprintf(`"make %s" (Concat) may not write it there`, name))
		}) {
			t.Errorf("expected a violation for %s, found\n%s", name, rep)
		}
	}
}
