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
	// maxText is the longest JSON that ReadProblem takes, after decompression, and
	// maxValue the longest node, tensor or other value in it.
	maxText  = 1 << 30
	maxValue = 16 << 20

	// A gzipped problem may inflate to freeBytes, and beyond that to maxRatio
	// times its size. Real ones inflate 5 to 30 times; gzip makes a thousandth of
	// a run of one byte, and a node of three bytes takes a hundred in memory.
	freeBytes = 4 << 20
	maxRatio  = 100
)

// MaxBytes is what a problem that is read may take in memory: some million nodes
// with as many tensors.
const MaxBytes = 320 << 20

// ReadProblem reads a problem from JSON, gzipped or not (the first two bytes
// tell), and validates it. An error gives the byte or the node or tensor, not
// the file: the caller knows its name. Unknown fields are skipped; a key that stands
// twice in an object, or in another case, is refused. The text is not held in memory,
// and a problem that would take more than [MaxBytes] there is refused.
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

// decoder reads a problem, some nodes and tensors at a time.
type decoder struct {
	*strictjson.Stream
	p     Problem
	bytes int64             // of p
	ints  []int32           // memory for lists: most are short, and there are millions
	words map[string]string // operators and kinds, each once
}

// field reads the value of a key of the problem.
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

// count adds what a node or tensor takes, but for its lists.
func (d *decoder) count(size uintptr, name string) error {
	d.bytes += int64(size) + int64(len(name)+15)&^15
	if d.bytes > MaxBytes {
		return fmt.Errorf("byte %d: the problem takes more than %d MiB of memory: expected at most some million nodes with as many tensors", d.Offset(), MaxBytes>>20)
	}
	return nil
}

// listBytes is how much memory is taken at once for short lists.
const listBytes = 256 << 10

// list copies a list into memory that it shares with others.
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

// word is a text that many nodes have.
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

// limited fails where a text goes on for too long.
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

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// inflated reads what was packed, and stops when that is too little for it.
type inflated struct {
	counter
	packed *counter
}

func (f *inflated) Read(b []byte) (int, error) {
	n, err := f.counter.Read(b)
	switch {
	case f.n > max(freeBytes, maxRatio*f.packed.n):
		return n, fmt.Errorf("gzip: %d bytes inflate to more than %d times as many: that is no problem", f.packed.n, maxRatio)
	case err != nil && err != io.EOF:
		return n, fmt.Errorf("gzip: %w", err)
	}
	return n, err
}
