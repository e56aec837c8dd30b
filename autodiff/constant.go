package autodiff

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/ops"
)

// list is a constant int64 list. Equal lists are stored once.
func (e *emitter) list(v ...int64) ID {
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return e.constant(graph.Int64, []int64{int64(len(v))}, b, ops.NewInts(v...))
}

// index is a constant int64 without axes.
func (e *emitter) index(v int64) ID {
	b := binary.LittleEndian.AppendUint64(nil, uint64(v))
	return e.constant(graph.Int64, nil, b, &ops.Value{Elems: []ops.Scalar{{I: v}}})
}

// scalar is a constant without axes, of the type of like.
func (e *emitter) scalar(like ID, v float64) ID {
	return e.reals(e.typeOf(like).Elem, nil, []float64{v})
}

// number is a constant float32 without axes.
func (e *emitter) number(v float64) ID { return e.reals(graph.Float32, nil, []float64{v}) }

// reals is a constant of a floating-point or integer type. Equal constants are
// stored once.
func (e *emitter) reals(elem graph.DType, shape []int64, v []float64) ID {
	b, ok := encode(elem, v)
	if !ok {
		e.fail(graph.Errorf("a constant of type %v: expected a floating-point type", elem))
		return graph.None
	}
	value := &ops.Value{Shape: shape, Elems: make([]ops.Scalar, len(v))}
	for i, x := range v {
		value.Elems[i] = ops.Scalar{F: x, I: int64(x)}
	}
	if len(v) > ops.FoldLimit {
		value = nil
	}
	return e.constant(elem, shape, b, value)
}

// encode returns numbers as the elements of a tensor; ok is false for a type that no
// constant has.
func encode(elem graph.DType, v []float64) (b []byte, ok bool) {
	for _, x := range v {
		switch elem {
		case graph.Int64:
			b = binary.LittleEndian.AppendUint64(b, uint64(int64(x)))
		case graph.Int32:
			b = binary.LittleEndian.AppendUint32(b, uint32(int32(x)))
		default:
			if b, ok = constant.AppendReal(b, elem, x); !ok {
				return nil, false
			}
		}
	}
	return b, true
}

// mostNumbers is the largest number of elements that numbersOf reads.
const mostNumbers = 64

// numbersOf returns the elements of a small constant that encode made.
func numbersOf(d *graph.Data) (v []float64, ok bool) {
	n := d.Elements()
	if n > mostNumbers || n == 0 || int64(len(d.Raw)) != d.Bytes {
		return nil, false
	}
	for i := range int(n) {
		switch b := d.Raw; d.Type {
		case graph.Float32:
			v = append(v, float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))))
		case graph.Float64:
			v = append(v, math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		case graph.Int64:
			v = append(v, float64(int64(binary.LittleEndian.Uint64(b[8*i:]))))
		case graph.Int32:
			v = append(v, float64(int32(binary.LittleEndian.Uint32(b[4*i:]))))
		default:
			return nil, false
		}
	}
	return v, true
}

// constant adds an initializer.
func (e *emitter) constant(elem graph.DType, shape []int64, raw []byte, v *ops.Value) ID {
	if e.err != nil {
		return graph.None
	}
	key := fmt.Sprintf("%d %v %x", elem, shape, raw)
	if id, ok := e.consts[key]; ok {
		return id
	}
	name := e.unique(constantName(elem, shape, v))
	d := &graph.Data{Name: name, Type: elem, Dims: shape, Raw: raw, Bytes: int64(len(raw))}
	id := e.newTensor(name, d.TensorType(), v)
	e.g.Tensors[id].Data = d
	e.consts[key], e.made[id] = id, true
	return id
}

// constantName describes the content of a small constant.
func constantName(elem graph.DType, shape []int64, v *ops.Value) string {
	const most = 6
	if v == nil || len(v.Elems) == 0 || len(v.Elems) > most {
		return fmt.Sprintf("onnxmem.%v%v", elem, shape)
	}
	name := fmt.Sprintf("onnxmem.%v", elem)
	if len(shape) == 0 {
		name += "="
	} else {
		name += "s="
	}
	for i, s := range v.Elems {
		if i > 0 {
			name += ","
		}
		if elem.Floating() {
			name += fmt.Sprintf("%g", s.F)
		} else {
			name += fmt.Sprintf("%d", s.I)
		}
	}
	return name
}
