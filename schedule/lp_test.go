package schedule

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteLP(t *testing.T) {
	p := parse(t, "x:4; a:8=A(x); b:8>a=B(a) ws 4; c:0=C(a); d:4=D(b, c); out d")
	p.Name = "a\nb"
	var b bytes.Buffer
	if err := WriteLP(&b, p); err != nil {
		t.Fatal(err)
	}
	// a is held until both of its readers have run, at step 1 or 2: p1_1.
	// b may be written over it if c has run.
	want := `\ The smallest peak of "a\nb": 4 nodes, 5 tensors, 1 in-place pairs.
\ OLLA (Steiner et al. 2022), equations 1-5 and 10-14. One unit is 4 bytes.
\ x0_*: node "a" (A)
\ x1_*: node "b" (B)
\ x2_*: node "c" (C)
\ x3_*: node "d" (D)
\ y0_*: tensor 2 "b" over tensor 1 "a"
Minimize
 peak: peak
Subject To
 c2_1_1: - x0_0 <= -1
 c4_1_1_2: x1_2 - p1_2 <= 0
 c4_1_2_2: x2_2 - p1_2 <= 0
 c1_2_2: p2_2 + x1_2 <= 1
 c2_2_2: p2_2 - x1_1 <= 0
 c2_2_3: - p2_2 - x1_2 <= -1
 c12_4: x3_3 = 1
 c3_0: x0_0 = 1
 c3_1: x1_1 + x1_2 = 1
 c3_2: x2_1 + x2_2 = 1
 c3_3: x3_3 = 1
 s_0: x0_0 = 1
 s_1: x1_1 + x2_1 = 1
 s_2: x1_2 + x2_2 = 1
 s_3: x3_3 = 1
 r_0_2_2: y0_2 - x2_1 <= 0
 m_0_2_2: y0_2 - x1_2 <= 0
 m_0_1_2: y0_2 - x1_2 <= 0
 c13_0: 2 x0_0 - peak <= -1
 c13_1: 3 x1_1 - peak <= -2
 c13_2: 3 x1_2 + 2 p1_2 + 2 p2_2 - 2 y0_2 - peak <= 0
 c13_3: x3_3 - peak <= -2
Bounds
 p1_2 <= 1
 p2_2 <= 1
Binaries
 x0_0
 x1_1
 x1_2
 x2_1
 x2_2
 x3_3
Generals
 peak
End
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
}

func TestWriteLPFails(t *testing.T) {
	if err := WriteLP(io.Discard, &Problem{Nodes: []Node{{Workspace: -1}}}); err == nil {
		t.Error("an invalid problem is written")
	}
	if err := WriteLP(broken{}, layered(10)); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// lpRows are the rows of an LP file. Each compares a sum of coefficients times variables
// with its right side.
type lpRows []struct {
	name     string
	coef     map[string]int64
	equal    bool
	right    int64
	variable []string
}

func readLP(t *testing.T, text string) (rows lpRows) {
	t.Helper()
	_, text, _ = strings.Cut(text, "Subject To\n")
	text, _, _ = strings.Cut(text, "Bounds\n")
	for _, line := range strings.Split(strings.ReplaceAll(text, "\n  ", " "), "\n") {
		if line == "" {
			continue
		}
		var row struct {
			name     string
			coef     map[string]int64
			equal    bool
			right    int64
			variable []string
		}
		fields := strings.Fields(line)
		row.name, row.coef = fields[0], map[string]int64{}
		sign, size := int64(1), int64(1)
		for i, s := range fields[1:] {
			n, err := strconv.ParseInt(s, 10, 64)
			switch {
			case s == "+":
			case s == "-":
				sign = -1
			case s == "<=" || s == "=":
				row.equal = s == "="
			case err == nil && i == len(fields)-2:
				row.right = n
			case err == nil:
				size = n
			default:
				if _, twice := row.coef[s]; twice {
					t.Fatalf("%s: %s occurs twice", row.name, s)
				}
				row.coef[s] = sign * size
				sign, size = 1, 1
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// broken returns the first row that an assignment violates.
func (rows lpRows) broken(value map[string]int64) string {
	for _, row := range rows {
		var sum int64
		for name, coef := range row.coef {
			sum += coef * value[name]
		}
		if sum > row.right || row.equal && sum < row.right {
			return row.name
		}
	}
	return ""
}

// Each order is a solution of the program, and it is tight: no held tensor can be released,
// no further pair can be taken, and peak cannot be lowered.
func TestOrdersSolveTheLP(t *testing.T) {
	for i := range randomGraphs(t, 300) {
		r := rand.New(rand.NewPCG(uint64(i), 4))
		p := randomProblem(r, 9)
		var b bytes.Buffer
		if err := WriteLP(&b, p); err != nil {
			t.Fatal(err)
		}
		rows := readLP(t, b.String())
		f := index(p)
		draw := make([]int64, f.Nodes)
		for v := range draw {
			draw[v] = r.Int64()
		}
		order := kahn(f, func(a, b int32) bool { return draw[a] < draw[b] })
		e := evaluate(f, order, AllPairs)
		value := map[string]int64{"peak": e.Peak / unit(f)}
		step := make([]int, f.Nodes)
		name := func(kind string, i, step int) string { return kind + strconv.Itoa(i) + "_" + strconv.Itoa(step) }
		for s, v := range order {
			step[v] = s
			value[name("x", int(v), s)] = 1
		}
		known := map[string]bool{}
		for _, row := range rows {
			for x := range row.coef {
				known[x] = true
			}
		}
		var held, saved []string
		for t := range f.Size {
			from, to := 0, -1
			if m := f.Producer[t]; m >= 0 {
				from = step[m] + 1
			}
			for _, r := range f.Readers.Of(int32(t)) {
				to = max(to, step[r])
			}
			if f.Output[t] {
				to = f.Nodes - 1
			}
			for s := from; s <= to; s++ {
				value[name("p", t, s)] = 1
				if known[name("p", t, s)] {
					held = append(held, name("p", t, s))
				}
			}
		}
		for k, pair := range f.Pairs {
			y := name("y", k, step[pair.Node])
			if slices.Contains(e.Taken, pair) {
				value[y] = 1
			} else if known[y] {
				saved = append(saved, y)
			}
		}
		if row := rows.broken(value); row != "" {
			t.Fatalf("graph %d: %s is violated by the order %v with peak %d:\n%s", i, row, order, e.Peak, &b)
		}
		for _, x := range append(append(held, saved...), "peak") {
			if x == "peak" && value[x] == 0 {
				continue
			}
			was := value[x]
			value[x] = max(1-was, 0)
			if x == "peak" {
				value[x] = was - 1
			}
			if row := rows.broken(value); row == "" {
				t.Fatalf("graph %d: %s may be %d, but is %d, in the order %v:\n%s", i, x, value[x], was, order, &b)
			}
			value[x] = was
		}
	}
}

// HiGHS confirms the optimum of these problems in make crosscheck. Here brute force does so
// for those of few nodes.
func TestCrosscheckProblems(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("..", "crosscheck", "problems", "*.json"))
	if len(files) != 10 {
		t.Errorf("%d problems, want 10", len(files))
	}
	for _, path := range files {
		p := readFile(t, path)
		r, err := Solve(context.Background(), p, Options{})
		if err != nil || !r.Optimal {
			t.Errorf("%s: peak %d, bound %d, %v: not proven", path, r.Evaluation.Peak, r.Bound, err)
		}
		if len(p.Nodes) > 12 {
			continue
		}
		if best := newBrute(p, true).optimum(); best != r.Evaluation.Peak {
			t.Errorf("%s: peak %d, want %d", path, r.Evaluation.Peak, best)
		}
	}
}

func TestSpans(t *testing.T) {
	for _, p := range []*Problem{layered(200), transformer(150)} {
		f := index(p)
		first, last := spans(f)
		preds := f.Precedence()
		for v := range int32(f.Nodes) {
			ancestors := map[int32]bool{}
			todo := []int32{v}
			for len(todo) > 0 {
				u := todo[0]
				todo = todo[1:]
				for _, w := range preds.Of(u) {
					if !ancestors[w] {
						ancestors[w] = true
						todo = append(todo, w)
					}
				}
			}
			if first[v] != len(ancestors) {
				t.Fatalf("node %d: first step %d, has %d ancestors", v, first[v], len(ancestors))
			}
			for u := range ancestors {
				if last[u] >= last[v] {
					t.Fatalf("node %d: last step %d, that of its descendant %d is %d", u, last[u], v, last[v])
				}
			}
		}
	}
}
