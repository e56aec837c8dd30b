package values

import (
	"errors"
	"runtime"
	"sync"

	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// Texts are the strings of a session. An element of a string tensor is an index in
// list, so kernels copy strings as they copy integers, and equal strings are equal
// elements. A string stays until the next run begins; those of constants and of prepared
// kernels stay as long as the session.
type Texts struct {
	mu    sync.RWMutex // parts of a kernel make strings at the same time
	list  []string     // the first is ""
	index map[string]uint64
	Mem   *store.Share
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

func (x *Texts) Text(element uint64) (string, error) {
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

func (x *Texts) Element(text string) (uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.add(text)
}

// Compose returns the element of a string of at most the given bytes, which count before
// make makes it.
func (x *Texts) Compose(bytes int64, make func() string) (uint64, error) {
	x.mu.Lock()
	err := x.Mem.Take(bytes)
	x.mu.Unlock()
	if err != nil {
		return 0, err
	}
	text := make()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Mem.Give(bytes)
	n := len(x.list)
	e, err := x.add(text)
	if len(x.list) == n {
		x.wasted(int64(len(text)))
	}
	return e, err
}

// add is element for a caller that holds the lock.
func (x *Texts) add(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	if e, ok := x.index[text]; ok {
		return e, nil
	}
	x.begin()
	bytes := int64(len(text)) + textBytes
	if err := x.Mem.Take(bytes); err != nil {
		return 0, err
	}
	x.bytes += bytes
	e := uint64(len(x.list))
	x.list = append(x.list, text)
	x.index[text] = e
	return e, nil
}

// wasted counts the bytes of a string that nothing refers to any more, and collects.
func (x *Texts) wasted(bytes int64) {
	if x.waste += bytes; x.waste > mostWaste {
		x.waste = 0
		runtime.GC()
	}
}

// begin adds the empty string, which is element 0.
func (x *Texts) begin() {
	if x.index == nil {
		x.index, x.list = map[string]uint64{}, []string{""}
	}
}

// Keep marks all strings so far as those of the session.
func (x *Texts) Keep() {
	x.begin()
	x.kept = len(x.list)
}

// Drop frees the strings of the last run.
func (x *Texts) Drop() {
	x.Mem.Give(x.lists)
	x.lists = 0
	if len(x.list) == x.kept {
		return
	}
	before := x.bytes
	for _, s := range x.list[x.kept:] {
		delete(x.index, s)
		x.bytes -= int64(len(s)) + textBytes
	}
	x.Mem.Give(before - x.bytes)
	clear(x.list[x.kept:])
	x.list = x.list[:x.kept]
	x.wasted(before - x.bytes)
}
