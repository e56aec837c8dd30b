package schedule

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/strictjson"
)

const (
	// maxText is the greatest length of JSON that ReadProblem accepts, after
	// decompression, and maxValue that of a node, a tensor or another value in it; bytes.
	maxText  = 1 << 30
	maxValue = 16 << 20

	// A gzipped problem may inflate to freeBytes, or to maxRatio times its size if that
	// is more. Real problems inflate 5 to 30 times. gzip shrinks a run of one byte a
	// thousandfold, and a node of three bytes of JSON takes a hundred bytes of memory.
	freeBytes = 4 << 20
	maxRatio  = 100
)

// MaxBytes is the most memory, in bytes, that a problem may take when it is read: enough
// for about a million nodes and as many tensors.
const MaxBytes = 320 << 20

// ReadProblem reads a problem from JSON and validates it. The JSON may be gzipped, which
// shows in its first two bytes. An error names the byte, the node or the tensor; it does
// not name the file, which only the caller knows. Unknown fields are skipped. A key that
// occurs twice in an object, or differs from a known one only in case, is an error, and
// so is a problem that would take more than [MaxBytes]. The text is not held in memory.
func ReadProblem(r io.Reader) (*Problem, error) {
	packed := &counter{r: r}
	b := bufio.NewReader(packed)
	r = b
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		r = &inflated{counter{r: z}, packed}
	}
	d := decoder{Stream: strictjson.NewStream(&limited{r, maxText}, maxValue), words: map[string]string{}}
	if err := d.Object([]string{"name", "mode", "nodes", "tensors"}, d.field); err != nil {
		return nil, err
	}
	if d.p.Nodes == nil {
		return nil, errors.New(`nodes: missing: expected a scheduling problem {"nodes": [...], "tensors": [...]}`)
	}
	return &d.p, d.p.Validate()
}

// decoder reads a problem in batches of nodes and tensors.
type decoder struct {
	*strictjson.Stream
	p     Problem
	bytes int64             // memory that p takes
	ints  []int32           // a block from which short lists are cut: there are millions
	words map[string]string // operators and kinds, so that equal ones share memory
}

// field reads the value of one key of the problem.
func (d *decoder) field(key string) (err error) {
	found := false
	switch key {
	case "name":
		return d.Decode(&d.p.Name, key, strictjson.Rules{})
	case "mode":
		return d.Decode(&d.p.Mode, key, strictjson.Rules{})
	case "nodes":
		var batch []Node
		found, err = d.List(key, &batch, func(int) error { return d.nodes(batch) })
		if found && d.p.Nodes == nil {
			d.p.Nodes = []Node{}
		}
	case "tensors":
		var batch []Tensor
		found, err = d.List(key, &batch, func(int) error { return d.tensors(batch) })
		if found && d.p.Tensors == nil {
			d.p.Tensors = []Tensor{}
		}
	default:
		var skipped json.RawMessage
		return d.Decode(&skipped, key, strictjson.Rules{})
	}
	return err
}

func (d *decoder) nodes(batch []Node) error {
	for i := range batch {
		n := &batch[i]
		n.Op, n.Args, n.Writes = d.word(n.Op), d.list(n.Args), d.list(n.Writes)
		if err := d.count(unsafe.Sizeof(*n), n.Name); err != nil {
			return err
		}
	}
	d.p.Nodes = append(d.p.Nodes, batch...)
	return nil
}

func (d *decoder) tensors(batch []Tensor) error {
	for i := range batch {
		t := &batch[i]
		t.Kind, t.Consumers, t.Reuses = d.word(t.Kind), d.list(t.Consumers), d.list(t.Reuses)
		if err := d.count(unsafe.Sizeof(*t), t.Name); err != nil {
			return err
		}
	}
	d.p.Tensors = append(d.p.Tensors, batch...)
	return nil
}

// count adds the memory of a node or tensor without its lists. It fails above MaxBytes.
func (d *decoder) count(size uintptr, name string) error {
	d.bytes += int64(size) + int64(len(name)+15)&^15
	if d.bytes > MaxBytes {
		return fmt.Errorf("byte %d: the problem takes more than %d MiB of memory: expected at most some million nodes with as many tensors", d.Offset(), MaxBytes>>20)
	}
	return nil
}

// listBytes is the size of a block of memory for short lists.
const listBytes = 256 << 10

// list returns a copy of a list. Short lists share a block of memory.
func (d *decoder) list(list []int32) []int32 {
	if len(list) == 0 {
		return list
	}
	d.bytes += 4 * int64(len(list))
	if cap(d.ints)-len(d.ints) < len(list) {
		if 4*len(list) > listBytes/4 {
			return slices.Clone(list)
		}
		d.ints = make([]int32, 0, listBytes/4)
	}
	at := len(d.ints)
	d.ints = append(d.ints, list...)
	return d.ints[at:len(d.ints):len(d.ints)]
}

// word returns s, in memory that equal words share if there are not too many words.
func (d *decoder) word(s string) string {
	const most = 1 << 12
	if w, ok := d.words[s]; ok || len(d.words) == most {
		if !ok {
			d.bytes += int64(len(s))
			return s
		}
		return w
	}
	d.words[s] = s
	return s
}

// limited fails once more than maxText bytes have been read.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("more than %d bytes of JSON", maxText)
	}
	return n, err
}

// counter counts the bytes read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// inflated reads decompressed bytes. It fails if they are too many for the compressed
// bytes read so far.
type inflated struct {
	counter
	packed *counter
}

func (f *inflated) Read(b []byte) (int, error) {
	n, err := f.counter.Read(b)
	switch {
	case f.n > max(freeBytes, maxRatio*f.packed.n):
		return n, fmt.Errorf("gzip: %d bytes inflate to more than %d times as many: expected a scheduling problem", f.packed.n, maxRatio)
	case err != nil && err != io.EOF:
		return n, fmt.Errorf("gzip: %w", err)
	}
	return n, err
}
