package gpu

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
)

// casts lists the conversions between dtypes, and the identity.
var casts = []Row{
	{Name: "Cast", Make: makeCast, Element: cast},
	{Name: "CastLike", Make: makeCast, Element: cast},
	{Name: "BitCast", Make: makeCopy},
	{Name: "Identity", Make: makeCopy, Element: cast},
}

func makeCast(n *Node) error {
	if n.In[0].Type == n.Out[0].Type {
		return makeCopy(n)
	}
	return Lookup("", "Cast").alone(n)
}

// makeCopy copies input 0, unless output 0 is a view of it.
func makeCopy(n *Node) error {
	x, y := n.In[0], n.Out[0]
	if x == nil || x.Type == graph.String || y.Type == graph.String {
		return unsupportedf("an input that is no tensor of numbers")
	}
	if x.Bytes() != y.Bytes() {
		return fmt.Errorf("input 0 has %d bytes, expected %d", x.Bytes(), y.Bytes())
	}
	at, err := n.addresses(y, x)
	if err != nil {
		return err
	}
	n.copy(at[0], at[1], int64(y.Bytes()))
	return nil
}

// cast converts numbers as the host does. Reals are cut towards 0 for integers, and
// integers wrap around; reals out of range become the least integer.
func cast(n *Node, e *expression) error {
	x, y := n.In[0], n.Out[0]
	v, err := e.value(x)
	if err != nil {
		return err
	}
	name, err := typeOf(y)
	if err != nil {
		return err
	}
	return e.set(y, converted(v, x.Type, y.Type, name))
}

// converted is a number of dtype from in dtype to, whose name is given, before the
// rounding to 16 bits.
func converted(v string, from, to graph.DType, name string) string {
	switch {
	case from == to:
		return v
	case to == graph.Bool:
		return v + " != 0"
	case to == graph.Uint64 && isReal(from):
		return call("unsigned_of", v)
	case isReal(from) && !isReal(to) && to != graph.Int64 && to != graph.Uint32:
		return fmt.Sprintf("(%s)short_of(%s)", name, v)
	case !isReal(to):
		return fmt.Sprintf("(%s)signed_of(%s)", name, v)
	case to == graph.Float64:
		return "(double)" + v
	case from == graph.Uint64, from == graph.Int64 && to != graph.Float32:
		return "(float)(double)" + v // rounded twice, as on the host
	}
	return "(float)" + v
}
