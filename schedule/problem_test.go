package schedule

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidate(t *testing.T) {
	long := &Problem{}
	for v := range int32(100) {
		long.Nodes = append(long.Nodes, Node{})
		long.Tensors = append(long.Tensors, Tensor{Producer: v, Consumers: []int32{(v + 1) % 100}})
	}
	change := func(f func(p *Problem)) *Problem {
		p := parse(t, "x:4; a:8=A(x); b:2=B(a); out b")
		f(p)
		return p
	}
	for _, c := range []struct {
		name string
		p    *Problem
		want string
	}{
		{"nothing", &Problem{}, ""},
		{"a chain", change(func(*Problem) {}), ""},
		{"a negative size", change(func(p *Problem) { p.Tensors[1].Bytes = -8 }), `tensor 1 "a": bytes: expected 0 or more, found -8`},
		{"a negative workspace", change(func(p *Problem) { p.Nodes[1].Workspace = -1 }), `node "b" (B): workspace: expected 0 or more bytes, found -1`},
		{"a negative cost", change(func(p *Problem) { p.Nodes[1].Cost = -1 }), `node "b" (B): cost: expected 0 or more nanoseconds, found -1`},
		{"a sum above int64", change(func(p *Problem) { p.Tensors[1].Bytes = math.MaxInt64 - 3 }), `tensor 1 "a": size of 9223372036854775804 bytes: all sizes together pass 9223372036854775807`},
		{"workspace above int64", change(func(p *Problem) { p.Nodes[0].Workspace, p.Nodes[1].Workspace = math.MaxInt64, 1 }), `node "b" (B): workspace of 1 bytes: all sizes together pass 9223372036854775807`},
		{"a producer that is no node", change(func(p *Problem) { p.Tensors[1].Producer = 2 }), `tensor 1 "a": producer: expected -1 or a node below 2, found 2`},
		{"a producer below -1", change(func(p *Problem) { p.Tensors[1].Producer = -2 }), `tensor 1 "a": producer: expected -1 or a node below 2, found -2`},
		{"a consumer that is no node", change(func(p *Problem) { p.Tensors[1].Consumers = []int32{1, -1} }), `tensor 1 "a": consumers[1]: expected a node below 2, found -1`},
		{"a reuse that is no tensor", change(func(p *Problem) { p.Tensors[1].Reuses = Reuses{3} }), `tensor 1 "a": reuses[0]: expected a tensor below 3, found 3`},
		{"an argument that is no tensor", change(func(p *Problem) { p.Nodes[1].Args = []int32{9} }), `node "b" (B): args[0]: expected a tensor below 3, found 9`},
		{"a cycle", parse(t, "a:1=A(c); b:1=B(a); c:1=C(b); d:1=D(c)"), `nodes form a cycle: "a" -> "b" -> "c" -> "a"`},
		{"a cycle of two", parse(t, "x:1; z:1=Z(x); a:1=A(b); b:1=B(a, z)"), `nodes form a cycle: "a" -> "b" -> "a"`},
		{"a long cycle is cut", long, "nodes form a cycle: 0 -> 1 -> 2 -> 3 -> ... 93 more ... -> 97 -> 98 -> 99 -> 0"},
		{"a maker among its readers is no cycle", parse(t, "a:1=A(a)"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.p.Validate()
			var e *Error
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v, want nil", err)
			case c.want != "" && (err == nil || err.Error() != c.want):
				t.Errorf("got %v\nwant %s", err, c.want)
			case c.want != "" && !errors.As(err, &e):
				t.Errorf("got a %T, want an *Error", err)
			}
		})
	}
}

func TestSolveRefuses(t *testing.T) {
	if _, err := Solve(context.Background(), parse(t, "a:1=A(b); b:1=B(a)"), Options{}); err == nil {
		t.Error("a cycle was accepted")
	}
	p := parse(t, "x:4; a:8=A(x); out a")
	want := `strategy "best": unknown: expected one of program, greedy, dfs, bfs, reverse-dfs, ort-priority, lpmf, inductor-bfs, inductor-dfs, kahn-size, serenity, roam`
	if _, err := Solve(context.Background(), p, Options{Strategy: "best"}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// When the context ends, Solve returns the best order so far and the reason.
func TestSolveEndsEarly(t *testing.T) {
	p := tangled(2000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := Solve(ctx, p, Options{})
	if err != nil || !errors.Is(r.Ended, context.Canceled) {
		t.Fatalf("got %v, ended %v", err, r.Ended)
	}
	if e, err := p.Evaluate(r.Order); err != nil || e.Peak != r.Evaluation.Peak || e.Peak > r.ProgramPeak {
		t.Errorf("peak %d, %v; want %d, at most %d", e.Peak, err, r.Evaluation.Peak, r.ProgramPeak)
	}
}

const example = `{"name":"tiny","mode":"inference","nodes":[{"name":"A","op":"Conv","workspace":3},{"name":"B","op":"Add","workspace":0,"cost":1000,"args":[1,0],"writes":[0]}],` +
	`"tensors":[{"name":"x","bytes":4,"producer":-1,"consumers":[0,1],"kind":"input","resident":false,"output":false},` +
	`{"name":"a","bytes":4,"producer":0,"consumers":[1],"kind":"activation","resident":false,"output":false,"reuses":0},` +
	`{"name":"b","bytes":4,"producer":1,"consumers":[],"kind":"output","resident":false,"output":true,"reuses":[0,1]}]}`

func TestReadProblem(t *testing.T) {
	plain, err := ReadProblem(strings.NewReader(example))
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := ReadProblem(bytes.NewReader(zipped(t, example)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(plain, unzipped); d != "" {
		t.Errorf("plain - gzipped +:\n%s", d)
	}
	if back, err := json.Marshal(plain); err != nil || string(back) != example {
		t.Errorf("got %s, %v\nwant %s", back, err, example)
	}
}

func TestReadProblemAcceptsATensorWithoutProducer(t *testing.T) {
	p, err := ReadProblem(strings.NewReader(`{"nodes":[{}],"tensors":[{"bytes":4}]}`))
	if err != nil || p.Tensors[0].Producer != -1 {
		t.Errorf("got %+v, %v; want producer -1", p, err)
	}
}

func zipped(tb testing.TB, text string) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, text)
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// A small file takes little memory, however large its text is.
func TestReadProblemStopsABomb(t *testing.T) {
	bomb := zipped(t, `{"nodes":[`+strings.Repeat("{},", 30<<20)+"{}]}")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := ReadProblem(bytes.NewReader(bomb)); err == nil {
		t.Error("read a bomb")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
		t.Errorf("%d bytes of gzip made it allocate %d", len(bomb), n)
	} else {
		t.Log(len(bomb), n, after.HeapSys)
	}
}

// A large problem takes little more than the limit, since its text is not held.
func TestReadProblemBoundsMemory(t *testing.T) {
	text := io.MultiReader(strings.NewReader(`{"nodes":[{}`), endless(",{}"))
	if _, err := ReadProblem(text); err == nil || !strings.Contains(err.Error(), "the problem takes more than 320 MiB of memory") {
		t.Errorf("got %v", err)
	}
	if _, err := ReadProblem(io.MultiReader(strings.NewReader(`{"more":"`), endless("x"))); err == nil || !strings.Contains(err.Error(), "expected at most 16777216 bytes in a value") {
		t.Errorf("got %v", err)
	}
}

// endless reads a text that repeats for ever.
type endless string

func (e endless) Read(b []byte) (int, error) {
	n := 0
	for len(b)-n >= len(e) {
		n += copy(b[n:], e)
	}
	return n, nil
}

func TestReadProblemRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "byte 0: unexpected end of JSON input"},
		{"{", "byte 1: unexpected end of JSON input"},
		{"null", `byte 0: expected an object, found "null"`},
		{`{"nodes":null}`, `nodes: missing: expected a scheduling problem {"nodes": [...], "tensors": [...]}`},
		{`{"nodes":[` + strings.Repeat("{},\n ", 40_000) + `{"workspace":0},{"workspace":1,"workspace":2}]}`, `nodes[40001]: key "workspace" occurs twice`},
		{`{"nodes":[],"tensors":[` + strings.Repeat(`{"name":"x"},`, 20_000) + `{"bytes":1,"Bytes":4}]}`, `tensors[20000]: expected the key "bytes", found "Bytes"`},
		{`{"more":"` + strings.Repeat("x", 17<<20) + `"}`, "more: expected at most 16777216 bytes in a value, found more"},
		{`{"nodes":[{}],}`, `byte 14: expected a key, found "}"`},
		{`{"nodes":[{},]}`, `byte 13: expected a value, found "]}"`},
		{`{"nodes" 5}`, `byte 9: expected ":", found "5}"`},
		{`{"nodes":[{} {}]}`, `byte 13: expected "," or "]", found "{}]}"`},
		{"{}", `nodes: missing: expected a scheduling problem {"nodes": [...], "tensors": [...]}`},
		{example + "x", `byte 501: expected the end of the text, found "x"`},
		{`{"nodes":[],"nodes":[{}]}`, `byte 12: key "nodes" occurs twice`},
		{`{"nodes":[{"workspace":1,"workspace":2}]}`, `byte 25: nodes[0]: key "workspace" occurs twice`},
		{`{"nodes":[],"tensors":[{"bytes":1},{"bytes":1,"Bytes":4}]}`, `byte 46: tensors[1]: expected the key "bytes", found "Bytes"`},
		{`{"nodes":[],"more":[{"x":1,"x":2}]}`, `byte 27: more[0]: key "x" occurs twice`},
		{`{"nodes":[{"workspace":"3"}]}`, "byte 26: nodes.workspace: expected a whole number of 64 bits, found string"},
		{`{"nodes":[],"tensors":[{"bytes":9223372036854775808}]}`, `tensor "": bytes: expected a whole number of 64 bits, found number 9223372036854775808`},
		{`{"nodes":[],"tensors":[{"name":"a","kind":3}]}`, `tensor "a": kind: expected a string, found number`},
		{`{"nodes":[],"tensors":[{"bytes":1,"consumers":[0]}]}`, `tensor 0 "": consumers[0]: expected a node below 0, found 0`},
		{`{"nodes":[],"tensors":[{"reuses":"x"}]}`, `reuses: expected the index of a tensor or a list of them, found "x"`},
		{`{"nodes":[3]}`, "byte 11: nodes: expected an object, found number"},
		{`{"nodes":[],"tensors":["a"]}`, `tensor "": expected an object, found string`},
		{`{"nodes":{}}`, "byte 10: nodes: expected a list, found object"},
		{`{"nodes":[{}`, "byte 12: unexpected end of JSON input"},
		{`{"nodes":[{]}`, "byte 11: nodes: invalid character ']'"},
		{`{"more":{"x":[1,{}]},"nodes":[],"tensors":[{"bytes":-1}]}`, `tensor 0 "": bytes: expected 0 or more, found -1`},
		{"\x1f\x8b", "gzip: unexpected EOF"},
		{string(zipped(t, example)[:60]), "gzip: unexpected EOF"},
		{string(zipped(t, `{"nodes":[`+strings.Repeat("{},", 4<<20)+"{}]}")), "inflate to more than 100 times as many"},
		{string(zipped(t, strings.Repeat(" ", 20<<20)+"{}")), "inflate to more than 100 times as many"},
	} {
		if _, err := ReadProblem(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

// A problem that can be read is valid, can be solved, and reads back as itself.
func FuzzReadProblem(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(`{"nodes":[{}],"tensors":[{"producer":0,"consumers":[0]}]}`))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add(zipped(f, example))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadProblem(bytes.NewReader(text))
		if err != nil {
			return
		}
		if _, err := Solve(context.Background(), p, Options{}); err != nil {
			t.Fatalf("read but not solved: %v", err)
		}
		back, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ReadProblem(bytes.NewReader(back))
		if err != nil {
			t.Fatalf("%s: %v", back, err)
		}
		again, _ := json.Marshal(q)
		if !bytes.Equal(back, again) {
			t.Fatalf("got %s\nthen %s", back, again)
		}
	})
}

func TestRounded(t *testing.T) {
	p := &Problem{
		Nodes:   []Node{{Name: "a", Workspace: 1}, {Name: "b"}},
		Tensors: []Tensor{{Name: "x", Bytes: 65, Producer: 0, Consumers: []int32{1}}, {Name: "y", Bytes: 128, Producer: 1, Output: true}},
	}
	q, err := p.Rounded(64)
	if err != nil {
		t.Fatal(err)
	}
	if got := [3]int64{q.Nodes[0].Workspace, q.Tensors[0].Bytes, q.Tensors[1].Bytes}; got != [3]int64{64, 128, 128} {
		t.Errorf("rounded to %v, want 64, 128, 128", got)
	}
	if p.Nodes[0].Workspace != 1 || p.Tensors[0].Bytes != 65 {
		t.Error("the problem itself changed")
	}
	for _, c := range []struct {
		bytes, to int64
		want      string
	}{
		{64, 0, "alignment: expected 1 or more bytes, found 0"},
		{math.MaxInt64 - 1, 64, `tensor 0 "x": size of 9223372036854775806 bytes: rounded up to 64 it passes 9223372036854775807`},
		{math.MaxInt64 - 191, 64, `tensor 1 "y": size of 128 bytes: all sizes together pass 9223372036854775807`},
	} {
		p.Tensors[0].Bytes = c.bytes
		if _, err := p.Rounded(c.to); err == nil || err.Error() != c.want {
			t.Errorf("%d to %d: got %v, want %s", c.bytes, c.to, err, c.want)
		}
	}
}
