package exec

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// constant returns a constant as kernels see it.
func (s *Session) constant(d *graph.Data) (*kernel.Tensor, error) {
	if d.Type != graph.String {
		return s.consts.Tensor(d, s.opt.bound())
	}
	if t := s.Words[d]; t != nil {
		return t, nil
	}
	list, err := constants.Texts(s.pr.Model.Source, d)
	if err != nil {
		return nil, values.About(d.Name, err)
	}
	t := &kernel.Tensor{Type: graph.String, Shape: make([]int, len(d.Dims)), Const: true, At: unsafe.Pointer(&values.Empty)}
	for i, n := range d.Dims {
		t.Shape[i] = int(n)
	}
	if len(list) > 0 {
		b, err := s.Mem.Side.Hold("constant "+values.NameOf(d.Name), 8*int64(len(list)))
		if err != nil {
			return nil, values.About(d.Name, err)
		}
		if err := s.StoreTexts(b, list); err != nil {
			return nil, values.About(d.Name, err)
		}
		t.At = unsafe.Pointer(unsafe.SliceData(b))
	}
	if s.Words == nil {
		s.Words = map[*graph.Data]*kernel.Tensor{}
	}
	s.Words[d] = t
	return t, nil
}
