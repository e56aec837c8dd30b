package autodiff

import (
	"bytes"
	"fmt"

	"github.com/onnxmem/onnxmem/internal/constant"
)

// warnTwins names parameters that are others transposed: an exporter that computes constants
// wrote one parameter twice, such as the embedding of a language model that is its head, too.
// Each is trained by itself, and the two are no longer one.
func (s *trainer) warnTwins() {
	bySize := map[[2]int64][]ID{}
	for _, id := range s.parameters {
		d := s.g.Tensors[id].Data
		if len(d.Dims) != 2 || d.Dims[0] < 2 || d.Dims[1] < 2 {
			continue
		}
		for _, other := range bySize[[2]int64{d.Dims[1], d.Dims[0]}] {
			if s.transposes(other, id) {
				s.step.Warnings = append(s.step.Warnings, fmt.Sprintf("%s is %s transposed: an exporter wrote one parameter twice, and each is trained by itself (export without folding constants to train them as one)", s.name(id), s.name(other)))
			}
		}
		key := [2]int64{d.Dims[0], d.Dims[1]}
		bySize[key] = append(bySize[key], id)
	}
}

// transposes reports whether one matrix is the transpose of another, and not all of its
// elements are equal.
func (s *trainer) transposes(a, b ID) bool {
	x, err := s.files.Read(s.g.Tensors[a].Data)
	if err != nil {
		return false
	}
	y, err := s.files.Read(s.g.Tensors[b].Data)
	if err != nil || x.Type != y.Type || len(x.Raw) != len(y.Raw) {
		return false
	}
	rows, columns := int(x.Shape[0]), int(x.Shape[1])
	w := len(x.Raw) / (rows * columns)
	at := func(t *constant.Tensor, i int) []byte { return t.Raw[i*w : i*w+w] }
	varies := false
	for i := range rows {
		for j := range columns {
			if !bytes.Equal(at(x, i*columns+j), at(y, j*rows+i)) {
				return false
			}
			varies = varies || !bytes.Equal(at(x, i*columns+j), at(x, 0))
		}
	}
	return varies
}
