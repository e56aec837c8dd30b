package schedule

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEvaluate(t *testing.T) {
	for _, c := range []struct {
		name, problem string
		order         []int32
		loads         []int64
		peakStep      int
		taken         string
	}{
		{"a chain", "x:4; a:8=A(x); b:2=B(a); out b", []int32{0, 1}, []int64{12, 10}, 0, ""},
		{"the first of equal loads", "x:4; a:8=A(x); b:4=B(a); out b", []int32{0, 1}, []int64{12, 12}, 0, ""},
		{"an input lives to its last reader", "x:4; a:1=A(x); b:1=B(a); c:1=C(b,x); out c", []int32{0, 1, 2}, []int64{5, 6, 6}, 1, ""},
		{"an unread input lives at step 0", "x:4, y:9; a:1=A(x); b:1=B(a); out b", []int32{0, 1}, []int64{14, 2}, 0, ""},
		{"an input that is an output stays", "x:4; a:1=A(x); b:1=B(a); out b, x", []int32{0, 1}, []int64{5, 6}, 1, ""},
		{"an unread input that is an output stays", "x:4, y:1; a:1=A(y); b:1=B(a); out b, x", []int32{0, 1}, []int64{6, 6}, 0, ""},
		{"an output stays to the last step", "x:4; a:3=A(x); b:1=B(a); c:1=C(b); out a, c", []int32{0, 1, 2}, []int64{7, 4, 5}, 0, ""},
		{"an unread tensor lives at its step", "x:4; a:3, m:5=A(x); b:1=B(a); out b", []int32{0, 1}, []int64{12, 4}, 0, ""},
		{"workspace lives at its step", "x:4; a:3=A(x) ws 10; b:1=B(a); out b", []int32{0, 1}, []int64{17, 4}, 0, ""},
		{"resident tensors count nothing", "x:4, w:99; a:3=A(x, w); b:88=B(a); out b; res w, b", []int32{0, 1}, []int64{7, 3}, 0, ""},
		{"a control edge counts nothing", "x:4; a:3, c:0=A(x); b:1=B(c); out b, a", []int32{0, 1}, []int64{7, 4}, 0, ""},
		{"a reader listed twice", "x:4; a:3=A(x, x); out a", []int32{0}, []int64{7}, 0, ""},
		{"a maker among its readers is none", "x:4; a:3=A(x, a); b:1=B(x); out b", []int32{0, 1}, []int64{7, 5}, 0, ""},
		{"no nodes", "x:4, w:2; res w", nil, []int64{}, 0, ""},

		{"written over its input", "x:4; a:4>x=A(x); b:4>a=B(a); out b", []int32{0, 1}, []int64{4, 4}, 0, "a>x b>a"},
		{"only the last reader may", "x:4; a:4>x=A(x); b:4>x=B(x); out a, b", []int32{1, 0}, []int64{8, 8}, 0, "a>x"},
		{"not over an output", "x:4; a:4=A(x); b:4>a=B(a); out a, b", []int32{0, 1}, []int64{8, 8}, 0, ""},
		{"not over a resident tensor", "x:4, w:4; a:4>w=A(x, w); out a; res w", []int32{0}, []int64{8}, 0, ""},
		{"no resident result", "x:4; a:4>x=A(x); res a", []int32{0}, []int64{4}, 0, ""},
		{"not over another size", "x:4; a:3>x=A(x); out a", []int32{0}, []int64{7}, 0, ""},
		{"not over a tensor that is not read", "x:4, y:4; a:4>y=A(x); b:1=B(y); out a, b", []int32{0, 1}, []int64{12, 9}, 0, ""},
		{"either input of Add", "x:4, y:4; a:4>x>y=Add(x, y); b:1=B(x); out a, b", []int32{0, 1}, []int64{8, 9}, 1, "a>y"},
		{"the smaller index at a tie", "x:4, y:4; a:4>y>x=Add(x, y); out a", []int32{0}, []int64{8}, 0, "a>x"},
		{"an earlier result moves over for a later", "x:4, y:4; a:4>x>y, b:4>x=A(x, y); out a, b", []int32{0}, []int64{8}, 0, "a>y b>x"},
		{"no tensor twice", "x:4; a:4>x, b:4>x=A(x); out a, b", []int32{0}, []int64{8}, 0, "a>x"},
		{"over an input that has one reader", "x:4; a:4=A(x); b:4>x=B(x, a); out b", []int32{0, 1}, []int64{8, 8}, 0, "b>x"},
		{"an unread result", "x:4; a:4>x=A(x); b:1=B(); out b", []int32{0, 1}, []int64{4, 1}, 0, "a>x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse(t, c.problem)
			got, err := p.Evaluate(c.order)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.loads, got.Loads); d != "" {
				t.Errorf("loads of %s, want - got +:\n%s", c.problem, d)
			}
			if got.PeakStep != c.peakStep {
				t.Errorf("peak step of %s: got %d, want %d", c.problem, got.PeakStep, c.peakStep)
			}
			if s := takenNames(p, got.Taken); s != c.taken {
				t.Errorf("pairs of %s: got %q, want %q", c.problem, s, c.taken)
			}
			if d := cmp.Diff(c.loads, naive{p, true}.loads(c.order)); d != "" {
				t.Errorf("the naive loads differ, want - got +:\n%s", d)
			}
		})
	}
}

func TestEvaluateWithoutNodes(t *testing.T) {
	for problem, want := range map[string]int64{"x:4, w:2, y:1; res w; out y": 5, "": 0} {
		p := &Problem{}
		if problem != "" {
			p = parse(t, problem)
		}
		got, err := p.Evaluate(nil)
		if err != nil || got.Peak != want || got.PeakStep != 0 {
			t.Errorf("%q: got %+v, %v; want a peak of %d", problem, got, err, want)
		}
	}
}

func TestEvaluateSharing(t *testing.T) {
	p := parse(t, "x:4; a:4>x=A(x); b:4>a=B(a) ws 3; c:4>b=C(b); out c")
	for _, c := range []struct {
		above int64
		loads []int64
		taken string
	}{
		{AllPairs, []int64{4, 7, 4}, "a>x b>a c>b"},
		{7, []int64{8, 7, 8}, "a>x b>a c>b"},
		{8, []int64{8, 7, 8}, "b>a"},
		{NoPairs, []int64{8, 11, 8}, ""},
	} {
		got, err := p.EvaluateSharing([]int32{0, 1, 2}, c.above)
		if err != nil {
			t.Fatal(err)
		}
		if c.above == 7 {
			c.loads = []int64{4, 7, 4} // 8 exceeds 7
		}
		if d := cmp.Diff(c.loads, got.Loads); d != "" {
			t.Errorf("above %d, want - got +:\n%s", c.above, d)
		}
		if s := takenNames(p, got.Taken); s != c.taken {
			t.Errorf("above %d: got %q, want %q", c.above, s, c.taken)
		}
	}
}

func TestEvaluateRefusesAnOrder(t *testing.T) {
	p := parse(t, "x:4; a:8=A(x); b:2=B(a); out b")
	for _, c := range []struct {
		order []int32
		want  string
	}{
		{[]int32{0}, "expected 2 nodes, found 1"},
		{[]int32{0, 2}, "step 1: expected a node below 2, found 2"},
		{[]int32{0, -1}, "step 1: expected a node below 2, found -1"},
		{[]int32{0, 0}, `step 1: node "a" (A) is at step 0 as well`},
		{[]int32{1, 0}, `step 0: node "b" (B) reads tensor 1 "a": expected node "a" (A) before it`},
	} {
		if _, err := p.Evaluate(c.order); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %s", c.order, err, c.want)
		}
	}
}

// Evaluate agrees with the naive reading of the definition, for any order.
func TestEvaluateIsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 10)
		order := drawOrder(t, p)
		for _, sharing := range []bool{true, false} {
			above := int64(NoPairs)
			if sharing {
				above = AllPairs
			}
			got, err := p.EvaluateSharing(order, above)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(naive{p, sharing}.loads(order), got.Loads); d != "" {
				t.Fatalf("sharing %v, order %v, want - got +:\n%s", sharing, order, d)
			}
		}
	})
}

// With only the pairs that the peak needs, the peak is no larger, and no pair is taken at a
// step that fits without it.
func TestEvaluateSharingNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 10)
		order := drawOrder(t, p)
		all, _ := p.Evaluate(order)
		none, _ := p.EvaluateSharing(order, NoPairs)
		some, err := p.EvaluateSharing(order, all.Peak)
		if err != nil {
			t.Fatal(err)
		}
		if some.Peak > all.Peak {
			t.Fatalf("peak %d, want at most %d", some.Peak, all.Peak)
		}
		for i := range order {
			want := none.Loads[i]
			if want > all.Peak {
				want = all.Loads[i]
			}
			if some.Loads[i] != want {
				t.Fatalf("step %d: load %d, want %d", i, some.Loads[i], want)
			}
		}
	})
}
