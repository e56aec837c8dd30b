package zoo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"

	"github.com/onnxmem/onnxmem/internal/batch"
)

// schemeOf returns the part of a path before "://", or "" for a local path.
func schemeOf(name string) string {
	scheme, _, found := strings.Cut(name, "://")
	if !found {
		return ""
	}
	return scheme
}

// join returns the path of rel, which has slashes, below a folder of any file system.
func join(dir, rel string) string {
	if schemeOf(dir) == "" {
		return filepath.Join(dir, filepath.FromSlash(rel))
	}
	return strings.TrimRight(dir, "/") + "/" + path.Clean(rel)
}

// dirOf returns the folder of a file of any file system.
func dirOf(name string) string {
	if schemeOf(name) == "" {
		return filepath.Dir(name)
	}
	return name[:strings.LastIndexByte(name, '/')]
}

// relOf returns where the result of a listed path goes below OUT: the path without its
// scheme, its root and leading "..".
func relOf(name string) string {
	if scheme := schemeOf(name); scheme != "" {
		name = name[len(scheme)+len("://"):]
	}
	return strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
}

// expand returns the models that match the patterns, each with its path below the
// literal part of its pattern.
func expand(ctx context.Context, patterns []string) ([]batch.Model, error) {
	var models []batch.Model
	for _, p := range patterns {
		fs, err := filesystem.New(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: there is no such file system: %w", p, err)
		}
		paths, err := fs.List(ctx, p)
		fs.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("%s: matches nothing: expected a model or a pattern such as zoo/*.onnx", p)
		}
		root := dirOf(p)
		if i := strings.IndexAny(p, "*?["); i >= 0 {
			root = dirOf(p[:i] + "x")
		}
		slices.Sort(paths)
		for _, name := range paths {
			rel := strings.TrimPrefix(strings.TrimPrefix(filepath.ToSlash(name), filepath.ToSlash(root)), "/")
			models = append(models, batch.Model{Path: name, Rel: rel})
		}
	}
	return models, nil
}

// readable returns an error if a file does not exist or cannot be read.
func readable(ctx context.Context, name string) error {
	var f files
	defer f.close()
	if _, there, err := f.size(ctx, name); err != nil || !there {
		if err == nil {
			err = os.ErrNotExist
		}
		return fmt.Errorf("%s: cannot be read: %w", name, err)
	}
	return nil
}

// files holds the open file systems by scheme.
type files struct {
	open map[string]filesystem.Interface
}

func (f *files) of(ctx context.Context, name string) (filesystem.Interface, error) {
	scheme := schemeOf(name)
	if fs := f.open[scheme]; fs != nil {
		return fs, nil
	}
	fs, err := filesystem.New(ctx, name)
	if err != nil {
		return nil, err
	}
	if f.open == nil {
		f.open = map[string]filesystem.Interface{}
	}
	f.open[scheme] = fs
	return fs, nil
}

func (f *files) close() {
	for _, fs := range f.open {
		fs.Close()
	}
	f.open = nil
}

// size returns a file's size in bytes and whether it exists, or an error if that cannot
// be determined.
func (f *files) size(ctx context.Context, name string) (bytes int64, there bool, err error) {
	fs, err := f.of(ctx, name)
	if err != nil {
		return 0, false, err
	}
	if bytes, err = fs.Size(ctx, name); err == nil {
		return bytes, true, nil
	}
	// For a missing file, some file systems return an error and others an empty list.
	found, listing := fs.List(ctx, name)
	if listing == nil && len(found) == 0 {
		return 0, false, nil
	}
	return 0, false, err
}

// modified returns the time of a file's last change, or the zero time if its file
// system does not report it.
func (f *files) modified(ctx context.Context, name string) time.Time {
	fs, err := f.of(ctx, name)
	if err != nil {
		return time.Time{}
	}
	if m, ok := fs.(filesystem.LastModifiedGetter); ok {
		if t, err := m.LastModified(ctx, name); err == nil {
			return t
		}
	}
	return time.Time{}
}

// read reads a small file.
func (f *files) read(ctx context.Context, name string) ([]byte, error) {
	fs, err := f.of(ctx, name)
	if err != nil {
		return nil, err
	}
	r, err := fs.OpenRead(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// fetch copies a file to this machine.
func (f *files) fetch(ctx context.Context, name, local string) error {
	fs, err := f.of(ctx, name)
	if err != nil {
		return err
	}
	r, err := fs.OpenRead(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.Create(local)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}

// temporary is the prefix of temporary files. It differs from onnxmem's own prefix:
// onnxmem removes its temporary files that have no lock, and few of Beam's file systems
// have locks.
const temporary = ".onnxmem.beam-"

// write writes a file of any file system completely or not at all. An object store
// keeps an object only once it is closed; on a disk, the complete file is renamed.
func (f *files) write(ctx context.Context, name string, text io.Reader) error {
	fs, err := f.of(ctx, name)
	if err != nil {
		return err
	}
	final := name
	renamer, renames := fs.(filesystem.Renamer)
	if renames = renames && schemeOf(name) == ""; renames {
		name = join(dirOf(name), fmt.Sprintf("%s%016x", temporary, rand.Uint64()))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := fs.OpenWrite(ctx, name)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, text)
	if err != nil {
		cancel() // then Close does not keep the object
	}
	if closed := w.Close(); err == nil {
		err = closed
	}
	if renames && err == nil {
		err = renamer.Rename(ctx, name, final)
	}
	if remover, ok := fs.(filesystem.Remover); ok && renames && err != nil {
		_ = remover.Remove(ctx, name)
	}
	return err
}

// put copies a local file to any file system.
func (f *files) put(ctx context.Context, local, name string) error {
	r, err := os.Open(local)
	if err != nil {
		return err
	}
	defer r.Close()
	return f.write(ctx, name, r)
}

// copy copies from any file system to any other. It skips a file whose target has the
// same size and is not older, because models share external data.
func (f *files) copy(ctx context.Context, from, to string) error {
	bytes, there, err := f.size(ctx, from)
	if err != nil || !there || from == to {
		return err
	}
	if n, there, err := f.size(ctx, to); err == nil && there && n == bytes && !f.modified(ctx, to).Before(f.modified(ctx, from)) {
		return nil
	}
	fs, err := f.of(ctx, from)
	if err != nil {
		return err
	}
	if c, ok := fs.(filesystem.Copier); ok && schemeOf(from) == schemeOf(to) && schemeOf(to) != "" {
		return c.Copy(ctx, from, to)
	}
	r, err := fs.OpenRead(ctx, from)
	if err != nil {
		return err
	}
	defer r.Close()
	return f.write(ctx, to, r)
}
