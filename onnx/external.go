package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/files"
	"github.com/onnxmem/onnxmem/internal/oserr"
)

// checkExternal looks whether every external tensor lies where the file says,
// within the model's folder. It returns the missing files, if they may be missing.
func checkExternal(m *graph.Model, allowMissing bool) ([]string, error) {
	var all []*graph.Data
	eachData(m, func(d *graph.Data) {
		if d.External != nil {
			all = append(all, d)
		}
	})
	if len(all) == 0 {
		return nil, nil
	}
	var root *os.Root // nil: the model has no folder
	var err error
	if m.Source.Dir != "" {
		if root, err = os.OpenRoot(m.Source.Dir); err != nil {
			return nil, err
		}
		defer root.Close()
	}
	sizes := map[string]int64{}
	var missing []string
	for _, d := range all {
		x := d.External
		size, seen := sizes[x.Location]
		if !seen {
			size, err = externalSize(root, x.Location)
			if errors.Is(err, os.ErrNotExist) && allowMissing {
				missing, size, err = append(missing, x.Location), -1, nil
			}
			if err != nil {
				e := graph.Errorf("external data in %s: %w", quoted(x.Location), err)
				if errors.Is(err, os.ErrNotExist) {
					e = graph.Errorf("external data in %s: not found (looked in %s): put the file there, or plan without it (--allow-missing-weights)",
						quoted(x.Location), m.Source.Dir)
				}
				e.Tensor = d.Name
				return nil, e
			}
			sizes[x.Location] = size
		}
		if size < 0 {
			continue
		}
		if x.Length < 0 && size-x.Offset != d.Bytes || x.Offset+d.Bytes > size {
			e := graph.Errorf("external data in %s: expected %d bytes from byte %d on, found a file of %d bytes", quoted(x.Location), d.Bytes, x.Offset, size)
			e.Tensor = d.Name
			return nil, e
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing), nil
}

// externalSize gives the size of a file of the model's folder; nil: it has none. os.Root
// refuses what leads outside, symbolic links included.
func externalSize(root *os.Root, location string) (int64, error) {
	if strings.ContainsRune(location, 0) {
		return 0, fmt.Errorf("the name holds a NUL byte")
	}
	name := filepath.FromSlash(location)
	if !filepath.IsLocal(name) || slices.Contains(strings.Split(filepath.ToSlash(name), "/"), "..") {
		return 0, fmt.Errorf("lies outside the model's folder: expected a relative path within it")
	}
	switch {
	case root != nil:
	case filepath.Clean(name) == ".":
		return 0, fmt.Errorf("is a folder, expected a file")
	default:
		return 0, os.ErrNotExist
	}
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, err
	case err != nil:
		if link, to := linkOutside(root, name); link == name {
			return 0, fmt.Errorf("is a symbolic link to %s, outside the model's folder: expected a file within it: copy the model and its data into one folder (cp -L)", quoted(to))
		} else if link != "" {
			return 0, fmt.Errorf("%s is a symbolic link to %s, outside the model's folder: expected a folder within it: copy the model and its data into one folder (cp -rL)", quoted(link), quoted(to))
		}
		return 0, oserr.Reason(err)
	case info.IsDir():
		return 0, fmt.Errorf("is a folder, expected a file")
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("is not a regular file")
	}
	return info.Size(), nil
}

// linkOutside returns the symbolic link by which a path leads out of a folder,
// and its target; "" if there is none.
func linkOutside(root *os.Root, name string) (link, to string) {
	parts := strings.Split(filepath.ToSlash(name), "/")
	for i := range parts {
		link = filepath.Join(parts[:i+1]...)
		to, err := root.Readlink(link)
		if err != nil {
			continue
		}
		if _, err := root.Stat(link); err != nil {
			return link, to
		}
	}
	return "", ""
}

// eachData calls f for every tensor in the model's file: initializers and
// attributes of the main graph, of bodies and of functions.
func eachData(m *graph.Model, f func(*graph.Data)) {
	eachGraphData(m.Graph, f)
	for _, fn := range m.Functions {
		eachGraphData(fn.Body, f)
		for _, a := range fn.Defaults {
			eachAttrData(a, f)
		}
	}
}

func eachGraphData(g *graph.Graph, f func(*graph.Data)) {
	one := func(d *graph.Data) {
		switch {
		case d == nil:
		case d.Sparse != nil:
			f(d.Sparse.Values)
			f(d.Sparse.Indices)
		default:
			f(d)
		}
	}
	for _, t := range g.Tensors {
		one(t.Data)
	}
	for _, n := range g.Nodes {
		for _, a := range n.Attrs {
			eachAttrData(a, f)
		}
	}
}

func eachAttrData(a *graph.Attr, f func(*graph.Data)) {
	if a.Tensor != nil {
		f(a.Tensor)
	}
	for _, d := range a.Tensors {
		f(d)
	}
	if a.Sparse != nil {
		f(a.Sparse.Values)
		f(a.Sparse.Indices)
	}
	for _, g := range a.All() {
		eachGraphData(g, f)
	}
}

// Locations lists the files that hold the model's external data, sorted.
func Locations(m *graph.Model) []string {
	seen := map[string]bool{}
	var list []string
	eachData(m, func(d *graph.Data) {
		if d.External != nil && !seen[d.External.Location] {
			seen[d.External.Location] = true
			list = append(list, d.External.Location)
		}
	})
	sort.Strings(list)
	return list
}

// ExternalMode says what to do with external data if the output is in another
// folder than the input.
type ExternalMode string

// The modes.
const (
	ExternalCopy ExternalMode = "copy" // a copy; a reflink if the file system supports it
	ExternalLink ExternalMode = "link" // a hard link
	ExternalKeep ExternalMode = "keep" // nothing: the caller copies the files
)

// StageExternal prepares the external data of m beside an output in dir: files
// that are committed together with the model.
func StageExternal(m *graph.Model, dir string, mode ExternalMode) ([]*atomicfile.File, error) {
	if mode == ExternalKeep || m.Source == nil {
		return nil, nil
	}
	var staged []*atomicfile.File
	seen := map[string]bool{}
	for _, location := range Locations(m) {
		name := filepath.FromSlash(location)
		from, to := filepath.Join(m.Source.Dir, name), filepath.Join(dir, name)
		if seen[to] {
			continue // "w.bin" and "./w.bin"
		}
		seen[to] = true
		p, err := stageExternal(from, to, mode)
		if err != nil {
			for _, p := range staged {
				p.Abort()
			}
			return nil, err
		}
		if p != nil {
			staged = append(staged, p)
		}
	}
	return staged, nil
}

// stageExternal prepares one file; nil if it already exists, or is missing and
// Open allowed that.
func stageExternal(from, to string, mode ExternalMode) (*atomicfile.File, error) {
	src, err := os.Stat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if dst, err := os.Stat(to); err == nil {
		if os.SameFile(src, dst) {
			return nil, nil
		}
		same, err := sameContents(from, to, src.Size(), dst.Size())
		if err == nil && !same {
			err = fmt.Errorf("%s: exists and differs from %s: expected no such file (choose another folder, or --external-data keep)", to, from)
		}
		return nil, err
	}
	if err := oserr.MakeFolder(filepath.Dir(to)); err != nil {
		return nil, err
	}
	if mode == ExternalLink {
		return atomicfile.Link(from, to)
	}
	return stageCopy(from, to)
}

// stageCopy prepares a copy. io.Copy between files uses copy_file_range, which
// shares blocks if the file system supports it.
func stageCopy(from, to string) (*atomicfile.File, error) {
	src, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return nil, err
	}
	p, err := atomicfile.Create(to, atomicfile.Like(info.Mode()))
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(p, src)
	if err == nil {
		err = stillAs(src, info, n)
	}
	if err != nil {
		p.Abort()
		return nil, err
	}
	return p, nil
}

// stillAs fails if a file, of which n bytes were copied, does not match info.
func stillAs(f *os.File, info os.FileInfo, n int64) error {
	now, err := f.Stat()
	if err == nil && (n != info.Size() || now.Size() != n || !now.ModTime().Equal(info.ModTime())) {
		e := graph.Errorf("was written while it was copied: copied %d bytes of a file of %d, which has %d now", n, info.Size(), now.Size())
		e.File = f.Name()
		return e
	}
	return err
}

// HoldsExternal reports whether path is a file with external data of m, or the
// place of such a file beside an output in dir: writing there would destroy
// weights.
func HoldsExternal(m *graph.Model, dir, path string) bool {
	if m.Source == nil {
		return false
	}
	for _, location := range Locations(m) {
		name := filepath.FromSlash(location)
		if files.Same(filepath.Join(m.Source.Dir, name), path) || files.Same(filepath.Join(dir, name), path) {
			return true
		}
	}
	return false
}

// sameContents compares two files.
func sameContents(a, b string, sizeA, sizeB int64) (bool, error) {
	if sizeA != sizeB {
		return false, nil
	}
	fa, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer fa.Close()
	fb, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer fb.Close()
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errA := io.ReadFull(fa, x)
		k, errB := io.ReadFull(fb, y)
		if n != k || !bytes.Equal(x[:n], y[:k]) {
			return false, nil
		}
		if errA == io.EOF || errA == io.ErrUnexpectedEOF {
			return errB == errA, nil
		}
		if errA != nil || errB != nil {
			return false, errors.Join(errA, errB)
		}
	}
}
