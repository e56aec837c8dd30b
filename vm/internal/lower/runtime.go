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

// Heap implements kernel.Runtime.
func (st *Step) Heap(bytes int64) error {
	if err := st.Frame.Site.Mem.Take(bytes); err != nil {
		return err
	}
	st.own().heap += bytes
	st.Frame.Site.Mem.Tables += bytes
	return nil
}

// Table implements kernel.Runtime: tables lie in the side pool.
func (st *Step) Table(bytes int64) (unsafe.Pointer, error) {
	b, err := st.Frame.Site.Mem.Side.Hold("a table of a kernel", bytes)
	if err != nil {
		return nil, err
	}
	own := st.own()
	own.tables = append(own.tables, b)
	st.Frame.Site.Mem.Tables += int64(len(b))
	if st.Frame.Site.Mem.Guard == nil {
		st.Frame.Site.Mem.SideTables += int64(len(b))
	}
	return unsafe.Pointer(unsafe.SliceData(b)), nil
}

// freeTables frees the memory that a kernel kept, before it is prepared again.
func (st *Step) freeTables() {
	if st.More == nil {
		return
	}
	s := st.Frame.Site
	s.Mem.Give(st.More.heap)
	s.Mem.Tables -= st.More.heap
	st.More.heap = 0
	for _, b := range st.More.tables {
		s.Mem.Side.Give(b)
		s.Mem.Tables -= int64(len(b))
		if s.Mem.Guard == nil {
			s.Mem.SideTables -= int64(len(b))
		}
	}
	st.More.tables = st.More.tables[:0]
}

// Live implements kernel.Runtime.
func (st *Step) Live() bool { return st.live }

// Known implements kernel.Runtime.
func (st *Step) Known(i int) ([]int64, bool) {
	if st.Frame.values == nil || i >= len(st.Node().Inputs) {
		return nil, false
	}
	t := st.Node().Inputs[i]
	if t < 0 {
		return nil, false
	}
	return st.Frame.values[t].Ints()
}

// Resize implements kernel.Runtime.
func (st *Step) Resize(i int, shape []int) error { return st.Frame.Site.Resize(st.Out[i], shape) }

// Repeats implements kernel.Runtime. Any body or function may be part of a loop.
func (st *Step) Repeats() bool { return st.Frame.Graph != st.Frame.Site.Program.Model.Graph }

// Seed implements kernel.Runtime. It hashes the output's name, so that the order of
// the nodes does not matter.
func (st *Step) Seed() uint64 {
	h := st.Frame.Site.Options.Seed ^ st.Frame.Site.Runs*0x9e3779b97f4a7c15
	for _, c := range []byte(st.Out[0].Name) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}
