package optimize

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/onnx"
)

// leastOutside is the size from which on a folded constant of a model with external
// data is external, too: a file of 2 GiB cannot be read.
const leastOutside = 1 << 10

// blockOfFile is the alignment of folded constants in their file: a runtime can map
// them.
const blockOfFile = 4096

// foldedPath is the path of the file for folded constants of a model at out. It is no
// file that holds external data of the model that was read.
func foldedPath(out string, m *graph.Model) string {
	base := strings.TrimSuffix(out, ".onnx") + ".folded"
	path := base + ".bin"
	for k := 2; slices.Contains(onnx.Locations(m), filepath.Base(path)); k++ {
		path = fmt.Sprintf("%s.%d.bin", base, k)
	}
	return path
}

// moveFolded moves the folded constants of a model with external data out of the model's
// file. It returns those that were moved, in the order of their file.
func (t *Task) moveFolded() []*graph.Data {
	folded, sliced := t.Result.Plan.Folded, t.Result.Plan.Slices
	if folded == nil && sliced == nil || t.Out == "-" || len(onnx.Locations(t.File.Model)) == 0 {
		return nil
	}
	names := map[string]bool{}
	if folded != nil {
		for _, f := range folded.Tensors {
			if f.Subgraph == nil {
				names[f.Tensor] = true
			}
		}
	}
	if sliced != nil {
		for _, w := range sliced.Weights {
			names[w.Tensor] = true
		}
	}
	var moved []*graph.Data
	off := int64(0)
	for _, u := range t.Result.Model.Graph.Tensors {
		if d := u.Data; d != nil && names[u.Name] && d.Span.IsZero() && d.External == nil && d.Bytes >= leastOutside {
			d.External = &graph.External{Location: filepath.Base(foldedPath(t.Out, t.File.Model)), Offset: off, Length: d.Bytes}
			off = (off + d.Bytes + blockOfFile - 1) &^ (blockOfFile - 1)
			moved = append(moved, d)
		}
	}
	return moved
}

// stageFolded starts the file of constants that were moved.
func (t *Task) stageFolded(moved []*graph.Data) (*atomicfile.File, error) {
	p, err := atomicfile.Create(foldedPath(t.Out, t.File.Model), 0o666)
	if err != nil {
		return nil, err
	}
	if err := WriteFolded(p, moved); err != nil {
		p.Abort()
		return nil, err
	}
	return p, nil
}

// WriteFolded writes constants that were moved, each at its offset. What lies between them
// stays as it is.
func WriteFolded(w io.WriteSeeker, moved []*graph.Data) error {
	for _, d := range moved {
		_, err := w.Seek(d.External.Offset, io.SeekStart)
		if err != nil {
			return err
		}
		if d.Generate != nil {
			err = d.Generate(w)
		} else {
			_, err = w.Write(d.Raw)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
