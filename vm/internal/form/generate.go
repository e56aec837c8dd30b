package form

import (
	"encoding/binary"

	"github.com/onnxmem/onnxmem/graph"
)

// FillElement returns the bytes of the element of which ConstantOfShape makes output 0.
func (c *Call) FillElement() ([]byte, error) {
	width, err := WholeBytes(c.Out[0])
	if err != nil {
		return nil, err
	}
	element := make([]byte, width)
	if a := c.Node.Attr("value"); a != nil && a.Tensor != nil {
		err = FirstElement(element, a.Tensor)
	}
	return element, err
}

// FirstElement reads the first element of an attribute.
func FirstElement(to []byte, d *graph.Data) error {
	var bits uint64
	switch {
	case len(d.Raw) >= len(to):
		copy(to, d.Raw)
		return nil
	case len(d.Ints) > 0:
		bits = uint64(d.Ints[0])
	case len(d.Floats) > 0:
		bits = realBits(d.Type, d.Floats[0])
	default:
		return Unsupported(d.Type)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], bits)
	copy(to, b[:])
	return nil
}
