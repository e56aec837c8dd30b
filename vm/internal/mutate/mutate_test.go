package mutate

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/vm"
)

func seeds(t testing.TB) []*Seed {
	t.Helper()
	list, err := Seeds(datafolder.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestLargeSeeds: the models from which mutants are made run unchanged.
func TestLargeSeeds(t *testing.T) {
	list, err := largeSeeds()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if r := Run(s.Sound()); r.Stage != Ran {
			t.Errorf("%s is refused at stage %s: %v %s", s.Name(), r.Stage, r.Refusal, r.Finding)
		}
	}
}

// TestMutants: every mutant is refused or runs; none is a finding. "make mutants"
// runs more of them.
func TestMutants(t *testing.T) {
	list := seeds(t)
	var sum Summary
	for n := range uint64(len(list)) {
		c, err := list[n%uint64(len(list))].Mutant(n)
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(c, Run(c))
	}
	t.Log(&sum)
	if len(sum.Findings) > 0 {
		t.Error("some mutants are findings: see the table")
	}
	if sum.Stages[Ran] < sum.Total/4 || sum.Stages[Started] == 0 || sum.Stages[Prepared] == 0 {
		t.Errorf("too few mutants reach each stage: %v", sum.Stages)
	}
}

// TestMutantAgain: the test and the number determine a mutant.
func TestMutantAgain(t *testing.T) {
	list := seeds(t)
	for n := range uint64(200) {
		s := list[n*7%uint64(len(list))]
		a, err := s.Mutant(n)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Mutant(n)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Model, b.Model) || !slices.Equal(a.Edits, b.Edits) ||
			!maps.EqualFunc(a.Inputs, b.Inputs, func(x, y vm.Value) bool { return x.String() == y.String() && bytes.Equal(x.Data, y.Data) }) {
			t.Errorf("%s: the second time, the mutant differs: %v and %v", a.Name, a.Edits, b.Edits)
		}
	}
}

func FuzzMutants(f *testing.F) {
	list := seeds(f)
	f.Add(uint64(0))
	f.Fuzz(func(t *testing.T, n uint64) {
		c, err := list[n%uint64(len(list))].Mutant(n)
		if err != nil {
			t.Fatal(err)
		}
		if r := Run(c); r.Finding != "" {
			t.Errorf("%s: %v: %s", c.Name, c.Edits, r.Finding)
		}
	})
}
