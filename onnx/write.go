package onnx

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/mapped"
)

// kernelCopy is the size of a span from which on it is copied from file to file
// by copy_file_range, which shares blocks if the file system supports it. For
// smaller spans a write from the mapping is as fast.
const kernelCopy = 1 << 20

// WriteOptions are the options of Write.
type WriteOptions struct {
	External ExternalMode // what to do with external data if the folder differs; "" is copy
	Sync     bool         // wait for the disk even if no file is replaced
}

// Write writes an image of m to the file at path ("-": standard output), through
// a temporary file in the same folder, and copies the external data. The file is
// written completely or not at all. The model's File must still be open. Windows
// cannot replace a mapped file: there, use Stage, close the model, then commit.
func Write(path string, m *graph.Model, im *Image, opt WriteOptions) error {
	if path == "-" {
		_, err := im.WriteTo(os.Stdout)
		return err
	}
	dir := filepath.Dir(path)
	if HoldsExternal(m, dir, path) {
		return fmt.Errorf("%s: holds external data of the model: expected another path", path)
	}
	p, err := Stage(path, im)
	if err != nil {
		return err
	}
	files, err := StageExternal(m, dir, opt.External)
	if err != nil {
		p.Abort()
		return err
	}
	return atomicfile.Commit(opt.Sync, append([]*atomicfile.File{p}, files...)...)
}

// Stage writes an image to a temporary file beside path; Commit renames it to
// path.
func Stage(path string, im *Image) (*atomicfile.File, error) {
	p, err := atomicfile.Create(path, im.mode())
	if err != nil {
		return nil, err
	}
	if err := mapped.Unchanged(im.source, im.writeFile(p)); err != nil {
		p.Abort()
		return nil, err
	}
	return p, nil
}

// mode is the mode of a new file: that of the source, if there is one.
func (im *Image) mode() os.FileMode {
	if im.source != nil && im.source.File != nil {
		if info, err := im.source.File.Stat(); err == nil {
			return atomicfile.Like(info.Mode())
		}
	}
	return 0o666
}

// writeFile writes the image's pieces: large spans by the kernel, the others
// through one buffer.
func (im *Image) writeFile(f *atomicfile.File) (err error) {
	defer mapped.Recover(&err, mapped.Watch())
	buf := make([]byte, 0, 256<<10)
	written := int64(0)
	flush := func() error {
		n, err := f.Write(buf)
		written += int64(n)
		buf = buf[:0]
		return err
	}
	for _, p := range im.pieces {
		small := p.data
		if p.data == nil && p.gen == nil && p.span.Len < int64(cap(buf)) {
			small = im.source.Bytes[p.span.Off:p.span.End()]
		}
		if small != nil && len(buf)+len(small) <= cap(buf) {
			buf = append(buf, small...)
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		n, err := im.copyPiece(f, p)
		written += n
		if err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return im.checkSize(written)
}

func (im *Image) copyPiece(f *atomicfile.File, p piece) (int64, error) {
	if p.data == nil && p.gen == nil && im.source.File != nil && p.span.Len >= kernelCopy {
		if _, err := im.source.File.Seek(p.span.Off, io.SeekStart); err != nil {
			return 0, err
		}
		return io.CopyN(f, im.source.File, p.span.Len)
	}
	c := &counter{w: f}
	err := im.writePiece(c, p)
	return c.n, err
}
