package slicing

import (
	"bytes"
	"io"

	"github.com/onnxmem/onnxmem/graph"
)

// cutInFile reports whether the rows that slices read of an input are initializers of
// the rewritten model: the input is an initializer, and nodes of the region alone read
// it, all along one axis. Then no slice takes its rows, and the file has each row once,
// but for the halos.
func (r *Region) cutInFile(t graph.TensorID) bool {
	p, x := r.p, r.p.g.Tensors[t]
	if x.Data == nil || x.Input || x.Output || p.Keep[x.Name] || p.Rows == nil {
		return false
	}
	axis := -1
	for _, q := range x.Readers {
		v := int(q)
		if !r.has(v) {
			return false
		}
		n := p.g.Nodes[v]
		for j, in := range r.rowsOf(v) {
			if n.Inputs[j] != t {
				continue
			}
			if in.Axis < 0 || axis >= 0 && in.Axis != axis {
				return false
			}
			axis = in.Axis
		}
	}
	return axis >= 0 && p.readable(t)
}

// readable reports whether the elements of initializer t can be read.
func (p *Program) readable(t graph.TensorID) bool {
	known, ok := p.reads[t]
	if !ok {
		known = p.Rows(p.g.Tensors[t].Data) != nil
		p.reads[t] = known
	}
	return known
}

// Weight is an initializer of a rewritten model that holds rows of an initializer of
// the model before.
type Weight struct {
	Tensor, Of string
	Range
}

// weight returns an initializer with these rows of initializer t.
func (r *regionWriter) weight(t graph.TensorID, want Range) graph.TensorID {
	key := taken{t, want}
	if id, known := r.weights[key]; known {
		return id
	}
	from := r.p.g.Tensors[t].Data
	id := r.tensor(r.name(t, "rows"))
	r.weights[key] = id
	d := &graph.Data{Name: r.g.Tensors[id].Name, Type: from.Type, Dims: append([]int64{}, from.Dims...)}
	d.Dims[want.Axis] = want.Hi - want.Lo
	d.Bytes = from.Bytes / from.Dims[want.Axis] * d.Dims[want.Axis]
	block := d.Bytes // of the rows of one element of the axes before
	for _, n := range from.Dims[:want.Axis] {
		block /= n
	}
	read, whole := r.p.Rows(from), block/d.Dims[want.Axis]*from.Dims[want.Axis]
	first := block / d.Dims[want.Axis] * want.Lo
	if x := from.External; x != nil && block == d.Bytes {
		d.External = &graph.External{Location: x.Location, Offset: x.Offset + first, Length: d.Bytes}
	} else {
		d.Generate = func(w io.Writer) error {
			return read(func(all []byte) error {
				for at := first; at < int64(len(all)); at += whole {
					if _, err := w.Write(all[at : at+block]); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	if d.Generate != nil && d.Bytes <= smallWeight {
		var b bytes.Buffer
		if d.Generate(&b) == nil {
			d.Raw, d.Generate = b.Bytes(), nil
		}
	}
	r.g.Tensors[id].Data = d
	r.cut[t] = true
	r.list = append(r.list, Weight{d.Name, r.p.g.Tensors[t].Name, want})
	return id
}

// smallWeight is the size in bytes up to which the rows are in memory.
const smallWeight = 4096
