package constants

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Set holds the elements of initializers and Constant nodes: in the mapped
// model, in mapped files of external data, or decoded in memory of its own.
type Set struct {
	m           *graph.Model
	files       map[string]*mapped.File
	mu          sync.Mutex // sessions may be made at the same time
	tensors     map[*graph.Data]*kernel.Tensor
	decoded     int64 // bytes of decoded constants
	packs       map[form.PackKey]*store.Block
	shared      []*sharedPack                   // those of packs that other programs may use, too
	sessions    int                             // that use the packed, computed and decoded constants
	origins     map[unsafe.Pointer]mapped.Place // of copied constants
	made        map[*graph.Tensor]*made
	packed      int64          // bytes of packs, and of computed constants that are kept
	packedSince int64          // bytes that were packed since the pages of the files were given back
	blocks      []*store.Block // of decoded constants, and slabs
	slab        *store.Block   // the last one; nil: there is none
	slabUsed    int64          // bytes of it
	inFile      inFile
	Mem         *store.Share // counts all memory of the constants

	Guard *store.Guard // of the guarded session that owns them; else nil
}

func New(m *graph.Model, of *store.Account) *Set {
	return &Set{m: m, Mem: &store.Share{Of: of}, files: map[string]*mapped.File{}, tensors: map[*graph.Data]*kernel.Tensor{}, packs: map[form.PackKey]*store.Block{}, made: map[*graph.Tensor]*made{}, origins: map[unsafe.Pointer]mapped.Place{}}
}

// Enter begins a session's use of the constants. Each call needs one of leave.
func (c *Set) Enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions++
}

// Leave ends a session's use of the constants. After the last, what was made of them is
// freed, and the files stay mapped.
func (c *Set) Leave() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions--; c.sessions > 0 {
		return nil
	}
	err := c.free()
	c.tensors, c.packs, c.made, c.origins = map[*graph.Data]*kernel.Tensor{}, map[form.PackKey]*store.Block{}, map[*graph.Tensor]*made{}, map[unsafe.Pointer]mapped.Place{}
	c.dropLocked()
	return err
}

// Close unmaps the files and frees the memory.
func (c *Set) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first error
	for _, f := range c.files {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	c.files = nil
	return cmp.Or(first, c.free())
}

// free frees what was made of the constants.
func (c *Set) free() error {
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	for _, b := range c.packs {
		note(b.Free())
	}
	for _, p := range c.shared {
		note(p.leave())
	}
	for _, m := range c.made {
		if !m.freed {
			note(m.at.Free())
		}
	}
	for _, b := range c.blocks {
		note(b.Free())
	}
	c.tensors, c.packs, c.shared, c.made, c.origins, c.blocks, c.slab = nil, nil, nil, nil, nil, nil, nil
	c.decoded, c.packed, c.inFile = 0, 0, inFile{}
	c.Mem.Close()
	return first
}

// Unchanged fails if a file was truncated or written since it was mapped.
func (c *Set) Unchanged() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		if err := f.Check(); err != nil {
			return err
		}
	}
	return c.m.Source.Unchanged()
}

// BytesMade returns the bytes that have been decoded (or copied) and packed so far, and those
// that kernels read in mapped files.
func (c *Set) BytesMade() (decoded, packed, inFile int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decoded, c.packed, c.fileBytes()
}

// decodedBytes allocates memory for the elements of a constant that the file encodes
// differently from what kernels read.
func (c *Set) decodedBytes(size int64, within store.Bound) ([]byte, error) {
	if err := c.Mem.Within(size, within); err != nil {
		return nil, err
	}
	if size < store.LargeBlock {
		c.decoded += size
		return make([]byte, size), nil
	}
	b, err := store.NewBlock(size, "decoded constant")
	if err != nil {
		c.Mem.Give(size)
		return nil, err
	}
	c.decoded += size
	c.blocks = append(c.blocks, b)
	return b.Bytes, nil
}

// block allocates memory for packed or computed constants.
func (c *Set) block(bytes int64, what string) (*store.Block, error) {
	if c.Guard == nil {
		b, err := store.NewBlock(bytes, what)
		if err != nil {
			return nil, err
		}
		return b.Huge(), nil
	}
	p, err := c.Guard.Take(what, bytes)
	if err != nil {
		return nil, err
	}
	return &store.Block{Base: p.At()}, nil
}

// Tensor returns a constant as kernels see it. Its memory counts against the limit of
// the session that asks for it (Options.MemoryLimit).
func (c *Set) Tensor(d *graph.Data, within store.Bound) (*kernel.Tensor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.locked(d, within)
}

func (c *Set) locked(d *graph.Data, within store.Bound) (*kernel.Tensor, error) {
	if t := c.tensors[d]; t != nil {
		return t, nil
	}
	b, err := c.bytes(d, within)
	if err != nil {
		return nil, values.About(d.Name, err)
	}
	switch {
	case c.Guard != nil:
		b, err = c.Guard.Fixed("constant "+values.NameOf(d.Name), b)
	case within.Device == nil && len(b) <= smallBytes && len(b) > 0 && mapped.Holds(unsafe.Pointer(unsafe.SliceData(b))):
		b, err = c.copied(b, within)
	}
	if err != nil {
		return nil, err
	}
	t := &kernel.Tensor{Type: d.Type, Shape: make([]int, len(d.Dims)), Const: true, At: unsafe.Pointer(unsafe.SliceData(b))}
	for i, n := range d.Dims {
		t.Shape[i] = int(n)
	}
	if len(b) == 0 && c.Guard == nil {
		t.At = unsafe.Pointer(&values.Empty)
	}
	c.tensors[d] = t
	return t, nil
}

// smallBytes is the size up to which constants are copied from a mapped file: when a byte of
// one is read, the system maps a window of pages around it, often of weights that are packed.
// DenseNet-121 reads some 600 small constants in place, which lie between its weights: 20 MiB
// of its process were such pages. A device has copies of all constants.
const smallBytes = 16 << 10

// copied copies a small constant.
func (c *Set) copied(b []byte, within store.Bound) ([]byte, error) {
	size := int64(len(b))
	if err := c.Mem.Within(size, within); err != nil {
		return nil, err
	}
	to, err := c.room(size)
	if err != nil {
		c.Mem.Give(size)
		return nil, err
	}
	c.decoded += size
	if place, ok := mapped.PlaceOf(unsafe.Pointer(unsafe.SliceData(b))); ok {
		c.origins[to.Base] = place
	}
	is := unsafe.Slice((*byte)(to.Base), len(b))
	copy(is, b)
	return is, nil
}

// bytes returns the elements of a constant, row by row.
func (c *Set) bytes(d *graph.Data, within store.Bound) ([]byte, error) {
	size, err := d.Type.SizeBytes(d.Elements())
	if err != nil || d.Type.Bits() == 0 {
		return nil, fmt.Errorf("no kernel for constants of dtype %v", d.Type)
	}
	var b []byte
	switch {
	case d.Sparse != nil:
		b, err = c.dense(d, size, within)
	case d.External != nil:
		b, err = c.external(d, size)
	case d.Raw != nil:
		b = d.Raw
	case d.Generate != nil:
		if b, err = c.decodedBytes(size, within); err == nil {
			w := filler{b: b}
			if err = d.Generate(&w); err == nil && w.n != len(b) {
				err = fmt.Errorf("has %d bytes of elements, expected %d", w.n, size)
			}
		}
	case len(d.Payload) == 1 && d.Payload[0].Len == size && (d.Type == graph.Float32 || d.Type == graph.Float64):
		b = c.m.Source.Bytes[d.Payload[0].Off:d.Payload[0].End()]
	default:
		b, err = c.decode(d, size, within)
	}
	if err == nil && int64(len(b)) != size {
		err = fmt.Errorf("has %d bytes of elements, expected %d", len(b), size)
	}
	return b, err
}

// external returns elements of an external data file, which it maps once.
func (c *Set) external(d *graph.Data, size int64) ([]byte, error) {
	x := d.External
	file := c.files[x.Location]
	if file == nil {
		root, err := os.OpenRoot(c.m.Source.Dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		f, err := root.Open(filepath.FromSlash(x.Location))
		if err != nil {
			return nil, fmt.Errorf("external data in %q: not found (looked in %s)", x.Location, c.m.Source.Dir)
		}
		if file, err = mapped.Map(f, filepath.Join(c.m.Source.Dir, filepath.FromSlash(x.Location))); err != nil {
			f.Close()
			return nil, fmt.Errorf("external data in %q: %w", x.Location, err)
		}
		c.files[x.Location] = file
	}
	if x.Offset+size > int64(len(file.Bytes)) {
		return nil, fmt.Errorf("external data in %q: expected %d bytes from byte %d on, found a file of %d", x.Location, size, x.Offset, len(file.Bytes))
	}
	return file.Bytes[x.Offset : x.Offset+size], nil
}

// filler is an io.Writer that fills a given slice.
type filler struct {
	b []byte
	n int
}

func (w *filler) Write(p []byte) (int, error) {
	if len(p) > len(w.b)-w.n {
		return 0, fmt.Errorf("has more than %d bytes of elements", len(w.b))
	}
	w.n += copy(w.b[w.n:], p)
	return len(p), nil
}

// decode decodes elements from the typed fields of a TensorProto.
func (c *Set) decode(d *graph.Data, size int64, within store.Bound) ([]byte, error) {
	n := d.Elements()
	width := d.Type.Bits() / 8
	// Each element takes at least one byte of the file. Check that before allocating
	// memory for the size that the file claims.
	there := int64(max(len(d.Floats), len(d.Ints)))
	for _, s := range d.Payload {
		there = max(there, s.Len)
	}
	if there < n && width > 0 || there < size && width == 0 {
		return nil, fmt.Errorf("has no more than %d elements, expected %d", there, n)
	}
	out, err := c.decodedBytes(size, within)
	if err != nil {
		return nil, err
	}
	out = out[:0:size]
	put := func(v uint64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], v)
		out = append(out, b[:width]...)
	}
	switch {
	case int64(len(d.Floats)) == n && n > 0:
		for _, v := range d.Floats {
			if d.Type == graph.Float32 {
				put(uint64(math.Float32bits(float32(v))))
			} else {
				put(math.Float64bits(v))
			}
		}
		return out, nil
	case int64(len(d.Ints)) == n && width > 0:
		for _, v := range d.Ints {
			put(uint64(v))
		}
		return out, nil
	}
	for _, s := range d.Payload {
		b := c.m.Source.Bytes[s.Off:s.End()]
		if d.Type == graph.Float32 || d.Type == graph.Float64 || d.Type == graph.Complex64 || d.Type == graph.Complex128 {
			out = append(out, b...)
			continue
		}
		for len(b) > 0 {
			v, k := protowire.ConsumeVarint(b)
			if k < 0 {
				return nil, fmt.Errorf("its elements end in the middle of a number")
			}
			b = b[k:]
			if width == 0 { // each byte holds several elements
				out = append(out, byte(v))
				continue
			}
			put(v)
		}
	}
	return out, nil
}

// dense converts a sparse tensor to a dense one.
func (c *Set) dense(d *graph.Data, size int64, within store.Bound) ([]byte, error) {
	values, err := c.locked(d.Sparse.Values, within)
	if err != nil {
		return nil, err
	}
	indices, err := c.locked(d.Sparse.Indices, within)
	if err != nil {
		return nil, err
	}
	width := int(d.Type.Bits() / 8)
	if width == 0 {
		return nil, fmt.Errorf("no kernel for sparse constants of dtype %v", d.Type)
	}
	out, err := c.decodedBytes(size, within)
	if err != nil {
		return nil, err
	}
	from := unsafe.Slice((*byte)(values.At), values.Bytes())
	at := indexReader(indices)
	axes := 1
	if len(indices.Shape) == 2 {
		axes = indices.Shape[1]
	}
	for i := range values.Len() {
		place := int64(0)
		for a := range axes {
			if axes > 1 || len(indices.Shape) == 2 {
				place = place*d.Sparse.Dims[a] + at(i*axes+a)
			} else {
				place = at(i)
			}
		}
		if place < 0 || place >= d.Elements() {
			return nil, fmt.Errorf("sparse tensor: index %d: expected one in [0, %d)", place, d.Elements())
		}
		copy(out[int(place)*width:], from[i*width:(i+1)*width])
	}
	return out, nil
}

// indexReader returns a function that reads element i of the indices of a sparse tensor.
func indexReader(t *kernel.Tensor) func(i int) int64 {
	switch t.Type {
	case graph.Int32:
		return indexOf[int32](t)
	case graph.Int16:
		return indexOf[int16](t)
	case graph.Int8:
		return indexOf[int8](t)
	}
	return indexOf[int64](t)
}

func indexOf[T int8 | int16 | int32 | int64](t *kernel.Tensor) func(i int) int64 {
	list := unsafe.Slice((*T)(t.At), t.Len())
	return func(i int) int64 { return int64(list[i]) }
}
