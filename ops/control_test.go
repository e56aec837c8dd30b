package ops

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

type (
	nodeBodies = map[string]map[string]graphSpec
	nodeAttrs  = map[string][]*graph.Attr
	tensors    = map[string]graph.Type
	constants  = map[string]*graph.Data
)

func TestIf(t *testing.T) {
	wide := graphSpec{out: "t", nodes: "t=Concat(x,x)", attrs: nodeAttrs{"t": {attrInt("axis", 0)}}}
	narrow := graphSpec{out: "t", nodes: "t=Relu(x)"}
	cond := tensors{"c": graph.TensorOf(graph.Bool), "x": floats(2, 3)}
	iff := func(then, other graphSpec) graphSpec {
		return graphSpec{in: "c x", out: "y", nodes: "y=If(c)", types: cond, bodies: nodeBodies{"y": {"then_branch": then, "else_branch": other}}}
	}
	known := func(v int64, then, other graphSpec) graphSpec {
		s := iff(then, other)
		s.in, s.data = "x", constants{"c": bools(v)}
		return s
	}
	squeeze := graphSpec{out: "t", nodes: "t=Squeeze(x,k)", data: constants{"k": ints([]int64{1}, 0)}}
	wrong := graphSpec{out: "t", nodes: "s=Add(k,m); t=Relu(x)", data: constants{"k": ints([]int64{2}, 1, 2), "m": ints([]int64{5}, 1, 2, 3, 4, 5)}}
	empty := graphSpec{out: "t", nodes: "t=SequenceEmpty()"}
	runInferCases(t, []inferCase{
		{"both branches alike", iff(narrow, narrow), "float32[2,3]"},
		{"the larger length bounds", iff(wide, narrow), "float32[<=4,3]"},
		{"a known condition decides: true", known(1, wide, narrow), "float32[4,3]"},
		{"a known condition decides: false", known(0, wide, narrow), "float32[2,3]"},
		{"the other branch need not make sense", known(0, squeeze, narrow), "float32[2,3]"},
		{"the branch taken must", known(1, squeeze, narrow), "error: node"},
		{"a branch whose shapes contradict is impossible where the condition is open", iff(squeeze, wide), "float32[4,3]"},
		{"one of the two must be possible", iff(squeeze, squeeze), "error: node"},
		{"a branch that no shapes from outside fit is refused", iff(wrong, narrow), `error: node "s" (Add): input 1 "m" has shape [5], expected one that broadcasts with [2] (axis 0 from the right)`},
		{"so is one with an unknown operator", iff(graphSpec{out: "t", nodes: "t=com.acme::Fuse(x)"}, narrow), "error: node"},
		{"kinds that differ", iff(empty, narrow), "error: output 0 is sequence(float32[...]) in then_branch, but float32[2,3] in else_branch"},
		{"no branches", graphSpec{in: "c", out: "y", nodes: "y=If(c)", types: cond}, `error: attribute "else_branch" is missing: expected a graph`},
		{"outputs that do not match", iff(graphSpec{out: "t t", nodes: "t=Relu(x)"}, narrow), "error: then_branch makes 2 outputs, expected 1"},
		{
			"a condition that is no scalar",
			graphSpec{in: "x", out: "y", nodes: "y=If(x)", types: cond, bodies: nodeBodies{"y": {"then_branch": narrow, "else_branch": narrow}}},
			`error: input 0 "x" is float32[2,3], expected bool[]`,
		},
	})
}

func TestNeverTakenBranch(t *testing.T) {
	squeeze := graphSpec{out: "u", nodes: "t=Squeeze(x,k); u=Relu(t)", data: constants{"k": ints([]int64{1}, 0)}}
	m, got := graphSpec{
		in: "x", out: "y", nodes: "y=If(c)", types: tensors{"x": floats(2, 3)}, data: constants{"c": bools(0)},
		bodies: nodeBodies{"y": {"then_branch": squeeze, "else_branch": {out: "t", nodes: "t=Relu(x)"}}},
	}.infer(t)
	if got != "float32[2,3]" {
		t.Fatal(got)
	}
	for _, x := range m.Graph.Nodes[0].Attr("then_branch").Graph.Tensors {
		if x.Maker >= 0 && x.Dynamic == "" {
			t.Errorf("tensor %q of the branch that is never taken: expected dynamic", x.Name)
		}
	}
}

func TestLoop(t *testing.T) {
	in := tensors{"x": floats(2, 3), "m": graph.TensorOf(graph.Int64), "c": graph.TensorOf(graph.Bool)}
	loop := func(call, body string, data constants) graphSpec {
		return graphSpec{
			in: "x m c", out: "y s", nodes: "y,s=" + call, types: in, data: data,
			bodies: nodeBodies{"y": {"body": {in: "i k v", out: "k w r", nodes: body, attrs: nodeAttrs{"w": {attrInt("axis", 0)}}}}},
		}
	}
	same := "w=Relu(v); r=Relu(v)"
	grow := "w=Concat(v,v); r=Shape(v)"
	five := constants{"five": ints(nil, 5)}
	until := graphSpec{
		in: "i k v", out: "q w r", nodes: "w=Relu(v); r=Relu(v); n=ReduceSum(v); q=Cast(n)",
		attrs: nodeAttrs{"n": {attrInt("keepdims", 0)}, "q": {attrInt("to", int64(graph.Bool))}},
	}
	wait := loop("Loop(five,_,x)", same, five)
	wait.bodies = nodeBodies{"y": {"body": until}}
	counted := graphSpec{
		in: "x c", out: "y", types: in, data: constants{"zero": ints(nil, 0), "five": ints(nil, 5), "one": ints(nil, 1), "yes": bools(1)},
		nodes:  "n=Loop(_,yes,zero); u=Range(zero,n,one); y=Relu(u)",
		bodies: nodeBodies{"n": {"body": {in: "i k v", out: "q w", nodes: "w=Add(v,one); q=Less(w,five)"}}},
	}
	runInferCases(t, []inferCase{
		{"a known trip count is the length", loop("Loop(five,_,x)", same, five), "float32[2,3], float32[5,2,3]"},
		{"a condition that may be false bounds it", loop("Loop(five,c,x)", same, five), "float32[2,3], float32[<=5,2,3]"},
		{"so does one that the body makes", wait, "float32[2,3], float32[<=5,2,3]"},
		{"an open trip count", loop("Loop(m,_,x)", same, nil), "float32[2,3], float32[?,2,3]"},
		{"a while loop", loop("Loop(_,c,x)", same, nil), "float32[2,3], float32[?,2,3]"},
		{"no iteration", loop("Loop(zero,_,x)", same, constants{"zero": ints(nil, 0)}), "float32[2,3], float32[0,2,3]"},
		{"a negative trip count is none", loop("Loop(m1,_,x)", same, constants{"m1": ints(nil, -1)}), "float32[2,3], float32[0,2,3]"},
		{"a condition that is false at once", loop("Loop(five,no,x)", same, constants{"five": ints(nil, 5), "no": bools(0)}), "float32[2,3], float32[0,2,3]"},
		{"2^62 iterations are planned, not run", loop("Loop(many,_,x)", same, constants{"many": ints(nil, 1<<62)}), "float32[2,3], float32[?,2,3]"},
		{"the largest number stands for no limit", loop("Loop(many,c,x)", same, constants{"many": ints(nil, 1<<63-1)}), "float32[2,3], float32[?,2,3]"},
		{"a carried value that grows is followed", loop("Loop(five,_,x)", grow, five), "float32[64,3], int64[5,2]"},
		{"and bounded where the loop may end before", loop("Loop(five,c,x)", grow, five), "float32[<=64,3], int64[<=5,2]"},
		{"without a bound it is unknown", loop("Loop(m,_,x)", grow, nil), "float32[?,3], int64[?,2]"},
		{"a carried value that is no constant", counted, "int64[5]"},
		{"a carried value of another type", loop("Loop(five,_,x)", "w=Shape(v); r=Relu(v)", five), "error: carried value 0 is float32[2,3], but the body makes int64"},
		{"a body of other inputs", loop("Loop(five,_,x,x)", same, five), "error: body has 3 inputs, expected 4"},
		{"no body", graphSpec{in: "x m c", out: "y", nodes: "y=Loop(m,c,x)", types: in}, `error: attribute "body" is missing: expected a graph`},
	})
}

// TestLoopBodyHoldsForAllIterations: after inference, the tensors of a loop's body have
// the largest type of any iteration.
func TestLoopBodyHoldsForAllIterations(t *testing.T) {
	m, got := graphSpec{
		in: "x", out: "y", nodes: "y=Loop(five,_,x)", types: tensors{"x": floats(2)}, data: constants{"five": ints(nil, 5)},
		bodies: nodeBodies{"y": {"body": {in: "i k v", out: "k w", nodes: "w=Concat(v,v)", attrs: nodeAttrs{"w": {attrInt("axis", 0)}}}}},
	}.infer(t)
	if got != "float32[64]" {
		t.Fatal(got)
	}
	body := m.Graph.Nodes[0].Attr("body").Graph
	if v := body.Tensors[body.Inputs[2]].Type.String(); v != "float32[<=32]" {
		t.Errorf("the carried value is %s in the body, expected float32[<=32]", v)
	}
	if w := body.Tensors[body.Outputs[1]].Type.String(); w != "float32[<=64]" {
		t.Errorf("the body makes %s, expected float32[<=64]", w)
	}
}

// TestEndlessLoopsAreNotFollowed: of a loop that nothing known ends, the iterations tell
// nothing, and following them would take what inference may spend on the others.
func TestEndlessLoopsAreNotFollowed(t *testing.T) {
	grow := graphSpec{in: "i k v", out: "k w", nodes: "w=Concat(v,x)", attrs: nodeAttrs{"w": {attrInt("axis", 0)}}}
	s := graphSpec{
		in: "x m", out: "y", types: tensors{"x": floats(2), "m": graph.TensorOf(graph.Int64)},
		data: constants{"five": ints(nil, 5)}, bodies: nodeBodies{"y": {"body": grow}},
	}
	for i := range 400 {
		name := fmt.Sprint("endless", i)
		s.nodes += name + "=Loop(m,_,x); "
		s.bodies[name] = map[string]graphSpec{"body": grow}
	}
	s.nodes += "y=Loop(five,_,x)"
	if _, got := s.infer(t); got != "float32[12]" {
		t.Errorf("the loop of five iterations makes %s, expected float32[12]", got)
	}
}

func TestScan(t *testing.T) {
	in := tensors{"h": floats(4), "x": floats(7, 4), "z": floats(4, 6, 7), "w": floats(8, 4), "hb": floats(5, 4), "xb": floats(5, 7, 4)}
	body := graphSpec{in: "s e", out: "t r", nodes: "t=Add(s,e); r=Relu(t)"}
	scan := func(call string, b graphSpec, attrs ...*graph.Attr) graphSpec {
		return graphSpec{in: "h x z w hb xb", out: "y r", nodes: "y,r=" + call, types: in, bodies: nodeBodies{"y": {"body": b}}, attrs: nodeAttrs{"y": attrs}}
	}
	one := attrInt("num_scan_inputs", 1)
	runInferCases(t, []inferCase{
		{"along axis 0", scan("Scan(h,x)", body, one), "float32[4], float32[7,4]"},
		{"an axis of the output", scan("Scan(h,x)", body, one, attrInts("scan_output_axes", -1)), "float32[4], float32[4,7]"},
		{"an axis of the input", scan("Scan(z)", graphSpec{in: "e", out: "a b", nodes: "a=Relu(e); b=Relu(e)"}, one, attrInts("scan_input_axes", 1), attrInts("scan_output_axes", 1, 0)), "float32[4,6,7], float32[6,4,7]"},
		{
			"lengths that differ", scan("Scan(x,w)", graphSpec{in: "a b", out: "c d", nodes: "c=Relu(a); d=Relu(b)"}, attrInt("num_scan_inputs", 2)),
			`error: input 1 "w" has shape [8,4], expected a sequence of length 7 as in the others`,
		},
		{
			"a state that changes its shape", scan("Scan(h,x)", graphSpec{in: "s e", out: "t r", nodes: "t=Concat(s,e); r=Relu(e)", attrs: nodeAttrs{"t": {attrInt("axis", 0)}}}, one),
			"error: state 0 is float32[4], but the body makes float32[8] of it: expected the same shape in every iteration",
		},
		{"an axis out of range", scan("Scan(h,x)", body, one, attrInts("scan_input_axes", 2)), "error: scan_input_axes is 2"},
		{"too many axes", scan("Scan(h,x)", body, one, attrInts("scan_input_axes", 0, 0)), "error: scan_input_axes has 2 entries, expected 1"},
		{"directions", scan("Scan(h,x)", body, one, attrInts("scan_input_directions", 2)), "error: scan_input_directions is [2]"},
		{"no scanned input", scan("Scan(h,x)", body), "error: num_scan_inputs is 0, expected one of [1, 2]"},
	})
}

// TestScanOverScanned: what a Scan stacks may overwrite what it scans at the same places in the
// same direction, unless the body reads all of it, or the Scan reads it in another way, too.
func TestScanOverScanned(t *testing.T) {
	in := tensors{"h": floats(4), "x": floats(7, 4), "w": floats(4, 7), "q": floats(7, 4)}
	body := graphSpec{in: "s e", out: "t r", nodes: "t=Add(s,e); r=Relu(t)"}
	two := graphSpec{in: "a b", out: "c d", nodes: "c=Relu(a); d=Relu(b)"}
	one, both := attrInt("num_scan_inputs", 1), attrInt("num_scan_inputs", 2)
	for _, c := range []struct {
		name, call string
		body       graphSpec
		attrs      []*graph.Attr
		want       []graph.Alias
	}{
		{"along axis 0", "Scan(h,x)", body, []*graph.Attr{one}, []graph.Alias{{Out: 1, In: 1}}},
		{"both backwards", "Scan(h,x)", body, []*graph.Attr{one, attrInts("scan_input_directions", 1), attrInts("scan_output_directions", 1)}, []graph.Alias{{Out: 1, In: 1}}},
		{"one backwards", "Scan(h,x)", body, []*graph.Attr{one, attrInts("scan_input_directions", 1)}, nil},
		{"along axis 1", "Scan(h,w)", body, []*graph.Attr{one, attrInts("scan_input_axes", 1), attrInts("scan_output_axes", -1)}, []graph.Alias{{Out: 1, In: 1}}},
		{"another axis", "Scan(h,w)", body, []*graph.Attr{one, attrInts("scan_input_axes", 1)}, nil},
		{"two inputs", "Scan(x,q)", two, []*graph.Attr{both}, []graph.Alias{{Out: 0, In: 0}, {Out: 0, In: 1}, {Out: 1, In: 0}, {Out: 1, In: 1}}},
		{"one of two in the other direction", "Scan(x,x)", two, []*graph.Attr{both, attrInts("scan_input_directions", 0, 1)}, nil},
		{"the body captures it", "Scan(h,x)", graphSpec{in: "s e", out: "t r", nodes: "t=Add(s,e); m=ReduceMean(x); r=Mul(t,m)"}, []*graph.Attr{one}, nil},
	} {
		spec := graphSpec{in: "h x w q", out: "y r", nodes: "y,r=" + c.call, types: in, bodies: nodeBodies{"y": {"body": c.body}}, attrs: nodeAttrs{"y": c.attrs}}
		m, got := spec.infer(t)
		if strings.HasPrefix(got, "error") {
			t.Fatalf("%s: %s", c.name, got)
		}
		if got := m.Graph.Nodes[0].Semantics.Inplace; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

func TestScanOfVersion8(t *testing.T) {
	s := graphSpec{
		in: "h x", out: "y r", nodes: "y,r=Scan(_,h,x)", types: tensors{"h": floats(5, 4), "x": floats(5, 7, 4)},
		bodies: nodeBodies{"y": {"body": {in: "s e", out: "t r", nodes: "t=Add(s,e); r=Relu(t)"}}}, attrs: nodeAttrs{"y": {attrInt("num_scan_inputs", 1)}},
	}
	m := &graph.Model{Opsets: []graph.Opset{{Version: 8}}, Graph: s.build()}
	if _, err := Infer(m, Options{}); err != nil {
		t.Fatal(err)
	}
	y, r := m.Graph.Tensors[m.Graph.Outputs[0]].Type.String(), m.Graph.Tensors[m.Graph.Outputs[1]].Type.String()
	if y != "float32[5,4]" || r != "float32[5,7,4]" {
		t.Errorf("got %s, %s, want float32[5,4], float32[5,7,4]", y, r)
	}
	if got := m.Graph.Nodes[0].Semantics.FLOPs; got != 5*7*8 {
		t.Errorf("%d operations, expected %d", got, 5*7*8)
	}
}

func TestSequenceMap(t *testing.T) {
	in := tensors{"a": floats(2, 3), "b": floats(5), "s": {Kind: graph.KindSequence, Of: new(floats(3))}}
	body := graphSpec{in: "e", out: "r", nodes: "r=Shape(e)"}
	runInferCases(t, []inferCase{
		{"items that are known keep their types", graphSpec{
			in: "a b", out: "x", nodes: "l=SequenceConstruct(a,b); q=SequenceMap(l); x=SequenceAt(q,zero)",
			types: in, data: constants{"zero": ints(nil, 0)}, bodies: nodeBodies{"q": {"body": body}},
		}, "int64[2]"},
		{"the others that of any item", graphSpec{in: "s", out: "q", nodes: "q=SequenceMap(s)", types: in, bodies: nodeBodies{"q": {"body": body}}}, "sequence(int64[1])"},
		{"a tensor is no sequence", graphSpec{in: "a", out: "q", nodes: "q=SequenceMap(a)", types: in, bodies: nodeBodies{"q": {"body": body}}}, "error: input 0 \"a\" has shape [2,3], expected a sequence"},
	})
}

// If the number of iterations is unknown, the types in the body hold for every
// iteration, not only for the last one that inference followed.
func TestLoopWithoutEnd(t *testing.T) {
	m, got := graphSpec{
		in: "m x", out: "y", nodes: "y=Loop(m,_,x)", types: tensors{"m": graph.TensorOf(graph.Int64), "x": floats(2)},
		bodies: nodeBodies{"y": {"body": {in: "i c v", out: "d w", nodes: "d=Identity(c); w=Concat(v,v)", attrs: nodeAttrs{"w": {attrInt("axis", 0)}}}}},
	}.infer(t)
	if got != "float32[?]" {
		t.Fatal(got)
	}
	for _, x := range m.Graph.Nodes[0].Attr("body").Graph.Tensors {
		if (x.Name == "v" || x.Name == "w") && x.Type.Shape[0] != graph.Unknown {
			t.Errorf("tensor %q of the body is %v, expected float32[?]", x.Name, x.Type)
		}
	}
}
