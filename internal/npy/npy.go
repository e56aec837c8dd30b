// Package npy reads and writes numpy's array files: .npy (one array) and .npz (a
// zip file of named arrays). It supports format versions 1 to 3, little-endian
// elements, C order, and Fortran order if at most one axis is longer than 1.
package npy

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Array is an array as a file holds it.
type Array struct {
	Descr string // numpy's name of the element type, such as "<f4"
	Shape []int
	Data  []byte // little-endian, row by row
}

// ErrTooLarge means that an array has more bytes than the limit of Read.
var ErrTooLarge = errors.New("more than the limit")

// maxHeader bounds the header of an array.
const maxHeader = 1 << 16

var (
	descr   = regexp.MustCompile(`'descr'\s*:\s*'([^']*)'`)
	order   = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	shapeOf = regexp.MustCompile(`'shape'\s*:\s*\(([^)]*)\)`)
)

// Read reads an array of at most limit bytes; a larger one is ErrTooLarge.
func Read(r io.Reader, limit int64) (*Array, error) {
	var head [10]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:6]) != "\x93NUMPY" {
		return nil, fmt.Errorf("not a numpy array")
	}
	n := int(binary.LittleEndian.Uint16(head[8:]))
	if head[6] > 1 {
		var more [2]byte
		if _, err := io.ReadFull(r, more[:]); err != nil {
			return nil, err
		}
		n |= int(binary.LittleEndian.Uint16(more[:])) << 16
	}
	if head[6] < 1 || head[6] > 3 || n > maxHeader {
		return nil, fmt.Errorf("version %d with a header of %d bytes: expected version 1 to 3, at most %d bytes", head[6], n, maxHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	a, err := header(string(text))
	if err != nil {
		return nil, err
	}
	width, err := strconv.Atoi(strings.TrimLeft(a.Descr, "<|=>bifuc"))
	if err != nil || width < 1 || width > 16 || a.Descr[0] == '>' && width > 1 {
		return nil, fmt.Errorf("element type %q: expected little-endian numbers", a.Descr)
	}
	size := int64(width)
	for _, d := range a.Shape {
		if d > 0 && size > limit/int64(d) {
			return nil, fmt.Errorf("shape %v of %s: %w of %d bytes", a.Shape, a.Descr, ErrTooLarge, limit)
		}
		size *= int64(d)
	}
	a.Data, err = elements(r, size)
	return a, err
}

// elements reads size bytes. It allocates memory as the bytes arrive, because the
// header may claim more than the file has.
func elements(r io.Reader, size int64) ([]byte, error) {
	b := make([]byte, 0, min(size, 1<<20))
	for int64(len(b)) < size {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(size, 2*int64(cap(b)))), b...)
		}
		n, err := io.ReadFull(r, b[len(b):cap(b)])
		if b = b[:len(b)+n]; err != nil {
			return nil, fmt.Errorf("ends after %d bytes of elements, expected %d", len(b), size)
		}
	}
	return b, nil
}

// header parses the dictionary that precedes the elements.
func header(text string) (*Array, error) {
	d, o, s := descr.FindStringSubmatch(text), order.FindStringSubmatch(text), shapeOf.FindStringSubmatch(text)
	if d == nil || o == nil || s == nil || d[1] == "" {
		return nil, fmt.Errorf("header %q: expected descr, fortran_order and shape of plain numbers", text)
	}
	a := &Array{Descr: d[1], Shape: []int{}}
	for _, f := range strings.FieldsFunc(s[1], func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(strings.TrimSuffix(f, "L"))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("shape (%s): expected lengths", s[1])
		}
		a.Shape = append(a.Shape, n)
	}
	long := 0
	for _, n := range a.Shape {
		if n > 1 {
			long++
		}
	}
	if o[1] == "True" && long > 1 {
		return nil, fmt.Errorf("is in Fortran order: expected C order (numpy.ascontiguousarray)")
	}
	return a, nil
}

// Write writes an array.
func Write(w io.Writer, a *Array) error {
	var s strings.Builder
	for _, n := range a.Shape {
		fmt.Fprintf(&s, "%d,", n)
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", a.Descr, s.String())
	text += strings.Repeat(" ", 63-(10+len(text))%64) + "\n"
	head := append([]byte("\x93NUMPY\x01\x00"), byte(len(text)), byte(len(text)>>8))
	for _, b := range [][]byte{head, []byte(text), a.Data} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// ReadZip reads all arrays of a .npz file by name. Together they may have at most
// limit bytes.
func ReadZip(r io.ReaderAt, size, limit int64) (map[string]*Array, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("not an .npz file: %w", err)
	}
	arrays := map[string]*Array{}
	for _, f := range z.File {
		m, err := f.Open()
		if err != nil {
			return nil, err
		}
		a, err := Read(m, limit)
		m.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		limit -= int64(len(a.Data))
		arrays[strings.TrimSuffix(f.Name, ".npy")] = a
	}
	return arrays, nil
}

// ZipWriter writes a .npz file, array by array.
type ZipWriter struct{ z *zip.Writer }

// NewZipWriter begins a .npz file.
func NewZipWriter(w io.Writer) *ZipWriter { return &ZipWriter{zip.NewWriter(w)} }

// Write adds an array.
func (w *ZipWriter) Write(name string, a *Array) error {
	f, err := w.z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
	if err != nil {
		return err
	}
	return Write(f, a)
}

// Close writes the end of the .npz file. It does not close the writer below.
func (w *ZipWriter) Close() error { return w.z.Close() }
