package gpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// generators lists the operators that make a tensor from attributes and scalars.
var generators = []Row{
	{Name: "ConstantOfShape", Make: makeConstantOfShape, Element: constantOfShape},
	{Name: "Range", Element: counting},
	{Name: "EyeLike", Element: eyeLike},
}

// makeConstantOfShape zeroes the output, if that is its element.
func makeConstantOfShape(n *Node) error {
	if _, err := typeOf(n.Out[0]); err != nil {
		return err
	}
	b, err := n.FillElement()
	if err != nil {
		return err
	}
	for _, v := range b {
		if v != 0 {
			return Lookup("", "ConstantOfShape").alone(n)
		}
	}
	at, err := n.at(n.Out[0])
	if err != nil {
		return err
	}
	n.zero(at, int64(n.Out[0].Bytes()))
	return nil
}

// constantOfShape sets each element to the one that the attribute holds.
func constantOfShape(n *Node, e *expression) error {
	b, err := n.FillElement()
	if err != nil {
		return err
	}
	var word [8]byte
	copy(word[:], b)
	return e.set(n.Out[0], bitsLiteral(binary.LittleEndian.Uint64(word[:]), n.Out[0].Type))
}

// bitsLiteral is the number in C whose bits are given.
func bitsLiteral(bits uint64, t graph.DType) string {
	switch t {
	case graph.Float64:
		return literal(math.Float64frombits(bits), t)
	case graph.Float32:
		return fmt.Sprintf("__int_as_float(0x%08x)", bits)
	case graph.Float16:
		return literal(float64(form.HalfToFloat(uint16(bits))), t)
	case graph.BFloat16:
		return fmt.Sprintf("__int_as_float(0x%08x)", bits<<16)
	case graph.Bool:
		return fmt.Sprint(bits&0xff != 0)
	}
	return fmt.Sprintf("(%s)0x%xull", cType[t], bits)
}

// counting counts from input 0 in steps of input 2.
func counting(n *Node, e *expression) error {
	d := n.Out[0].Type
	if !isNumber(d) {
		return unsupportedf("dtype %v", d)
	}
	if err := needTypes(d, n.In[0], n.In[2]); err != nil {
		return err
	}
	start, err := e.valueAs(n.In[0], []int{})
	if err != nil {
		return err
	}
	step, err := e.valueAs(n.In[2], []int{})
	if err != nil {
		return err
	}
	i, err := e.index()
	if err != nil {
		return err
	}
	return e.set(n.Out[0], call("Add", start, call("Mul", fmt.Sprintf("(Compute<%s>)%s", cType[d], i), step)))
}

// eyeLike sets the elements of a diagonal to one, and all others to zero.
func eyeLike(n *Node, e *expression) error {
	y := n.Out[0]
	name, err := typeOf(y)
	if err != nil {
		return err
	}
	i, err := e.index()
	if err != nil {
		return err
	}
	columns := y.Shape[len(y.Shape)-1]
	return e.set(y, fmt.Sprintf("(Compute<%s>)((i64)(%s %% %du) - (i64)(%s / %du) == %dll)", name, i, columns, i, columns, n.Int("k", 0)))
}
