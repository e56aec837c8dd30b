package lower

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Pack implements kernel.Runtime: constants are prepacked, once for all sessions.
func (st *Step) Pack(k form.PackKey, bytes int, fill func(dst unsafe.Pointer)) (unsafe.Pointer, bool) {
	if st.Frame.Site.Options.NoPack {
		return nil, false
	}
	at, ok := st.Frame.Site.Constants.Pack(k, bytes, st.Frame.Site.Options.Bound(), fill)
	if ok {
		st.packs(k)
	}
	return at, ok
}

// Release implements kernel.Runtime.
func (st *Step) Release(at unsafe.Pointer, bytes int) { mapped.Release(at, bytes) }

// Text implements kernel.Runtime.
func (st *Step) Text(element uint64) (string, error) { return st.Frame.Site.Texts.Text(element) }

// Element implements kernel.Runtime.
func (st *Step) Element(text string) (uint64, error) { return st.Frame.Site.Texts.Element(text) }

// Compose implements kernel.Runtime.
func (st *Step) Compose(bytes int, make func() string) (uint64, error) {
	return st.Frame.Site.Texts.Compose(int64(bytes), make)
}

// Constant implements kernel.Runtime.
func (st *Step) Constant(d *graph.Data) (*kernel.Tensor, error) { return st.Frame.Site.constant(d) }

// Stopping implements kernel.Runtime.
func (st *Step) Stopping() bool { return st.Frame.Site.Pool.Stopping() }
