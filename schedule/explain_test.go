package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func explain(t *testing.T, p *Problem, most int) (*Explanation, *Result) {
	t.Helper()
	r, err := Solve(context.Background(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := Explain(context.Background(), p, r.Order, r.Certificates, ExplainOptions{Most: most})
	if err != nil {
		t.Fatal(err)
	}
	return x, r
}

// spell writes the live buffers as "a 8, c+d 4, workspace 2", with a "!" for those that are
// live in every order.
func spell(p *Problem, live []Holding) string {
	var list []string
	for _, h := range live {
		var names []string
		for _, t := range h.Tensors {
			names = append(names, p.Tensors[t].Name)
		}
		name := strings.Join(names, "+")
		if name == "" {
			name = "workspace"
		}
		mark := ""
		if h.Forced {
			mark = "!"
		}
		list = append(list, fmt.Sprintf("%s%s %d", name, mark, h.Bytes))
	}
	return strings.Join(list, ", ")
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name, problem     string
		node, live, proof string
		relief            string // buffer: the bounds without it and with half of it
	}{
		{
			"a skip connection waits while the widest tensor is made",
			"x:4; a:8=A(x); b:2=B(a); c:20=C(b) ws 3; d:4=D(a, c); out d",
			"c", "c! 20, a! 8, workspace! 3, b! 2",
			"cut c: before 2, after 1: c! 20, a! 8, workspace! 3, b! 2",
			"c: 13 23; a: 25 29; b: 32 32",
		},
		{
			"a result over what it was made from counts once",
			"x:8; a:8=A(x); b:8>a=B(a) ws 5; c:2=C(b, x); out c",
			"b", "x! 8, a+b! 8, workspace! 5",
			"cut b: before 1, after 1: x! 8, a+b! 8, workspace! 5",
			"x: 13 17; a: 13 17",
		},
		{
			"an input that nobody reads is live at the first step alone",
			"x:4; u:100; a:8=A(x)",
			"a", "u 100, a! 8, x! 4",
			"first-of-set a: before 0, after 0: u 100, a! 8, x! 4",
			"u: 12 62; a: 104 108; x: 108 110",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse(t, c.problem)
			x, r := explain(t, p, 8)
			if got := p.Nodes[x.PeakNode].Name; got != c.node || x.Peak != r.Evaluation.Peak || x.Bound != r.Bound {
				t.Errorf("peak %d at %s, bound %d; expected %d at %s, bound %d", x.Peak, got, x.Bound, r.Evaluation.Peak, c.node, r.Bound)
			}
			if got := spell(p, x.Live); got != c.live {
				t.Errorf("got %s, expected %s", got, c.live)
			}
			var proofs []string
			for _, f := range x.Proofs {
				if f.Node >= 0 {
					proofs = append(proofs, fmt.Sprintf("%s %s: before %d, after %d: %s", f.Kind, p.Nodes[f.Node].Name, f.Before, f.After, spell(p, f.Live)))
				}
			}
			if got := strings.Join(proofs, "; "); got != c.proof {
				t.Errorf("got %s, expected %s", got, c.proof)
			}
			var relief []string
			for _, r := range x.Relief {
				relief = append(relief, fmt.Sprintf("%s: %d %d", p.Tensors[r.Tensors[0]].Name, r.Absent.Bound, r.Half.Bound))
			}
			if got := strings.Join(relief, "; "); got != c.relief {
				t.Errorf("got %s, expected %s", got, c.relief)
			}
		})
	}
}

// The listed buffers sum to the peak, and in the state of a proof to the proven value, both
// counted naively. Buffers that are called forced are live in random orders. The outlooks
// enclose the optimum.
func TestExplanationsAddUp(t *testing.T) {
	kinds := map[string]int{}
	for i := range randomGraphs(t, 400) {
		r := rand.New(rand.NewPCG(uint64(i), 77))
		p := randomProblem(r, 11)
		x, solved := explain(t, p, 3)
		if got := sumOf(x.Live); got != x.Peak || x.Peak != solved.Evaluation.Peak {
			t.Fatalf("graph %d: peak %d, the live buffers sum to %d", i, solved.Evaluation.Peak, got)
		}
		// Check one certificate of each kind besides those of the search.
		nodes := indices(len(p.Nodes))
		r.Shuffle(len(nodes), func(a, b int) { nodes[a], nodes[b] = nodes[b], nodes[a] })
		set := nodes[:1+r.IntN(len(nodes))]
		w := newExplainer(index(p))
		for _, c := range []Certificate{
			{Kind: KindCut, Nodes: set[:1], Value: CutBound(p, set[0])},
			{Kind: KindFirst, Nodes: set, Value: FirstBound(p, set)},
			{Kind: KindLast, Nodes: set, Value: LastBound(p, set)},
		} {
			f := w.proof(c)
			if f.Node < 0 || !slices.Contains(set, f.Node) || sumOf(f.Live) != c.Value {
				t.Fatalf("graph %d: %s of %v proves %d; the buffers live while %d runs sum to %d", i, c.Kind, set, c.Value, f.Node, sumOf(f.Live))
			}
			kinds[c.Kind]++
			for _, order := range append(solved.Orders, solved.ProgramOrder) {
				for _, h := range f.Live {
					if h.Forced && len(h.Tensors) > 0 && !livesIn(p, order, f.Node, h) {
						t.Fatalf("graph %d: tensors %v are not live while %d runs in %v", i, h.Tensors, f.Node, order)
					}
				}
			}
		}
		for _, f := range x.Proofs {
			if f.Node >= 0 && sumOf(f.Live) != f.Value {
				t.Fatalf("graph %d: %s proves %d; the live buffers sum to %d", i, f.Kind, f.Value, sumOf(f.Live))
			}
		}
		for _, relief := range x.Relief {
			for _, o := range []struct {
				Outlook
				bytes int64
			}{{relief.Absent, 0}, {relief.Half, half(relief.Bytes, 1)}} {
				q := *p
				q.Tensors = slices.Clone(p.Tensors)
				for _, t := range relief.Tensors {
					q.Tensors[t].Bytes = o.bytes
				}
				if best := newBrute(&q, true).optimum(); o.Bound > best || o.Peak < best {
					t.Fatalf("graph %d: tensors %v at %d bytes: bound %d, peak %d, optimum %d", i, relief.Tensors, o.bytes, o.Bound, o.Peak, best)
				}
			}
		}
	}
	if len(kinds) != 3 {
		t.Errorf("certificates of kinds %v", kinds)
	}
}

// livesIn reports whether one of a buffer's tensors is live while a node runs.
func livesIn(p *Problem, order []int32, v int32, h Holding) bool {
	step := make([]int, len(order))
	for i, u := range order {
		step[u] = i
	}
	return slices.ContainsFunc(h.Tensors, func(t int32) bool {
		x := &p.Tensors[t]
		made := x.Producer < 0 || step[x.Producer] <= step[v]
		kept := x.Output || x.Producer == v || slices.ContainsFunc(x.Consumers, func(r int32) bool { return step[r] >= step[v] })
		return made && kept
	})
}

func sumOf(live []Holding) (bytes int64) {
	for _, h := range live {
		bytes += h.Bytes
	}
	return bytes
}

// In a problem without nodes, the inputs are live, and only they can be removed.
func TestExplainNothing(t *testing.T) {
	p := &Problem{Nodes: []Node{}, Tensors: []Tensor{{Name: "x", Bytes: 8, Producer: -1}, {Name: "y", Bytes: 4, Producer: -1, Output: true}}}
	x, _ := explain(t, p, 8)
	if x.PeakNode != -1 || x.Peak != 12 || x.Bound != 12 || spell(p, x.Live) != "x! 8, y! 4" {
		t.Errorf("%+v: %s", x, spell(p, x.Live))
	}
}

func TestHalfIsRoundedUp(t *testing.T) {
	for _, c := range []struct{ bytes, align, want int64 }{{8, 0, 4}, {9, 1, 5}, {64, 64, 64}, {192, 64, 128}, {1, 1, 1}} {
		if got := half(c.bytes, c.align); got != c.want {
			t.Errorf("half(%d, %d) = %d, expected %d", c.bytes, c.align, got, c.want)
		}
	}
}
