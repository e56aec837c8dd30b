package exec

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Pack implements kernel.Runtime: constants are prepacked, once for all sessions.
func (st *step) Pack(k form.PackKey, bytes int, fill func(dst unsafe.Pointer)) (unsafe.Pointer, bool) {
	if st.f.s.opt.NoPack {
		return nil, false
	}
	at, ok := st.f.s.consts.Pack(k, bytes, st.f.s.opt.bound(), fill)
	if ok {
		st.packs(k)
	}
	return at, ok
}

// Release implements kernel.Runtime.
func (st *step) Release(at unsafe.Pointer, bytes int) { mapped.Release(at, bytes) }

// Text implements kernel.Runtime.
func (st *step) Text(element uint64) (string, error) { return st.f.s.Texts.Text(element) }

// Element implements kernel.Runtime.
func (st *step) Element(text string) (uint64, error) { return st.f.s.Texts.Element(text) }

// Compose implements kernel.Runtime.
func (st *step) Compose(bytes int, make func() string) (uint64, error) {
	return st.f.s.Texts.Compose(int64(bytes), make)
}

// Constant implements kernel.Runtime.
func (st *step) Constant(d *graph.Data) (*kernel.Tensor, error) { return st.f.s.constant(d) }
