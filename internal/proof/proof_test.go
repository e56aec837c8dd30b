package proof_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/internal/proof/prooftest"
)

// draw draws a problem of 1 to most nodes: tensors of few sizes, some of them inputs, outputs,
// unread or of 0 bytes, workspaces, pairs, and writes over parameters.
func draw(r *rand.Rand, most int) *model.Problem {
	n := 1 + r.IntN(most)
	p := &model.Problem{Before: make([][]int32, n), Work: make([]int64, n), Pairs: make([][]model.Pair, n)}
	some := func(from, count int) (list []int32) {
		for range count {
			if from < n {
				list = append(list, int32(from+r.IntN(n-from)))
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	for v := -3; v < n; v++ {
		for range r.IntN(3) {
			x := model.Tensor{Bytes: r.Int64N(4) * 7, Maker: int32(max(v, -1)), Output: r.IntN(9) == 0, Readers: some(max(v+1, 0), r.IntN(4))}
			if x.Maker >= 0 {
				for _, w := range x.Readers {
					p.Before[w] = append(p.Before[w], x.Maker)
				}
			}
			p.Tensors = append(p.Tensors, x)
		}
		if v >= 0 && r.IntN(3) == 0 {
			p.Work[v] = r.Int64N(20)
		}
		if v >= 0 && r.IntN(6) == 0 {
			others := slices.DeleteFunc(some(0, 2), func(w int32) bool { return int(w) == v })
			p.Written = append(p.Written, model.Written{Bytes: 1 + r.Int64N(9), Maker: int32(v), Others: others, AtOnce: r.IntN(2) == 0, Later: r.IntN(2) == 0})
		}
	}
	for result, x := range p.Tensors {
		for over, y := range p.Tensors {
			if x.Maker >= 0 && x.Bytes > 0 && x.Bytes == y.Bytes && !y.Output && slices.Contains(y.Readers, x.Maker) && r.IntN(4) > 0 {
				p.Pairs[x.Maker] = append(p.Pairs[x.Maker], model.Pair{Result: int32(result), Over: int32(over)})
			}
		}
	}
	return p
}

// order draws an order of the nodes.
func order(r *rand.Rand, p *model.Problem) (list []int32) {
	ran := make([]bool, len(p.Before))
	for len(list) < len(ran) {
		v := int32(r.IntN(len(ran)))
		if ran[v] || slices.ContainsFunc(p.Before[v], func(w int32) bool { return !ran[w] }) {
			continue
		}
		ran[v] = true
		list = append(list, v)
	}
	return list
}

// decides returns the load of the node of a set that runs first, or last, in an order.
func decides(p *model.Problem, set []int32, last bool, order []int32) (load int64) {
	ran := make([]bool, len(p.Before))
	for _, v := range order {
		if slices.Contains(set, v) && !slices.ContainsFunc(set, func(a int32) bool { return a != v && ran[a] != last }) {
			return prooftest.Load(p, ran, v)
		}
		ran[v] = true
	}
	return 0
}

// written is a claim with its files.
type written struct {
	opb, pbp     string
	lower, upper int64
}

func write(p *model.Problem, set []int32, last bool, bound int64, order []int32) (w written, err error) {
	var opb, pbp strings.Builder
	w.lower = bound
	w.upper, err = proof.Write(&opb, &pbp, p, model.Encode(p, set, last), bound, order)
	w.opb, w.pbp = opb.String(), pbp.String()
	return w, err
}

// provable is the least load of the node of a set, without inputs that nobody reads. These count
// at the first step alone, and are proven only where no other step can be the node's.
func provable(p *model.Problem, set []int32, last bool) int64 {
	q := *p
	q.Tensors = slices.Clone(p.Tensors)
	for i := range q.Tensors {
		if x := &q.Tensors[i]; x.Maker < 0 && len(x.Readers) == 0 && !x.Output {
			x.Bytes = 0
		}
	}
	_, least := prooftest.Optimum(&q, set, last)
	return least
}

// drawn is a random problem with a set of its nodes.
func drawn(seed uint64) (r *rand.Rand, p *model.Problem, set []int32, last bool) {
	r = rand.New(rand.NewPCG(seed, 7))
	p = draw(r, 8)
	for len(set) == 0 {
		for v := range p.Before {
			if r.IntN(3) == 0 {
				set = append(set, int32(v))
			}
		}
	}
	if r.IntN(3) == 0 {
		set = set[:1]
	}
	return r, p, set, r.IntN(2) == 0
}

// TestOptimum: what is proven of random problems is the least load that any order gives the
// node, found by going through all states. One byte more has no proof. The values that go with
// an order keep all constraints, and cost the load that the order has there.
func TestOptimum(t *testing.T) {
	inexact := 0
	for seed := range uint64(1500) {
		r, p, set, last := drawn(seed)
		_, least := prooftest.Optimum(p, set, last)
		o := order(r, p)
		w, err := write(p, set, last, least, o)
		if err != nil {
			most := least
			if least = provable(p, set, last); least < most {
				inexact++
				w, err = write(p, set, last, least, o)
			}
		}
		if err != nil {
			t.Fatalf("seed %d: set %v, last %v: %v", seed, set, last, err)
		}
		if lower, upper, err := prooftest.Check(w.opb, w.pbp); err != nil || lower != least || upper != w.upper {
			t.Fatalf("seed %d: set %v, last %v: expected a proof of %d, found %d to %d (%v)\n%s%s", seed, set, last, least, lower, upper, err, w.opb, w.pbp)
		}
		if load := decides(p, set, last, o); w.upper != load {
			t.Errorf("seed %d: set %v, last %v: the values of an order with load %d cost %d", seed, set, last, load, w.upper)
		}
		if _, most := prooftest.Optimum(p, set, last); true {
			if _, err := write(p, set, last, most+1, o); err == nil {
				t.Errorf("seed %d: set %v, last %v: a proof of one byte more than %d", seed, set, last, most)
			}
		}
	}
	if inexact > 100 {
		t.Errorf("%d of 1500 bounds are not exact, expected at most 100", inexact)
	}
}

// damage changes a proof in one place.
func damage(r *rand.Rand, pbp string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(pbp, "\n"), "\n")
	i := 1 + r.IntN(len(lines)-1)
	words := strings.Fields(lines[i])
	k := r.IntN(len(words))
	switch r.IntN(4) {
	case 0:
		return strings.Join(slices.Delete(lines, i, i+1), "")
	case 1:
		words = slices.Delete(words, k, k+1)
	case 2:
		words[k] += fmt.Sprint(r.IntN(10))
	default:
		words[k] = words[r.IntN(len(words))]
	}
	lines[i] = strings.Join(words, " ") + "\n"
	return strings.Join(lines, "")
}

// TestDamaged: proofs that are changed in one place are refused, or prove no more than the
// right one. One that claims a byte more is refused.
func TestDamaged(t *testing.T) {
	refused, refusedByVeriPB := 0, 0
	for seed := range uint64(400) {
		r, p, set, last := drawn(seed)
		_, optimum := prooftest.Optimum(p, set, last)
		least := provable(p, set, last)
		w, err := write(p, set, last, least, order(r, p))
		if err != nil {
			t.Fatal(err)
		}
		bad := damage(r, w.pbp)
		lower, upper, err := prooftest.Check(w.opb, bad)
		if err != nil {
			refused++
		} else if lower > optimum || upper < optimum {
			t.Errorf("seed %d: a damaged proof concludes %d to %d, expected the optimum %d between them:\n%s%s", seed, lower, upper, optimum, w.opb, bad)
		}
		more := strings.Replace(w.pbp, fmt.Sprintf("BOUNDS %d :", least), fmt.Sprintf("BOUNDS %d :", least+1), 1)
		if _, _, err := prooftest.Check(w.opb, more); err == nil {
			t.Errorf("seed %d: a proof of %d passes for one of %d", seed, least, least+1)
		}
		if prooftest.Installed() == "" || seed >= 200 {
			continue
		}
		dir := t.TempDir()
		if _, _, err := prooftest.VeriPB(dir, w.opb, w.pbp); err != nil {
			t.Errorf("seed %d: VeriPB refuses a proof: %v", seed, err)
		}
		if lower, upper, err := prooftest.VeriPB(dir, w.opb, bad); err != nil {
			refusedByVeriPB++
		} else if lower > optimum || upper < optimum {
			t.Errorf("seed %d: VeriPB takes a damaged proof of %d to %d, expected the optimum %d between them", seed, lower, upper, optimum)
		}
	}
	if prooftest.Installed() != "" && refusedByVeriPB < 150 {
		t.Errorf("VeriPB refuses %d of 200 damaged proofs, expected 150", refusedByVeriPB)
	}
	t.Logf("refused: %d of 400, %d of 200 by VeriPB", refused, refusedByVeriPB)
	if refused < 300 {
		t.Errorf("%d of 400 damaged proofs are refused, expected 300", refused)
	}
}

// TestTwice: a node or a pair that is given twice counts once. Encoded twice, a node would
// exclude itself, and anything would follow.
func TestTwice(t *testing.T) {
	p := &model.Problem{Before: [][]int32{nil, {0}}, Work: []int64{0, 0}, Pairs: make([][]model.Pair, 2), Tensors: []model.Tensor{
		{Bytes: 8, Maker: 0, Readers: []int32{1}}, {Bytes: 8, Maker: 1, Output: true},
	}}
	x := model.Pair{Result: 1, Over: 0}
	p.Pairs[1] = []model.Pair{x}
	var once, twice strings.Builder
	if err := model.Encode(p, []int32{0, 1}, true).Write(&once); err != nil {
		t.Fatal(err)
	}
	p.Pairs[1] = []model.Pair{x, x}
	if err := model.Encode(p, []int32{1, 0, 1}, true).Write(&twice); err != nil {
		t.Fatal(err)
	}
	if once.String() != twice.String() {
		t.Errorf("expected\n%sfound\n%s", &once, &twice)
	}
}

// TestOneLine: what is claimed stays on its line of the formula, whatever names it has.
func TestOneLine(t *testing.T) {
	dir := t.TempDir()
	c := proof.PlacementOf([]proof.Live{{Name: "a\nb1 >= 1 ;", Bytes: 4}}, 0, 4)
	c.Says = "at b\nm=1: no order"
	if _, err := proof.Folder(dir, "x", []proof.Claim{c}); err != nil {
		t.Fatal(err)
	}
	opb, err := os.ReadFile(filepath.Join(dir, "x.placement.opb"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "* at b\\nm=1: no order\n* b0: buffer \"a\\nb1 >= 1 ;\", 4 bytes, is live\nmin: +4 b0 ;\n1 b0 >= 1 ;\n"; string(opb) != want {
		t.Errorf("expected\n%sfound\n%s", want, opb)
	}
}

// TestTooLarge: a proof of many cases, each of which would be a flow over a large graph, is
// refused before it has taken all of them. Here 5 results may each be written over 5 tensors.
func TestTooLarge(t *testing.T) {
	defer proof.Limit(proof.Limit(1 << 20))
	const chain, wide = 1000, 5
	p := &model.Problem{Before: make([][]int32, chain+1), Work: make([]int64, chain+1), Pairs: make([][]model.Pair, chain+1)}
	for v := range int32(chain) {
		p.Before[v+1] = []int32{v}
		p.Tensors = append(p.Tensors, model.Tensor{Bytes: 4, Maker: v, Readers: []int32{v + 1}})
	}
	for i := range int32(2 * wide) {
		x := model.Tensor{Bytes: 64, Maker: -1, Readers: []int32{chain}}
		if i >= wide {
			x.Maker, x.Readers, x.Output = chain, nil, true
		}
		p.Tensors = append(p.Tensors, x)
	}
	for result := range int32(wide) {
		for over := range int32(wide) {
			p.Pairs[chain] = append(p.Pairs[chain], model.Pair{Result: chain + wide + result, Over: chain + over})
		}
	}
	order := make([]int32, chain+1)
	for i := range order {
		order[i] = int32(i)
	}
	_, err := write(p, []int32{chain}, false, wide*64+4, order)
	if err == nil || !strings.HasPrefix(err.Error(), "the proof is too large: after ") {
		t.Errorf("expected a refusal, found %v", err)
	}
}
