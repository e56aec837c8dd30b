package autodiff

import (
	"errors"
	"regexp"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/onnxmem/onnxmem/graph"
)

var everything = regexp.MustCompile(`.`)

// newTestTape returns a tape with one leaf.
func newTestTape() (*tape, *gorgonia.Node) {
	g := &graph.Graph{}
	x := g.NewTensor("x")
	t := newTape(newEmitter(g, []graph.Opset{{Version: 18}}, nil))
	return t, t.leaf(x)
}

// TestEqualHashes: an operator with a hash that gorgonia has already seen gets another
// hash, so that gorgonia does not merge the two.
func TestEqualHashes(t *testing.T) {
	tp, x := newTestTape()
	first, err := tp.apply(&operator{kind: term}, x)
	if err != nil {
		t.Fatal(err)
	}
	tp.serial-- // the next one has the serial, and so the hash, of the first
	second, err := tp.apply(&operator{kind: term}, x)
	if err != nil {
		t.Fatal(err)
	}
	if first == second || first.Hashcode() == second.Hashcode() {
		t.Errorf("merged: hashes %x and %x", first.Hashcode(), second.Hashcode())
	}
}

// TestLostTerm: the tape notices if gorgonia drops a term of a gradient.
func TestLostTerm(t *testing.T) {
	tp, x := newTestTape()
	value := tp.g.NewTensor("d")
	first, err := tp.passTerm(x, value, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := tp.passTerm(x, value, 0)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := gorgonia.Add(first, second)
	if err != nil {
		t.Fatal(err)
	}
	if terms, err := tp.terms(x, sum); err != nil || len(terms) != 2 {
		t.Errorf("%d terms, error %v, expected 2", len(terms), err)
	}
	if _, err := tp.terms(x, first); !errors.Is(err, errMerged) {
		t.Errorf("error %v, expected %v", err, errMerged)
	}
}

// TestAgainWithOtherHashes: if gorgonia merged nodes, differentiation is repeated a few
// times with other hashes; other errors are final.
func TestAgainWithOtherHashes(t *testing.T) {
	salts := 0
	if err := retryIfMerged(func(salt int) error {
		if salts++; salt < 2 {
			return errMerged
		}
		return nil
	}); err != nil || salts != 3 {
		t.Errorf("error %v after %d tries, expected none after 3", err, salts)
	}
	salts = 0
	if err := retryIfMerged(func(int) error { salts++; return errMerged }); !errors.Is(err, errMerged) || salts > 10 {
		t.Errorf("error %v after %d tries, expected %v soon", err, salts, errMerged)
	}
	salts = 0
	if err := retryIfMerged(func(int) error { salts++; return errors.New("other") }); err == nil || salts != 1 {
		t.Errorf("error %v after %d tries, expected another after 1", err, salts)
	}
}
