package ops

import (
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// casts change the element type, or nothing.
var casts = family{"", []Op{
	{Name: "Identity", Class: Elementwise, Copies: true, Infer: inferIdentity, Cut: cutUnary, Fold: foldSame, Views: viewOfFirst, Moves: true},
	{Name: "Cast", Class: Elementwise, Casts: true, Infer: inferCast, Cut: cutUnary, Fold: foldCast, Views: viewOfSameElem, Inplace: overSameWidth, Moves: true},
	{Name: "CastLike", Class: Elementwise, Infer: inferCastLike, Cut: cutUnary, Fold: foldCast, Views: viewOfSameElem, Inplace: overSameWidth},
	{Name: "BitCast", Class: View, Infer: inferBitCast, Views: viewOfFirst},
}}

// inferIdentity: any kind of value (sequences from opset 14 on, optionals from 16).
func inferIdentity(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

func viewOfFirst(*Call) []graph.Alias { return []graph.Alias{{Out: 0, In: 0}} }

func foldSame(c *Call) { c.SetValue(0, c.In[0].Value) }

// inferCast: before opset 6 the type is a name.
func inferCast(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	to, err := c.castTarget()
	if err != nil {
		return err
	}
	c.setLike(0, 0, to)
	return nil
}

// castTarget reads the attribute to.
func (c *Call) castTarget() (graph.DType, error) {
	a := c.Node.Attr("to")
	if a == nil {
		return 0, c.Errf("to is missing: expected the number of an element type")
	}
	if !c.before(6) {
		return c.elemAttr("to", graph.Undefined)
	}
	if i := slices.Index(castNames, strings.ToUpper(a.String)); i > 0 {
		return graph.DType(i), nil
	}
	return 0, c.Errf("to is %q, expected the name of an element type, such as FLOAT", graph.Short(a.String))
}

// castNames are the names of element types in opsets 1 to 5, by number.
var castNames = []string{
	"UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL",
	"FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128",
}

// elemAttr is an attribute that holds the number of an element type.
func (c *Call) elemAttr(name string, otherwise graph.DType) (graph.DType, error) {
	a := c.Node.Attr(name)
	if a == nil {
		return otherwise, nil
	}
	if a.Int < 0 || a.Int > 1<<16 || !graph.DType(a.Int).Valid() {
		return 0, c.Errf("%s is %d, expected the number of an element type", name, a.Int)
	}
	return graph.DType(a.Int), nil
}

func inferCastLike(c *Call) error {
	if err := c.takes(2, 2); err != nil {
		return err
	}
	c.setLike(0, 0, c.In[1].Elem)
	return nil
}

// inferBitCast: the bits stay the same, so the types must have the same width.
func inferBitCast(c *Call) error {
	if err := inferCast(c); err != nil {
		return err
	}
	to, err := c.castTarget()
	if err != nil {
		return err
	}
	from := c.In[0].Elem
	if to.Bits() == 0 || from != graph.Undefined && from.Bits() != to.Bits() {
		return c.Errf("to is %v (%d bits), expected a type of the width of %v (%d bits)", to, to.Bits(), from, from.Bits())
	}
	return nil
}

// viewOfSameElem: a cast to the type that the input already has is a view.
func viewOfSameElem(c *Call) []graph.Alias {
	if c.In[0].Elem != graph.Undefined && c.In[0].Elem == c.OutType(0).Elem {
		return viewOfFirst(c)
	}
	return nil
}

// overSameWidth: elements of equal width have equal positions. The widths of 2
// and 4 bits are excluded: a few such elements may take the same number of bytes.
func overSameWidth(c *Call) []graph.Alias {
	if c.In[0].Elem.Bits() != c.OutType(0).Elem.Bits() {
		return nil
	}
	return overFirst(c)
}

func foldCast(c *Call) {
	shape, ok := c.outShape(0)
	v := c.In[0].Value
	if !ok || v == nil || v.Items != nil || count(shape) != int64(len(v.Elems)) {
		return
	}
	out := &Value{Shape: shape, Elems: make([]Scalar, len(v.Elems))}
	for i, s := range v.Elems {
		out.Elems[i] = castScalar(c.In[0].Elem, c.Out[0].Elem, s)
	}
	c.SetValue(0, out)
}
