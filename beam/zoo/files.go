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

// schemeOf is what stands before :// in a path; "" for a path of this machine.
func schemeOf(name string) string {
	scheme, _, found := strings.Cut(name, "://")
	if !found {
		return ""
	}
	return scheme
}

// join is a path below a folder of any file system; rel has slashes.
func join(dir, rel string) string {
	if schemeOf(dir) == "" {
		return filepath.Join(dir, filepath.FromSlash(rel))
	}
	return strings.TrimRight(dir, "/") + "/" + path.Clean(rel)
}

// dirOf is the folder of a file of any file system.
func dirOf(name string) string {
	if schemeOf(name) == "" {
		return filepath.Dir(name)
	}
	return name[:strings.LastIndexByte(name, '/')]
}

// relOf is where the result of a listed path goes, below the folder of all: the
// path itself, without scheme, root and what leads upwards.
func relOf(name string) string {
	if scheme := schemeOf(name); scheme != "" {
		name = name[len(scheme)+len("://"):]
	}
	return strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
}

// expand lists the models that patterns match, each with its path below what its
// pattern names literally.
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

// readable says whether a file is there.
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

// files are file systems that were opened, by scheme.
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

// size gives a file's bytes, and whether it is there. What cannot be told is an
// error.
func (f *files) size(ctx context.Context, name string) (bytes int64, there bool, err error) {
	fs, err := f.of(ctx, name)
	if err != nil {
		return 0, false, err
	}
	if bytes, err = fs.Size(ctx, name); err == nil {
		return bytes, true, nil
	}
	// File systems differ in what they say of a file that is not there.
	found, listing := fs.List(ctx, name)
	if listing == nil && len(found) == 0 {
		return 0, false, nil
	}
	return 0, false, err
}

// modified is when a file was last changed; zero where its file system does not
// say.
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

// temporary begins the names of temporary files. They have no lock, which few file
// systems have: onnxmem sweeps those of its own that have none.
const temporary = ".onnxmem.beam-"

// write writes a file of any file system, whole or not at all: object stores keep
// what is closed; on a disk the file is renamed when it is whole.
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
		cancel() // what is closed after that is not kept
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

// put writes a file of this machine to any file system.
func (f *files) put(ctx context.Context, local, name string) error {
	r, err := os.Open(local)
	if err != nil {
		return err
	}
	defer r.Close()
	return f.write(ctx, name, r)
}

// copy copies from any file system to any other. A file of the same size that is
// not older is left as it is: models share their external data.
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
