package trial

import (
	"cmp"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/passes"
)

// option is one that a pair has: a feature of the table of exclusions, or, with another
// name, one that excludes nothing.
type option struct {
	name string
	args []string
}

// pairOptions lists what is tried in pairs.
func pairOptions(scratch string) []option {
	return []option{
		{"ranges", []string{"--dim", "batch=1..3"}},
		{"train", []string{"--train", "--loss", "mse"}},
		{"state", []string{"--state", "auto"}},
		{"kv-capacity", []string{"--kv-capacity", "12"}},
		{"aliases", []string{"--aliases"}},
		{"no aliases", []string{"--no-aliases"}},
		{"runtime", []string{"--runtime", "onnxruntime"}},
		{"default order", []string{"--order", "default"}},
		{"keep-random-order", []string{"--keep-random-order"}},
		{"schedule", []string{"--schedule", "dfs"}},
		{"placement", []string{"--placement", "greedy-by-size"}},
		{"schedule-goal", []string{"--schedule-goal", "area"}},
		{"time-limit", []string{"--time-limit", "1h"}},
		{"solver", nil},
		{"limit", []string{"--limit", "92%"}},
		{"limit on the arena", []string{"--limit-arena"}},
		{"extra", []string{"--extra", "60%"}},
		{"frontier", []string{"--frontier"}},
		{"slices", []string{"--slices", "exact"}},
		{"compact", []string{"--compact"}},
		{"no recomputation", []string{"--no-recompute"}},
		{"host", []string{"--host-link", "200GB/s"}},
		{"no swaps", []string{"--no-swap"}},
		{"pools", []string{"--pool", "fast=16KiB", "--pool", "slow=8MiB@100MB/s"}},
		{"listed workspaces", []string{"--workspaces", scratch}},
		{"device", []string{"--device", "roofline"}},
		{"precision", []string{"--precision", "bf16"}},
		{"autocast", []string{"--autocast", "fp16"}},
		{"adapters", []string{"--lora", "2", "--lora-targets", "."}},
		{"attention", []string{"--attention"}},
		{"updates last", []string{"--updates", "last"}},
		{"optimizer", []string{"--optimizer", "adamw"}},
		{"clip-norm", []string{"--clip-norm", "1"}},
		{"accumulate", []string{"--accumulate", "2"}},
		{"keep-gradients", []string{"--keep-gradients"}},
		{"all fused gradients", []string{"--fused-gradients", "all"}},
		{"fold off", []string{"--fold", "off"}},
		{"fold any", []string{"--fold", "any"}},
		{"inline functions", []string{"--inline-functions"}},
		{"no views", []string{"--no-views"}},
		{"no in-place", []string{"--no-inplace"}},
		{"alignment", []string{"--align", "1"}},
		{"effort fast", []string{"--effort", "fast"}},
		{"effort max", []string{"--effort", "max"}},
	}
}

// TestPairsOfOptions: every pair of options that the table of exclusions permits gives a plan
// that is valid and runs with the right results, if both give one alone; every other pair is
// refused with the names of both. Make sweeps tries all pairs, and the test else some.
func TestPairsOfOptions(t *testing.T) {
	scratch := filepath.Join(t.TempDir(), "scratch.csv")
	decoder := filepath.Join(t.TempDir(), "decoder.csv")
	for path, node := range map[string]string{scratch: "middle", decoder: "node_embedding"} {
		if err := os.WriteFile(path, []byte("node,bytes\n"+node+",256\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &pairs{options: pairOptions(scratch), decoder: decoder, networks: map[string][]byte{"image": imageNetwork(t), "cell": cellNetwork(t), "decoder": decoderNetwork(t), "words": wordsNetwork(t)}}
	every := 11
	if sweep.On() {
		every = 1
	}
	planned, refused, apart := 0, 0, 0
	for i, a := range p.options {
		for j, b := range p.options[:i] {
			if (i*i+j)%every != 0 || excluding(a.args, b.args) {
				continue
			}
			switch p.try(t, a, b) {
			case Ran:
				planned++
			case Usage:
				refused++
			default:
				apart++
			}
		}
	}
	t.Logf("%d pairs planned, verified and run, %d refused, %d beside nothing that one of them needs", planned, refused, apart)
	if planned < 600/every || refused == 0 {
		t.Errorf("%d pairs planned, %d refused: expected more", planned, refused)
	}
}

// excluding reports whether two options are values of one flag.
func excluding(a, b []string) bool {
	return len(a) > 0 && len(b) > 0 && strings.TrimPrefix(a[0], "--no-") == strings.TrimPrefix(b[0], "--no-") || slices.Equal(a, b)
}

// pairs tries pairs of options on networks.
type pairs struct {
	options  []option
	networks map[string][]byte
	decoder  string // the file of workspaces of the decoder
}

// try tries a pair. It returns Ran, Usage if it is refused as the table says, and NoPlan if
// an option needs one that the other excludes.
func (p *pairs) try(t *testing.T, a, b option) string {
	t.Helper()
	asked := []string{a.name, b.name}
	if len(excluded(asked)) > 0 {
		asked = completed(asked, true)
		c := p.trial(asked)
		r := c.Try(t.Context())
		for _, x := range excluded(asked) {
			if text := " cannot be used together: " + x.Why; r.Kind == Usage && (strings.Contains(r.Says, flagOf(x.A)+" and "+flagOf(x.B)+text) || c.Set != nil && strings.Contains(r.Says, text)) {
				return Usage
			}
		}
		t.Errorf("%s: %s: %s: expected one of %v", strings.Join(c.Options, " "), r.Kind, r.Says, excluded(asked))
		return Usage
	}
	if asked = completed(asked, false); asked == nil {
		return NoPlan
	}
	c := p.trial(asked)
	if r := c.Try(t.Context()); r.Kind != Ran {
		t.Errorf("%s: %s: %s: %s", c.Name, strings.Join(c.Options, " "), r.Kind, r.Says)
	}
	return Ran
}

// excluded returns the rows that exclude two of several options.
func excluded(asked []string) (list []passes.Exclusion) {
	all := slices.Clone(asked)
	for _, x := range asked {
		all = append(all, implied[x]...)
	}
	if slices.Contains(asked, "attention") && !slices.Contains(asked, "train") {
		all = append(all, "attention of a model")
	}
	for _, x := range passes.Exclusions() {
		if slices.Contains(all, x.A) && slices.Contains(all, x.B) {
			list = append(list, x)
		}
	}
	return list
}

// implied are the features that another one is a case of.
var implied = map[string][]string{"listed workspaces": {"workspaces"}, "autocast": {"precision"}}

func flagOf(name string) string {
	list := passes.Features()
	return list[slices.IndexFunc(list, func(f passes.Feature) bool { return f.Name == name })].Flag
}

// completed adds what options need: of a row, the first of cheap that nothing excludes, else
// the first. It returns nil if one excludes all that another needs, unless any will do.
func completed(asked []string, any bool) []string {
	asked = slices.Clone(asked)
	for again := true; again; {
		again = false
		for _, x := range passes.Needs() {
			if !slices.Contains(asked, x.A) || slices.ContainsFunc(x.B, func(b string) bool { return slices.Contains(asked, b) }) {
				continue
			}
			needed := slices.Clone(x.B)
			slices.SortStableFunc(needed, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
			k := slices.IndexFunc(needed, func(b string) bool { return len(excluded(append(slices.Clone(asked), b))) == 0 })
			if k < 0 && !any {
				return nil
			}
			asked, again = append(asked, needed[max(k, 0)]), true
		}
	}
	return asked
}

// rank is that of an option that another needs: first come those with which there is a plan
// whatever else is asked for.
func rank(name string) int {
	if name == "extra" || name == "slices" {
		return 0
	}
	return 1
}

// trial makes a trial with options, on a network that has what they are about.
func (p *pairs) trial(asked []string) *Trial {
	name := "image"
	switch {
	case slices.Contains(asked, "kv-capacity"):
		name = "decoder"
	case slices.Contains(asked, "state"):
		name = "cell"
	case slices.Contains(asked, "attention"):
		name = "words"
	}
	c := &Trial{Name: name, Model: p.networks[name]}
	if !slices.Contains(asked, "ranges") {
		c.Options = []string{"--dim", "batch=2"}
	}
	if name == "decoder" {
		c.Options = append(c.Options, "--dim", "new=1")
	}
	for _, o := range p.options {
		switch {
		case !slices.Contains(asked, o.name):
		// The image network alone, in float32, has what runs again for less, and a default order nothing.
		case o.name == "limit" && (name != "image" || slices.Contains(asked, "default order") || slices.Contains(asked, "precision")):
			c.Options = append(c.Options, "--limit", "100%")
		case o.name == "precision" && slices.Contains(asked, "train"): // the flag for models
			c.Options = append(c.Options, "--autocast", "bf16")
		case o.name == "listed workspaces" && name == "decoder":
			c.Options = append(c.Options, "--workspaces", p.decoder)
		default:
			c.Options = append(c.Options, o.args...)
		}
	}
	if slices.Contains(asked, "solver") {
		c.Set = func(o *passes.Options) { o.Solver = idle{} }
	}
	return c
}

// idle is a solver that finds nothing.
type idle struct{}

func (idle) Identity() (name, version string) { return "idle", "1" }

func (idle) Solve(context.Context, *ilp.Program, ilp.Options) (ilp.Answer, error) {
	return ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1), Ended: true}, nil
}

// imageNetwork is a small network with a tensor that is read early and late, which is cheap
// to compute again, convolutions that slices cut, and a Concat.
func imageNetwork(t *testing.T) []byte {
	b := graph.NewBuilder("image", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 3, 12, 12), "batch")
	conv := func(name string, x graph.TensorID, from, to, kernel, stride int64) graph.TensorID {
		w := b.Floats(name+".weight", []int64{to, from, kernel, kernel}, weights(to*from*kernel*kernel))
		pad := kernel / 2
		return b.Add(&graph.Node{Name: name, Op: "Conv", Inputs: []graph.TensorID{x, w}, Attrs: []*graph.Attr{
			{Name: "pads", Type: graph.AttrInts, Ints: []int64{pad, pad, pad, pad}}, {Name: "strides", Type: graph.AttrInts, Ints: []int64{stride, stride}},
		}}, name)[0]
	}
	relu := func(x graph.TensorID) graph.TensorID { return b.Node("Relu", "relu", x) }
	early := relu(conv("early", x, 3, 8, 3, 1))
	y := relu(conv("narrow", early, 8, 8, 3, 2))
	y = relu(conv("middle", y, 8, 64, 3, 1))
	y = relu(conv("wide", y, 64, 64, 1, 1))
	y = relu(conv("back", y, 64, 8, 3, 1))
	y = b.Node("Resize", "grown", y, graph.None, b.Floats("scales", []int64{4}, []float32{1, 1, 2, 2}))
	y = b.Add(&graph.Node{Name: "cat", Op: "Concat", Inputs: []graph.TensorID{early, y}, Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 1}}}, "cat")[0]
	y = relu(conv("late", y, 16, 4, 1, 1))
	y = b.Node("Flatten", "flat", b.Node("GlobalAveragePool", "pooled", y))
	b.Output(b.Node("Gemm", "logits", y, b.Floats("head.weight", []int64{4, 3}, weights(12)), b.Floats("head.bias", []int64{3}, weights(3))))
	return built(t, b)
}

// cellNetwork keeps the last of several rows, its state, from run to run.
func cellNetwork(t *testing.T) []byte {
	b := graph.NewBuilder("cell", 17)
	mean := func(x graph.TensorID, keep int64) graph.TensorID {
		return b.Add(&graph.Node{Name: "mean", Op: "ReduceMean", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{
			{Name: "axes", Type: graph.AttrInts, Ints: []int64{0}}, {Name: "keepdims", Type: graph.AttrInt, Int: keep},
		}}, "mean")[0]
	}
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 16), "batch")
	h := b.Input("h", graph.TensorOf(graph.Float32, 8, 16))
	y := b.Node("Tanh", "tanh", b.Add(&graph.Node{Name: "middle", Op: "MatMul", Inputs: []graph.TensorID{x, b.Floats("w", []int64{16, 16}, weights(256))}}, "wide")[0])
	next := b.Node("ScatterND", "h.next", h, b.Ints("row", []int64{1, 1}, []int64{3}), mean(y, 1))
	b.Output(b.Node("Softmax", "y", b.Node("Add", "both", b.Node("Relu", "relu", y), mean(next, 0))), next)
	return built(t, b)
}

// decoderNetwork is a small decoder whose caches of keys and values grow.
func decoderNetwork(t *testing.T) []byte {
	file, err := os.ReadFile("../../testdata/decoders/llama-any.onnx")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// wordsNetwork is a block of a transformer, whose attention is spelled out, with a mask of keys.
func wordsNetwork(t *testing.T) []byte {
	const words, heads, size = 8, 2, 8
	b := graph.NewBuilder("words", 20)
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, words, heads*size), "batch")
	project := func(name string, x graph.TensorID, from, to int64) graph.TensorID {
		w := weights(from * to)
		for i := range w { // a wave would be taken for a filter
			w[i] *= 1 + w[i*i%len(w)]
		}
		return b.Add(&graph.Node{Name: name, Op: "MatMul", Inputs: []graph.TensorID{x, b.Floats(name+".weight", []int64{from, to}, w)}}, name)[0]
	}
	turned := func(x graph.TensorID, perm ...int64) graph.TensorID {
		return b.Add(&graph.Node{Name: "turned", Op: "Transpose", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{{Name: "perm", Type: graph.AttrInts, Ints: perm}}}, "turned")[0]
	}
	shape := b.Ints("heads", []int64{4}, []int64{0, words, heads, size})
	part := func(name string, perm ...int64) graph.TensorID {
		return turned(b.Node("Reshape", name+".heads", project(name, x, heads*size, heads*size), shape), perm...)
	}
	mask := make([]float32, words)
	mask[words-1] = -1e30
	scores := b.Node("Mul", "scaled", b.Node("MatMul", "scores", part("q", 0, 2, 1, 3), part("k", 0, 2, 3, 1)), b.Floats("scale", nil, []float32{0.35}))
	scores = b.Node("Softmax", "shares", b.Node("Add", "masked", scores, b.Floats("mask", []int64{words}, mask)))
	y := turned(b.Node("MatMul", "mixed", scores, part("v", 0, 2, 1, 3)), 0, 2, 1, 3)
	y = b.Node("Add", "sum", x, project("middle", b.Node("Reshape", "joined", y, b.Ints("whole", []int64{3}, []int64{0, words, heads * size})), heads*size, heads*size))
	y = b.Node("Relu", "relu", project("wide", y, heads*size, 4*heads*size))
	b.Output(b.Node("Add", "y", x, project("back", y, 4*heads*size, heads*size)))
	return built(t, b)
}

// weights are small numbers, no two alike.
func weights(n int64) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(math.Sin(float64(7*i+1))) / float32(math.Sqrt(float64(n)))
	}
	return list
}

func built(t *testing.T, b *graph.Builder) []byte {
	t.Helper()
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	file, err := encoded(m)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAliasesOfWhatRunsAgain: a plan in which nodes run again shares bytes of Concat and its
// kin, too, and is valid and right.
func TestAliasesOfWhatRunsAgain(t *testing.T) {
	c, err := New(51302)
	if err != nil {
		t.Fatal(err)
	}
	c.Options = append(c.Options, "--aliases")
	r := c.Try(t.Context())
	if r.Kind != Ran || len(r.Plan.Spans) == 0 || r.Plan.Summary.Limited == nil || r.Plan.Summary.RecomputedNodes == 0 {
		t.Errorf("%s: %s: %s: expected a plan with spans in which nodes run again", strings.Join(c.Options, " "), r.Kind, r.Says)
	}
}
