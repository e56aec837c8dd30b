package verify

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
	"github.com/onnxmem/onnxmem/schedule"
)

// opinions returns the bare problems of real graphs with the scopes that they come from:
// of one file, or of all.
func opinions(t testing.TB, only string, each func(name string, s *scope, p *schedule.Problem)) {
	t.Helper()
	zoo, training := datafolder.Glob(t, "zoo", "*.onnx"), datafolder.Glob(t, "training", "*.json*")
	for _, path := range zoo {
		if only != "" && filepath.Base(path) != only {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := onnx.Parse(path, b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ops.Infer(m, ops.Options{}); err != nil {
			t.Fatal(err)
		}
		v := &verifier{Subject: &subject.Subject{Model: m, Plan: &plan.Plan{Alignment: 64, Sharing: plan.Sharing{Views: true, Inplace: true}}}, peaks: map[*graph.Call]int64{}}
		s := v.newScope(m.Graph, mainGraph, "")
		s.share()
		each(filepath.Base(path), s, problemOf(s))
	}
	for _, path := range training {
		if only != "" && filepath.Base(path) != only {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := schedule.ReadProblem(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		each(filepath.Base(path), scopeOf(p), p)
	}
}

// problemOf returns the bare problem of a scope, for package schedule.
func problemOf(s *scope) *schedule.Problem {
	p := &schedule.Problem{}
	for i, n := range s.g.Nodes {
		p.Nodes = append(p.Nodes, schedule.Node{Name: n.Name, Op: n.Op, Workspace: s.Work[i]})
	}
	steps := func(list []graph.NodeID) (out []int32) {
		for _, n := range list {
			out = append(out, int32(n))
		}
		return out
	}
	for i := range s.Storages {
		st := &s.Storages[i]
		p.Tensors = append(p.Tensors, schedule.Tensor{
			Bytes: st.Bytes, Producer: st.Maker, Consumers: slices.Clone(st.Readers), Resident: !s.Counts(int32(i)), Output: st.Output,
		})
	}
	for i := range s.g.Nodes {
		for _, q := range s.Pairs(int32(i)) {
			p.Tensors[q.Result].Reuses = append(p.Tensors[q.Result].Reuses, q.Over)
		}
	}
	for _, t := range s.g.Tensors { // precedence through views and dynamic tensors
		if t.Maker >= 0 && len(t.Readers) > 0 {
			p.Tensors = append(p.Tensors, schedule.Tensor{Producer: int32(t.Maker), Consumers: steps(t.Readers)})
		}
	}
	return p
}

// scopeOf makes a graph of a bare problem.
func scopeOf(p *schedule.Problem) *scope {
	g := &graph.Graph{}
	for i := range p.Nodes {
		g.Nodes = append(g.Nodes, &graph.Node{Name: p.Nodes[i].Name, Op: p.Nodes[i].Op})
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		id := g.NewTensor(t.Name)
		g.Tensors[id].Bytes = t.Bytes
		if t.Producer < 0 {
			g.Tensors[id].Input = true
			g.Inputs = append(g.Inputs, id)
		} else {
			n := g.Nodes[t.Producer]
			n.Outputs = append(n.Outputs, id)
		}
		for _, c := range t.Consumers {
			if c != t.Producer {
				g.Nodes[c].Inputs = append(g.Nodes[c].Inputs, id)
			}
		}
		if t.Output {
			g.Outputs = append(g.Outputs, id)
		}
	}
	for i := range p.Tensors {
		if p.Tensors[i].Producer < 0 {
			continue
		}
		n := g.Nodes[p.Tensors[i].Producer]
		for _, over := range p.Tensors[i].Reuses {
			if in := slices.Index(n.Inputs, graph.TensorID(over)); in >= 0 {
				n.Semantics.Inplace = append(n.Semantics.Inplace, graph.Alias{Out: slices.Index(n.Outputs, graph.TensorID(i)), In: in})
			}
		}
	}
	g.Link()
	v := &verifier{Subject: &subject.Subject{Plan: &plan.Plan{Alignment: 1, Sharing: plan.Sharing{Views: true, Inplace: true}}}}
	s := v.newScope(g, mainGraph, "")
	s.share()
	for i := range p.Nodes {
		s.Work[i] = p.Nodes[i].Workspace
	}
	for i := range p.Tensors {
		s.Storages[s.storageOf[i]].Resident = p.Tensors[i].Resident
	}
	return s
}

// TestSecondOpinion compares the bounds of package schedule with the verifier's, which
// share no code: for all graphs of the test data, the bounds of nodes, of sets of nodes,
// and of the certificates of orders.
func TestSecondOpinion(t *testing.T) {
	var opt schedule.Options
	if !sweep.On() {
		opt.Effort = schedule.EffortFast
	}
	r := rand.New(rand.NewPCG(8, 9))
	var nodes, sets, certificates, searched int
	opinions(t, "", func(name string, s *scope, p *schedule.Problem) {
		b := core.NewBounds(&s.Problem, core.MaxWork)
		check := func(what string, set any, theirs int64, ours func(target int64) core.Answer) {
			t.Helper()
			if a := ours(theirs); a.Unknown || a.Bytes < theirs {
				t.Errorf("%s: %s %v: %d bytes (unknown: %t), schedule says %d", name, what, set, a.Bytes, a.Unknown, theirs)
			}
			if a := ours(theirs + b.Unit); b.Idle == 0 && a.Bytes > theirs {
				t.Errorf("%s: %s %v: %d bytes, schedule says %d", name, what, set, a.Bytes, theirs)
			}
		}
		n := len(p.Nodes)
		few, large := 12, n > 5000
		if large {
			few = 2
		}
		for range few {
			v := r.IntN(n)
			nodes++
			check("cut of node", v, schedule.CutBound(p, int32(v)), func(target int64) core.Answer { return b.AtNode(int32(v), target) })
		}
		for range few / 2 {
			var theirs []int32
			var ours []int32
			from := r.IntN(n)
			for v := from; v < min(n, from+n/10+2) && len(ours) < 6; v += 1 + r.IntN(n/20+1) {
				theirs, ours = append(theirs, int32(v)), append(ours, int32(v))
			}
			sets++
			check("first of", theirs, schedule.FirstBound(p, theirs), func(target int64) core.Answer { return b.FirstOf(ours, target) })
			check("last of", theirs, schedule.LastBound(p, theirs), func(target int64) core.Answer { return b.LastOf(ours, target) })
		}
		if large {
			return // its search takes longer than all others together
		}
		found, err := schedule.Solve(context.Background(), p, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range found.Certificates {
			set := c.Nodes
			certificates++
			switch c.Kind {
			case schedule.KindCut:
				check("certificate: cut of", c.Nodes, c.Value, func(target int64) core.Answer { return b.AtNode(set[0], target) })
			case schedule.KindFirst:
				check("certificate: first of", c.Nodes, c.Value, func(target int64) core.Answer { return b.FirstOf(set, target) })
			case schedule.KindLast:
				check("certificate: last of", c.Nodes, c.Value, func(target int64) core.Answer { return b.LastOf(set, target) })
			default:
				searched++
			}
		}
	})
	t.Logf("%d nodes, %d sets twice, %d certificates, %d of them of searches", nodes, sets, certificates, searched)
}

// BenchmarkCut proves the cuts of nodes from all parts of a graph.
func BenchmarkCut(b *testing.B) {
	for _, name := range []string{"layered_24k-dyn.onnx", "fasterrcnn_resnet50_fpn.onnx", "llama_8l-train-bs32.json"} {
		b.Run("graph="+name, func(b *testing.B) {
			opinions(b, name, func(_ string, s *scope, _ *schedule.Problem) {
				n, k := len(s.g.Nodes), 0
				for b.Loop() {
					bounds := core.NewBounds(&s.Problem, core.MaxWork)
					if a := bounds.AtNode(int32(k*7919%n), math.MaxInt64); a.Unknown {
						b.Fatal(a)
					}
					k++
				}
			})
		})
	}
}
