package bare_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/bare"
	"github.com/onnxmem/onnxmem/internal/proof/prooftest"
	"github.com/onnxmem/onnxmem/schedule"
)

// numbered is a problem whose nodes have the numbers of their steps in an order, with the result
// for it.
func numbered(p *schedule.Problem, r *schedule.Result) (*schedule.Problem, *schedule.Result) {
	at := make([]int32, len(r.Order))
	q, s := &schedule.Problem{}, *r
	s.Order = nil
	for i, v := range r.Order {
		at[v] = int32(i)
		q.Nodes = append(q.Nodes, p.Nodes[v])
		s.Order = append(s.Order, int32(i))
	}
	steps := func(nodes []int32) (list []int32) {
		for _, v := range nodes {
			list = append(list, at[v])
		}
		return list
	}
	for _, x := range p.Tensors {
		if x.Producer >= 0 {
			x.Producer = at[x.Producer]
		}
		x.Consumers = steps(x.Consumers)
		q.Tensors = append(q.Tensors, x)
	}
	s.Certificates = slices.Clone(r.Certificates)
	for i := range s.Certificates {
		s.Certificates[i].Nodes = steps(s.Certificates[i].Nodes)
	}
	return q, &s
}

// plain places the buffers of an order and returns all as plain text, in the form of
// docs/formats/plain.md.
func plain(t *testing.T, p *schedule.Problem, r *schedule.Result) string {
	t.Helper()
	lifetimes, err := p.Lifetimes(r.Order, r.Evaluation.Taken)
	if err != nil {
		t.Fatal(err)
	}
	var q alloc.Problem
	for _, l := range lifetimes {
		q.Buffers = append(q.Buffers, alloc.Buffer{Size: l.Bytes, First: l.First, Last: l.Last})
	}
	placed, err := alloc.Solve(context.Background(), q, alloc.Options{Effort: alloc.EffortFast})
	if err != nil {
		t.Fatal(err)
	}
	p, r = numbered(p, r)
	facts := bare.Problem(p).Facts()
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	fmt.Fprintf(w, "onnxmem plan 1\nsteps %d\narena %d\npeak %d\n%s", len(r.Order), placed.Arena, r.Evaluation.Peak, facts)
	for i, l := range lifetimes {
		fmt.Fprintf(w, "buffer %d %d %d %d", placed.Offsets[i], l.Bytes, l.First, l.Last)
		for _, t := range l.Tensors {
			fmt.Fprintf(w, " %d", t)
		}
		fmt.Fprintln(w)
	}
	c := bare.Claim(p, r)
	c.WritePlain(w, facts)
	fmt.Fprintln(w, "end")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// plainChecker is the path of the checkers in proofs, as a program; empty if it is not there.
func plainChecker() string { return os.Getenv("ONNXMEM_PLAIN_CHECKER") }

// ask has the checkers in proofs read plans, and returns what they say of each.
func ask(t *testing.T, texts ...string) (says []string) {
	t.Helper()
	dir := t.TempDir()
	var files []string
	for i, text := range texts {
		files = append(files, filepath.Join(dir, strconv.Itoa(i)))
		if err := os.WriteFile(files[i], []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := exec.Command(plainChecker(), files...).Output() // the status is 1 if one is wrong
	for i, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		said, is := strings.CutPrefix(line, files[i]+": ")
		if !is {
			t.Fatalf("expected a verdict on %s, found %q", files[i], line)
		}
		says = append(says, said)
	}
	if len(says) != len(texts) {
		t.Fatalf("expected %d verdicts, found %d", len(texts), len(says))
	}
	return says
}

// checkPlain has the checkers in proofs read a planned problem, if they are there: they accept the
// plan, and the bound wherever it has a proof.
func checkPlain(t *testing.T, name string, p *schedule.Problem, r *schedule.Result, refused string) {
	t.Helper()
	if plainChecker() == "" {
		return
	}
	want := fmt.Sprintf("right; no order has a peak below %d", r.Bound)
	if refused != "" {
		want = "right; no bound is proven: "
	}
	if says := ask(t, plain(t, p, r))[0]; !strings.HasPrefix(says, want) {
		t.Errorf("%s: expected %q, found %q", name, want, says)
	}
}

// spoil changes one number of the lines of some kinds by one, or one literal to its opposite.
// It returns "" if there is none.
func spoil(r *rand.Rand, text string, kinds func(section, kind string) bool) string {
	lines := strings.Split(text, "\n")
	section := ""
	var places [][2]int
	for i, line := range lines {
		words := strings.Fields(line)
		if len(words) > 0 && kinds(section, words[0]) {
			for k, w := range words {
				if k > 0 && strings.ContainsAny(w, "0123456789") && w != "-1" {
					places = append(places, [2]int{i, k})
				}
			}
		}
		if line == "formula" || line == "proof" {
			section = line
		}
	}
	if len(places) == 0 {
		return ""
	}
	at := places[r.IntN(len(places))]
	words := strings.Fields(lines[at[0]])
	w := words[at[1]]
	if n, err := strconv.Atoi(w); err == nil {
		words[at[1]] = strconv.Itoa(n + 1)
	} else if rest, negated := strings.CutPrefix(w, "~"); negated {
		words[at[1]] = rest
	} else if n, err := strconv.Atoi(strings.TrimLeft(w, "+-")); err == nil {
		words[at[1]] = w[:1] + strconv.Itoa(n+1)
	} else {
		words[at[1]] = "~" + w
	}
	lines[at[0]] = strings.Join(words, " ")
	return strings.Join(lines, "\n")
}

// TestJoined: what neither the rules of plans nor those of bounds refuse, but their theorem does.
func TestJoined(t *testing.T) {
	if plainChecker() == "" {
		t.Skip("ONNXMEM_PLAIN_CHECKER names no checker: make proofs extracts it")
	}
	const twice = "a tensor that lies twice, or a parameter that is written over before its last reader"
	for _, c := range []struct{ name, arena, more, want string }{
		{"right", "8", "", "right; no bound is proven: it is short"},
		{"a tensor in two buffers", "12", "buffer 8 4 1 1 2\n", "wrong: " + twice},
		{"written behind its reader", "8", "written 3 4 1 1 0 0\n", "right; no bound is proven: it is short"},
		{"written before its reader", "8", "written 3 4 0 1 0 1\n", "wrong: " + twice},
		{"written at the step of its reader", "8", "written 3 4 1 1 0 1\n", "wrong: " + twice},
	} {
		text := "onnxmem plan 1\nsteps 2\narena " + c.arena + "\npeak " + c.arena + "\nedge 0 1\ntensor 0 4 -1 0 0\ntensor 1 4 0 0 1\ntensor 2 4 1 1\n" +
			c.more + "buffer 0 4 0 0 0\nbuffer 4 4 0 1 1\nbuffer 0 4 1 1 2\nunproven it is short\nend\n"
		if says := ask(t, text)[0]; says != c.want {
			t.Errorf("%s: expected %q, found %q", c.name, c.want, says)
		}
	}
}

// TestSpoilt: of 1,200 plans in plain text with one number or literal changed, in the bound, its
// zones, its formula or its proof, each that is accepted claims a bound that is none above the
// optimum; in the formula, none is accepted. Half of them have proofs by zones.
func TestSpoilt(t *testing.T) {
	if plainChecker() == "" {
		t.Skip("ONNXMEM_PLAIN_CHECKER names no checker: make proofs extracts it")
	}
	parts := map[string]func(section, kind string) bool{
		"bound":   func(section, kind string) bool { return section == "" && kind == "bound" },
		"zone":    func(section, kind string) bool { return section == "" && kind == "zone" },
		"formula": func(section, kind string) bool { return section == "formula" && kind != "*" && kind != "proof" },
		"proof":   func(section, kind string) bool { return section == "proof" && kind != "conclusion" },
	}
	refused := map[string]int{}
	for _, zones := range []bool{false, true} {
		for part, kinds := range parts {
			if part == "zone" && !zones {
				continue
			}
			what := part
			if zones {
				what += " by zones"
			}
			var texts []string
			var optima []int64
			for seed := uint64(0); len(texts) < 200 && seed < 1000; seed++ {
				r := rand.New(rand.NewPCG(seed, 11))
				p := draw(r)
				x, err := schedule.Solve(context.Background(), p, schedule.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if zones {
					x.Certificates = []schedule.Certificate{{Kind: schedule.KindSearch, Value: x.Bound}}
				}
				text := plain(t, p, x)
				if zones && !strings.Contains(text, "\nzone ") {
					continue // none is found, or the bound is 0
				}
				if text = spoil(r, text, kinds); text != "" {
					optimum, _ := prooftest.Optimum(bare.Problem(p), nil, false)
					texts, optima = append(texts, text), append(optima, optimum)
				}
			}
			if len(texts) < 200 {
				t.Fatalf("%s: expected 200 plans, found %d", what, len(texts))
			}
			for i, says := range ask(t, texts...) {
				var bound int64
				if _, err := fmt.Sscanf(says, "right; no order has a peak below %d", &bound); err != nil {
					refused[what]++
				} else if bound > optima[i] || part == "formula" {
					t.Errorf("%s: a peak of %d is possible, and the checker says %q:\n%s", what, optima[i], says, texts[i])
				}
			}
		}
	}
	t.Logf("refused of 200 each: %v", refused)
	for what, n := range refused {
		if least := map[bool]int{true: 100, false: 150}[strings.HasPrefix(what, "proof")]; n < least {
			t.Errorf("expected %d of 200 with a spoilt %s to be refused, found %d", least, what, n)
		}
	}
	if len(refused) != 7 {
		t.Errorf("expected refusals of 7 kinds, found %v", refused)
	}
}
