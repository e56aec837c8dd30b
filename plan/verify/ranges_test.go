package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// ranged has a dimension that follows from another one, lengths that it refuses, and a
// view and an in-place result at some lengths alone.
var ranged = text{main: `
	in x float32[batch,time,8]
	in y float32[time]
	in z float32[time+1,4]
	in u float32[other]
	pairs = Constant() value_ints=[-1, 2]
	a = Relu(x)
	b = Transpose(a) perm=[1, 0, 2]
	c = Relu(b)
	p = Reshape(y, pairs)
	q = Relu(p)
	r = ReduceMax(x) keepdims=1
	d = Add(c, r)
	e = Relu(z)
	f = Relu(u)
	out d
	out q
	out e
	out f
`}

// rangedBodies has a Scan with an If inside.
var rangedBodies = text{main: `
	in x float32[5,batch,24]
	in h float32[batch,24]
	in p bool[]
	s, y = Scan(h, x) num_scan_inputs=1
	out s
	out y
`, bodies: map[string]string{
	"s.body": `
		in s
		in v
		u = Add(v, s)
		c = Tanh(u)
		i = If(p)
		d = Add(i, c)
		f = Concat(c, d) axis=1
		out d
		out f
	`,
	"i.then_branch": `
		b = Exp(u)
		e = Mul(b, c)
		out e
	`,
	"i.else_branch": "out c",
}}

// TestRangesAtTheFirstStep: the first step holds inputs that nobody reads, also where no
// node runs, and in a body that ignores its iteration number.
func TestRangesAtTheFirstStep(t *testing.T) {
	for name, x := range map[string]text{
		"unread input": {main: `
			in x float32[n,16]
			in unread float32[n,64]
			y = Relu(x)
			out y
		`},
		"no nodes": {main: `
			in x float32[n,16]
			init y float32[2,8] = ...
			out y
		`},
		"ignored iteration number": {main: `
			in x float32[n,16]
			in trips int64[]
			in on bool[]
			y = Loop(trips, on, x)
			out y
		`, bodies: map[string]string{"y.body": `
			in i
			in going
			in v
			go = Identity(going)
			w = Relu(v)
			out go
			out w
		`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, file, p := planReal(t, x, passes.Options{Ranges: map[string]string{"n": "1..4"}})
			r, err := verify.Plan(parse(t, file), p, verify.Options{})
			if err != nil || !r.Valid {
				t.Fatalf("expected a valid plan, found %v, %v", r.Violations, err)
			}
			if want := "proven at all 4 points"; r.Ranges != want || p.Ranges.OptimalPoints != 4 {
				t.Errorf("expected %q, found %q, and %d in the plan", want, r.Ranges, p.Ranges.OptimalPoints)
			}
		})
	}
}

// TestRangesOfABranchThatChanges: an If whose branch changes within the lengths is refused,
// with the node, the branch and the lengths.
func TestRangesOfABranchThatChanges(t *testing.T) {
	m := text{main: `
		in x float32[t,4]
		s = Shape(x)
		zero = Constant() value_int=0
		three = Constant() value_int=3
		n = Gather(s, zero)
		c = Greater(n, three)
		y = If(c)
		out y
	`, bodies: map[string]string{"y.then_branch": `
		a = Relu(x)
		out a
	`, "y.else_branch": `
		b = Exp(x)
		out b
	`}}.build(t)
	_, err := passes.Optimize(t.Context(), m, passes.Options{Ranges: map[string]string{"t": "1..6"}})
	const want = `node "make y" (If): ranges of dimensions: its else_branch may run with t=1 and cannot with t=6 (tensor "b" of its else_branch has a known size with the first lengths alone)`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("found %v, expected %s", err, want)
	}
}

// TestRangeMutations: each claim about the points of ranges is checked.
func TestRangeMutations(t *testing.T) {
	opt := passes.Options{Ranges: map[string]string{"batch": "1..3", "time": "2..6"}}
	_, file, good := planReal(t, ranged, opt)
	if r, err := verify.Plan(parse(t, file), good, verify.Options{}); err != nil || !r.Valid {
		t.Fatalf("expected a valid plan, found %v, %v", r, err)
	}
	view := func(p *plan.Plan, base, of string) {
		t.Helper()
		from, to := -1, -1
		for i, b := range p.Buffers {
			if slices.Contains(b.Tensors, of) {
				from = i
			}
			if slices.Contains(b.Tensors, base) {
				to = i
			}
		}
		if from == to {
			t.Fatalf("%s and %s share a buffer already", base, of)
		}
		p.Buffers[to].Tensors = append(p.Buffers[to].Tensors, p.Buffers[from].Tensors...)
		p.Buffers[from].Tensors = nil
	}
	isRefused(t, file, good, []rangeChange{
		{"a view at batch 1 alone", verify.CodeInplace, func(p *plan.Plan) { view(p, "a", "b") }},
		{"an arena that is too small", verify.CodeTable, func(p *plan.Plan) { p.Ranges.Table[0].ArenaBytes -= 64 }},
		{"a peak that is too small", verify.CodeTable, func(p *plan.Plan) { p.Ranges.Table[0].PeakBytes -= 64 }},
		{"a bound that nothing proves", verify.CodeCertificate, func(p *plan.Plan) {
			p.Ranges.Certificates = []plan.RangeCertificate{}
		}},
		{"a ratio that is too good", verify.CodeCertificate, func(p *plan.Plan) { p.Ranges.Worst.LowerBoundBytes = 1 << 40 }},
		{"more optimal points than there are", verify.CodeCertificate, func(p *plan.Plan) {
			p.Ranges.Certificates, p.Ranges.Worst.LowerBoundBytes = []plan.RangeCertificate{}, 0
			for i := range p.Ranges.Table {
				p.Ranges.Table[i].LowerBoundBytes = 0
			}
			p.Ranges.Smallest.LowerBoundBytes = 0
		}},
		{"another ranking", verify.CodeStacking, func(p *plan.Plan) { slices.Reverse(p.Ranges.Stacking) }},
		{"a buffer that has two ranks", verify.CodeRange, func(p *plan.Plan) { p.Ranges.Stacking[0] = p.Ranges.Stacking[1] }},
		{"a wrong size", verify.CodeRange, func(p *plan.Plan) { p.Ranges.Sizes[0][0].Factor *= 2 }},
		{"no refusals", verify.CodeRange, func(p *plan.Plan) { p.Ranges.Refused, p.Ranges.Accepted, p.Ranges.Refusal = 0, nil, "" }},
		{"lengths that the model refuses", verify.CodeRange, func(p *plan.Plan) {
			p.Ranges.Accepted["time"] = plan.AcceptedLengths{Low: 2, High: 6, Step: 1}
		}},
		{"fewer lengths than it takes", verify.CodeRange, func(p *plan.Plan) {
			p.Ranges.Accepted["time"] = plan.AcceptedLengths{Low: 2, High: 4, Step: 2}
		}},
		{"the wrong smallest point", verify.CodeTable, func(p *plan.Plan) { p.Ranges.Smallest = p.Ranges.Table[len(p.Ranges.Table)-1] }},
		{"points that are not in the box", verify.CodeTable, func(p *plan.Plan) { p.Ranges.Worst.Dims = map[string]int64{"batch": 9, "time": 2} }},
		{"another box", verify.CodeRange, func(p *plan.Plan) {
			d := p.Dims["batch"]
			low := int64(2)
			d.Low = &low
			p.Dims["batch"] = d
		}},
		{"the sharing of a runtime that shares less", verify.CodeInplace, func(p *plan.Plan) { p.Sharing.Runtime = ops.ONNXRuntime }},
		{"no ranges", verify.CodeRange, func(p *plan.Plan) { p.Ranges, p.Version = nil, plan.Version }},
		{"the version without ranges", verify.CodeRange, func(p *plan.Plan) { p.Version = plan.Version }},
	})
}

// rangeChange is a change of a plan, with the code of the violation that it is.
type rangeChange struct {
	doc, code string
	change    func(p *plan.Plan)
}

// isRefused expects a plan to be refused after each of some changes, with its code.
func isRefused(t *testing.T, file []byte, good *plan.Plan, changes []rangeChange) {
	t.Helper()
	for _, c := range changes {
		t.Run(c.doc, func(t *testing.T) {
			p := clone(t, good)
			c.change(p)
			r, err := verify.Plan(parse(t, file), p, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid || !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == c.code }) {
				t.Errorf("expected code %q, found %v", c.code, r)
			}
		})
	}
}

// TestRangePools: with several pools, each is stacked by itself, and has its capacity at every point.
func TestRangePools(t *testing.T) {
	_, file, good := planReal(t, ranged, passes.Options{
		Ranges: map[string]string{"batch": "1..3", "time": "2..6"}, Pools: []passes.Pool{{Name: "fast", Capacity: 512}, {Name: "slow", Capacity: 1 << 20}},
	})
	if r, err := verify.Plan(parse(t, file), good, verify.Options{}); err != nil || !r.Valid || len(good.Tiers()) != 2 || good.Tiers()[0].Bytes == 0 {
		t.Fatalf("expected a valid plan with two pools, found %v, %v", r, err)
	}
	used := func(p *plan.Plan, pool string) (list []int) { // the ranks of its buffers
		for rank, b := range p.Ranges.Stacking {
			if p.Buffers[b].Pool == pool && p.Buffers[b].Bytes > 0 {
				list = append(list, rank)
			}
		}
		return list
	}
	isRefused(t, file, good, []rangeChange{
		{"a pool that is too small", verify.CodePool, func(p *plan.Plan) { p.Pools[0].Capacity = p.Pools[0].Bytes - 64 }},
		{"another ranking of a pool", verify.CodeStacking, func(p *plan.Plan) {
			list := used(p, "slow")
			for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
				p.Ranges.Stacking[list[i]], p.Ranges.Stacking[list[j]] = p.Ranges.Stacking[list[j]], p.Ranges.Stacking[list[i]]
			}
		}},
		{"a buffer in another pool", verify.CodeStacking, func(p *plan.Plan) {
			p.Buffers[p.Ranges.Stacking[used(p, "fast")[0]]].Pool = "slow"
		}},
		{"a ranking without the slow pool", verify.CodeRange, func(p *plan.Plan) {
			p.Ranges.Stacking = slices.DeleteFunc(p.Ranges.Stacking, func(b int) bool { return p.Buffers[b].Pool == "slow" })
		}},
		{"an arena of the largest pool alone", verify.CodeTable, func(p *plan.Plan) { p.Ranges.Table[0].ArenaBytes = p.Ranges.Table[0].PeakBytes - 64 }},
		{"other traffic", verify.CodeTraffic, func(p *plan.Plan) { p.Pools[1].ReadBytes-- }},
	})
}

// TestRangeBounded: a plan whose points are too many to infer each is proven by bounded
// lengths; a view that they do not permit is found.
func TestRangeBounded(t *testing.T) {
	x := text{main: `
		in x float32[batch,8,4]
		a = Relu(x)
		b = Transpose(a) perm=[1, 0, 2]
		c = Relu(b)
		out c
	`}
	_, file, p := planReal(t, x, passes.Options{Ranges: map[string]string{"batch": "1..100"}, RangePoints: 20})
	r, err := verify.Plan(parse(t, file), p, verify.Options{})
	if err != nil || !r.Valid || r.Ranges != "proven for all 100 points by bounded lengths, and 10 compared with their bounds" {
		t.Fatalf("expected a valid plan, found %v, %v", r, err)
	}
	for _, c := range []struct {
		doc, code string
		change    func(p *plan.Plan)
	}{
		{"a table without the corner", verify.CodeTable, func(p *plan.Plan) {
			p.Ranges.Table = p.Ranges.Table[:len(p.Ranges.Table)-1]
			p.Ranges.Inferred--
			p.Ranges.OptimalPoints--
		}},
		{"more points than the table has", verify.CodeRange, func(p *plan.Plan) { p.Ranges.Inferred = 50 }},
		{"a smallest point of no row", verify.CodeTable, func(p *plan.Plan) { p.Ranges.Smallest.Dims = map[string]int64{"batch": 50} }},
		{"a proof of no name", verify.CodeRange, func(p *plan.Plan) { p.Ranges.Proof = "trust me" }},
	} {
		t.Run(c.doc, func(t *testing.T) {
			q := clone(t, p)
			c.change(q)
			r, err := verify.Plan(parse(t, file), q, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid || !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == c.code }) {
				t.Errorf("expected code %q, found %v", c.code, r)
			}
		})
	}
}

// TestRangeCorner: a caller that runs the plan checks the corner alone, and no wrong buffer
// of it passes.
func TestRangeCorner(t *testing.T) {
	_, file, p := planReal(t, ranged, passes.Options{Ranges: map[string]string{"batch": "1..3", "time": "2..6"}})
	r, err := verify.Plan(parse(t, file), p, verify.Options{SkipBounds: true})
	if err != nil || !r.Valid || !slices.Contains(r.Claimed, "ranges") {
		t.Fatalf("expected a valid plan with ranges that are claimed, found %v, %v", r, err)
	}
	p.Buffers[p.Ranges.Stacking[0]].Last++
	if r, err := verify.Plan(parse(t, file), p, verify.Options{SkipBounds: true}); err != nil || r.Valid {
		t.Errorf("a lifetime that is too long: expected a violation, found %v, %v", r, err)
	}
}

// TestRangeCaches: a cache whose shape depends on the lengths has the room of the largest.
func TestRangeCaches(t *testing.T) {
	x := text{main: `
		in past float32[batch,2,8,4]
		in new float32[batch,2,1,4]
		in at int64[batch]
		present = TensorScatter(past, new, at)
		y = Relu(present)
		out y
		out present
	`}
	_, file, p := planReal(t, x, passes.Options{Ranges: map[string]string{"batch": "1..5"}, States: []string{"past=present"}})
	r, err := verify.Plan(parse(t, file), p, verify.Options{})
	if err != nil || !r.Valid || r.Ranges != "proven at all 5 points" {
		t.Fatalf("expected a valid plan, found %v, %v", r, err)
	}
	for _, change := range []func(p *plan.Plan, b *plan.Buffer){
		func(_ *plan.Plan, b *plan.Buffer) { b.Bytes -= 64 },
		func(_ *plan.Plan, b *plan.Buffer) { b.Kind = plan.KindState },
		func(p *plan.Plan, _ *plan.Buffer) { p.Summary.ResidentBytes -= 64 },
	} {
		q := clone(t, p)
		change(q, &q.Buffers[slices.IndexFunc(q.Buffers, func(b plan.Buffer) bool { return b.Kind == plan.KindCache })])
		if r, err := verify.Plan(parse(t, file), q, verify.Options{}); err != nil || r.Valid {
			t.Errorf("expected a violation, found %v, %v", r, err)
		}
	}
}
