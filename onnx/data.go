package onnx

import (
	"io"
	"path/filepath"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
)

// DataPath returns the path of the second file of a model at path, in which WriteNew puts
// elements that are too large for the first.
func DataPath(path string) string { return path + ".data" }

// WriteNew writes a model whose initializers of the list are new: Data.Generate writes their
// elements. If they take more than most bytes, these go to a second file ([DataPath]). External
// data of the file that m was read from are copied along if path lies in another folder. All
// files are written completely, or none.
func WriteNew(path string, m *graph.Model, list []*graph.Data, most int64) (err error) {
	var staged []*atomicfile.File
	defer func() {
		if err != nil {
			for _, f := range staged {
				f.Abort()
			}
		}
	}()
	if m.Source != nil {
		if staged, err = StageExternal(m, filepath.Dir(path), ExternalCopy); err != nil {
			return err
		}
	}
	total := int64(0)
	for _, d := range list {
		total += d.Bytes
	}
	if total > most {
		f, err := stageData(DataPath(path), list)
		if err != nil {
			return err
		}
		staged = append(staged, f)
	}
	im, err := Encode(m)
	if err != nil {
		return err
	}
	f, err := Stage(path, im)
	if err != nil {
		return err
	}
	staged = append([]*atomicfile.File{f}, staged...)
	return atomicfile.Commit(false, staged...)
}

// stageData writes the elements of the list to one file, each at a multiple of 64
// bytes, and makes them external.
func stageData(path string, list []*graph.Data) (*atomicfile.File, error) {
	f, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return nil, err
	}
	off := int64(0)
	for _, d := range list {
		if _, err = f.Seek(off, io.SeekStart); err == nil {
			err = d.Generate(f)
		}
		if err != nil {
			f.Abort()
			return nil, err
		}
		d.External = &graph.External{Location: filepath.Base(path), Offset: off, Length: d.Bytes}
		d.Generate = nil
		off = (off + d.Bytes + 63) &^ 63
	}
	return f, nil
}
