package exec

import (
	"errors"
	"fmt"
	"hash"
	"runtime"
	"strings"
	"testing"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	gotensor "gorgonia.org/tensor"

	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// probe is an operator that notes where it runs.
type probe struct {
	id  int
	ran *[]string
	err error
}

func (p *probe) Do(...gorgonia.Value) (gorgonia.Value, error) {
	stack := make([]byte, 64)
	stack = stack[:runtime.Stack(stack, false)]
	*p.ran = append(*p.ran, fmt.Sprintf("%d in %s", p.id, strings.SplitAfterN(string(stack), " ", 3)[1]))
	return &view{t: &values.Tensor{}}, p.err
}
func (p *probe) Arity() int    { return 0 }
func (p *probe) Type() hm.Type { return hm.NewFnType(token) }

func (p *probe) InferShape(...gorgonia.DimSizer) (gotensor.Shape, error) {
	return gotensor.Shape{1}, nil
}
func (p *probe) ReturnsPtr() bool      { return true }
func (p *probe) CallsExtern() bool     { return false }
func (p *probe) OverwritesInput() int  { return -1 }
func (p *probe) WriteHash(h hash.Hash) { fmt.Fprint(h, p.id) }
func (p *probe) Hashcode() uint32      { return uint32(p.id) }
func (p *probe) String() string        { return fmt.Sprint(p.id) }

// TestDirect: this version of gorgonia lets a program run in the goroutine of the caller,
// in its order, again and again; an error ends it.
func TestDirect(t *testing.T) {
	var ran []string
	fault := errors.New("the second fails")
	g := gorgonia.NewGraph()
	gorgonia.NewScalar(g, gorgonia.Float32, gorgonia.WithName("inputs"), gorgonia.WithValue(float32(0)))
	list := []*probe{{1, &ran, nil}, {2, &ran, nil}, {3, &ran, nil}}
	for _, p := range list {
		gorgonia.NewUniqueNode(gorgonia.In(g), gorgonia.WithType(token), gorgonia.WithOp(p), gorgonia.WithShape(1), gorgonia.WithName(p.String()))
	}
	machine := gorgonia.NewTapeMachine(g)
	defer machine.Close()
	all := direct(machine)
	if all == nil {
		t.Fatal("the machine has no Run or no program")
	}
	here := make([]byte, 64)
	here = here[:runtime.Stack(here, false)]
	goroutine := strings.SplitAfterN(string(here), " ", 3)[1]
	for round := range 3 {
		ran = nil
		if round == 2 {
			list[1].err = fault
		}
		machine.Reset()
		err := all()
		want := []string{"1 in " + goroutine, "2 in " + goroutine, "3 in " + goroutine}
		if round == 2 {
			want = want[:2]
		}
		if fmt.Sprint(ran) != fmt.Sprint(want) || (err != nil) != (round == 2) {
			t.Errorf("round %d: got %v, %v, want %v", round, ran, err, want)
		}
	}
}
