// Package npy reads and writes numpy's array files: .npy (one array) and .npz (a
// zip file of named arrays). It supports format versions 1 to 3, little-endian
// elements and strings (U and S), C order, and Fortran order if at most one axis is longer than 1.
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
	"unicode/utf8"
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
	a, size, _, err := readHeader(r, limit)
	if err != nil {
		return nil, err
	}
	a.Data, err = elements(r, size)
	return a, err
}

// readHeader reads an array up to its elements. It returns how many bytes these take, and
// how many the header took.
func readHeader(r io.Reader, limit int64) (a *Array, size, length int64, err error) {
	var head [10]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:6]) != "\x93NUMPY" {
		return nil, 0, 0, fmt.Errorf("not a numpy array")
	}
	length = 10
	n := int(binary.LittleEndian.Uint16(head[8:]))
	if head[6] > 1 {
		var more [2]byte
		if _, err := io.ReadFull(r, more[:]); err != nil {
			return nil, 0, 0, err
		}
		length += 2
		n |= int(binary.LittleEndian.Uint16(more[:])) << 16
	}
	if head[6] < 1 || head[6] > 3 || n > maxHeader {
		return nil, 0, 0, fmt.Errorf("version %d with a header of %d bytes: expected version 1 to 3, at most %d bytes", head[6], n, maxHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, 0, 0, err
	}
	a, err = header(string(text))
	if err != nil {
		return nil, 0, 0, err
	}
	width, err := a.width()
	if err != nil {
		return nil, 0, 0, err
	}
	size = int64(width)
	for _, d := range a.Shape {
		if d > 0 && size > limit/int64(d) {
			return nil, 0, 0, fmt.Errorf("shape %v of %s: %w of %d bytes", a.Shape, a.Descr, ErrTooLarge, limit)
		}
		size *= int64(d)
	}
	return a, size, length + int64(n), nil
}

// longest bounds the bytes of a string.
const longest = 1 << 24

// width is the size of an element in bytes.
func (a *Array) width() (int, error) {
	kind := strings.TrimLeft(a.Descr, "<|=>")
	width, err := strconv.Atoi(strings.TrimLeft(kind, "bifucSU"))
	most := 16
	if strings.HasPrefix(kind, "S") || strings.HasPrefix(kind, "U") {
		most = longest
	}
	if err != nil || width < 1 || width > most || a.Descr[0] == '>' && (width > 1 || kind[0] == 'U') {
		return 0, fmt.Errorf("element type %q: expected little-endian numbers or strings (of objects, make strings: x.astype(str))", a.Descr)
	}
	if kind[0] == 'U' {
		width *= 4 // a code point each
	}
	return width, nil
}

// Strings returns the elements of an array of strings; false for one of numbers.
func (a *Array) Strings() ([]string, bool) {
	kind := strings.TrimLeft(a.Descr, "<|=>")
	width, err := a.width()
	if err != nil || kind[0] != 'U' && kind[0] != 'S' {
		return nil, false
	}
	list := make([]string, 0, len(a.Data)/width)
	for b := a.Data; len(b) > 0; b = b[width:] {
		if kind[0] == 'S' {
			list = append(list, strings.TrimRight(string(b[:width]), "\x00"))
			continue
		}
		var s strings.Builder
		for k := 0; k < width; k += 4 {
			s.WriteRune(rune(binary.LittleEndian.Uint32(b[k:])))
		}
		list = append(list, strings.TrimRight(s.String(), "\x00"))
	}
	return list, true
}

// OfStrings returns an array of strings. It fails if it would have more than limit bytes:
// each element is as long as the longest.
func OfStrings(list []string, shape []int, limit int64) (*Array, error) {
	most := 1
	for _, s := range list {
		most = max(most, utf8.RuneCountInString(s))
	}
	if int64(most) > limit/4/max(1, int64(len(list))) {
		return nil, fmt.Errorf("%d strings of up to %d characters: %w of %d bytes", len(list), most, ErrTooLarge, limit)
	}
	a := &Array{Descr: fmt.Sprintf("<U%d", most), Shape: shape, Data: make([]byte, 0, 4*most*len(list))}
	for _, s := range list {
		n := 0
		for _, c := range s {
			a.Data = binary.LittleEndian.AppendUint32(a.Data, uint32(c))
			n++
		}
		a.Data = append(a.Data, make([]byte, 4*(most-n))...)
	}
	return a, nil
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
// limit bytes. accepts, which may be nil, sees each array's name, type and shape before its
// elements are read: an error of it ends the reading.
func ReadZip(r io.ReaderAt, size, limit int64, accepts func(name string, a *Array) error) (map[string]*Array, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("not an .npz file: %w", err)
	}
	arrays := map[string]*Array{}
	for _, f := range z.File {
		name := strings.TrimSuffix(f.Name, ".npy")
		if arrays[name] != nil {
			return nil, fmt.Errorf("has two arrays %q", name)
		}
		a, err := readEntry(f, limit, func(a *Array) error {
			if accepts == nil {
				return nil
			}
			return accepts(name, a)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		limit -= int64(len(a.Data))
		arrays[name] = a
	}
	return arrays, nil
}

// ReadHeads reads the types and shapes of all arrays of a .npz file by name, without their
// elements. Each may be of at most limit bytes.
func ReadHeads(r io.ReaderAt, size, limit int64) (map[string]*Array, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("not an .npz file: %w", err)
	}
	arrays := map[string]*Array{}
	for _, f := range z.File {
		m, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		a, _, _, err := readHeader(m, limit)
		m.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		arrays[strings.TrimSuffix(f.Name, ".npy")] = a
	}
	return arrays, nil
}

// mostInflated bounds the bytes that deflate makes of one.
const mostInflated = 1032

// readEntry reads one array of a .npz file to its end, since the checksum is compared there.
// What the header of the array says must agree with what the zip file says, and be possible:
// otherwise few bytes could make us read very many.
func readEntry(f *zip.File, limit int64, accepts func(*Array) error) (*Array, error) {
	m, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	a, size, length, err := readHeader(m, limit)
	if err != nil {
		return nil, err
	}
	if err := accepts(a); err != nil {
		return nil, err
	}
	packed, unpacked := f.CompressedSize64, f.UncompressedSize64
	switch {
	case unpacked != uint64(length+size):
		return nil, fmt.Errorf("shape %v of %s: expected %d bytes with the header, found %d", a.Shape, a.Descr, length+size, unpacked)
	case unpacked/mostInflated > packed:
		return nil, fmt.Errorf("has %d bytes that would inflate to %d: more than deflate can", packed, unpacked)
	}
	if a.Data, err = elements(m, size); err != nil {
		return nil, err
	}
	switch n, err := m.Read(make([]byte, 1)); {
	case n > 0:
		return nil, errors.New("bytes follow its elements")
	case err != io.EOF:
		return nil, err
	}
	return a, nil
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
