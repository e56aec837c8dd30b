package vm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// texts are the strings of a session. An element of a string tensor is an index in
// list, so kernels copy strings as they copy integers, and equal strings are equal
// elements. A string stays until the next run begins; those of constants and of prepared
// kernels stay as long as the session.
type texts struct {
	mu    sync.RWMutex // parts of a kernel make strings at the same time
	list  []string     // the first is ""
	index map[string]uint64
	mem   *store.Share
	bytes int64
	kept  int   // length of list when the session was built
	lists int64 // bytes of the lists of strings that the last run returned
	waste int64 // bytes of strings that no element stands for, since the last collection
}

// mostWaste is how many bytes of such strings may lie on Go's heap, uncounted: the collector
// alone waits until there are as many as of all that is alive.
const mostWaste = 16 << 20

// textBytes is the memory that a string takes beside its bytes, in list and in index while
// these grow: 5.3 million strings of 7 bytes took 100 bytes each.
const textBytes = 128

var errNoText = errors.New("an element of a string tensor stands for no string")

func (x *texts) text(element uint64) (string, error) {
	if element == 0 {
		return "", nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if element >= uint64(len(x.list)) {
		return "", errNoText
	}
	return x.list[element], nil
}

func (x *texts) element(text string) (uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.add(text)
}

// compose returns the element of a string of at most the given bytes, which count before
// make makes it.
func (x *texts) compose(bytes int64, make func() string) (uint64, error) {
	x.mu.Lock()
	err := x.mem.Take(bytes)
	x.mu.Unlock()
	if err != nil {
		return 0, err
	}
	text := make()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mem.Give(bytes)
	n := len(x.list)
	e, err := x.add(text)
	if len(x.list) == n {
		x.wasted(int64(len(text)))
	}
	return e, err
}

// add is element for a caller that holds the lock.
func (x *texts) add(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	if e, ok := x.index[text]; ok {
		return e, nil
	}
	x.begin()
	bytes := int64(len(text)) + textBytes
	if err := x.mem.Take(bytes); err != nil {
		return 0, err
	}
	x.bytes += bytes
	e := uint64(len(x.list))
	x.list = append(x.list, text)
	x.index[text] = e
	return e, nil
}

// wasted counts the bytes of a string that nothing refers to any more, and collects.
func (x *texts) wasted(bytes int64) {
	if x.waste += bytes; x.waste > mostWaste {
		x.waste = 0
		runtime.GC()
	}
}

// begin adds the empty string, which is element 0.
func (x *texts) begin() {
	if x.index == nil {
		x.index, x.list = map[string]uint64{}, []string{""}
	}
}

// keep marks all strings so far as those of the session.
func (x *texts) keep() {
	x.begin()
	x.kept = len(x.list)
}

// drop frees the strings of the last run.
func (x *texts) drop() {
	x.mem.Give(x.lists)
	x.lists = 0
	if len(x.list) == x.kept {
		return
	}
	before := x.bytes
	for _, s := range x.list[x.kept:] {
		delete(x.index, s)
		x.bytes -= int64(len(s)) + textBytes
	}
	x.mem.Give(before - x.bytes)
	clear(x.list[x.kept:])
	x.list = x.list[:x.kept]
	x.wasted(before - x.bytes)
}

// Text implements kernel.Runtime.
func (st *step) Text(element uint64) (string, error) { return st.f.s.boxed.texts.text(element) }

// Element implements kernel.Runtime.
func (st *step) Element(text string) (uint64, error) { return st.f.s.boxed.texts.element(text) }

// Compose implements kernel.Runtime.
func (st *step) Compose(bytes int, make func() string) (uint64, error) {
	return st.f.s.boxed.texts.compose(int64(bytes), make)
}

// Constant implements kernel.Runtime.
func (st *step) Constant(d *graph.Data) (*kernel.Tensor, error) { return st.f.s.constant(d) }

// constant returns a constant as kernels see it.
func (s *Session) constant(d *graph.Data) (*kernel.Tensor, error) {
	if d.Type != graph.String {
		return s.consts.tensor(d, s.opt.bound())
	}
	if t := s.boxed.words[d]; t != nil {
		return t, nil
	}
	list, err := textsOf(s.pr.m.Source, d)
	if err != nil {
		return nil, aboutTensor(d.Name, err)
	}
	t := &kernel.Tensor{Type: graph.String, Shape: make([]int, len(d.Dims)), Const: true, At: unsafe.Pointer(&empty)}
	for i, n := range d.Dims {
		t.Shape[i] = int(n)
	}
	if len(list) > 0 {
		b, err := s.mem.Side.Hold("constant "+nameOf(d.Name), 8*int64(len(list)))
		if err != nil {
			return nil, aboutTensor(d.Name, err)
		}
		if err := s.store(b, list); err != nil {
			return nil, aboutTensor(d.Name, err)
		}
		t.At = unsafe.Pointer(unsafe.SliceData(b))
	}
	if s.boxed.words == nil {
		s.boxed.words = map[*graph.Data]*kernel.Tensor{}
	}
	s.boxed.words[d] = t
	return t, nil
}

// store writes the elements that stand for strings.
func (s *Session) store(b []byte, list []string) error {
	for i, text := range list {
		e, err := s.boxed.texts.element(text)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b[8*i:], e)
	}
	return nil
}

// stringsOf returns the strings of a tensor, in a list that counts until the next run.
func (s *Session) stringsOf(t *kernel.Tensor) ([]string, error) {
	bytes := int64(unsafe.Sizeof("")) * int64(t.Len())
	if err := s.mem.Take(bytes); err != nil {
		return nil, err
	}
	s.boxed.texts.lists += bytes
	list := make([]string, t.Len())
	for i, e := range unsafe.Slice((*uint64)(t.At), len(list)) {
		var err error
		if list[i], err = s.boxed.texts.text(e); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// textsOf decodes the strings of a constant.
func textsOf(from *graph.Source, d *graph.Data) (list []string, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	if int64(len(d.Texts)) == d.Elements() {
		return slices.Clone(d.Texts), nil
	}
	if d.Sparse != nil || d.External != nil || d.Generate != nil || int64(len(d.Payload)) != d.Elements() {
		return nil, fmt.Errorf("has %d strings in the file, expected %d", len(d.Payload), d.Elements())
	}
	for _, p := range d.Payload {
		list = append(list, string(from.Bytes[p.Off:p.End()]))
	}
	return list, nil
}

// elementsIn is the number of elements of a shape. It fails if the lengths are negative
// or too large.
func elementsIn(shape []int) (int64, error) {
	dims := make([]graph.Dim, len(shape))
	for i, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v: expected lengths >= 0", shape)
		}
		dims[i] = graph.Dim(n)
	}
	n, ok := graph.TensorOf(graph.Uint8, dims...).Elements()
	if !ok || n > math.MaxInt64/16 {
		return 0, fmt.Errorf("shape %v: %w", shape, graph.ErrTooLarge)
	}
	return n, nil
}
