package plan

import (
	"path/filepath"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// SourceOf identifies the file that a model was read from; the zero File for a
// model that was built in memory.
func SourceOf(m *graph.Model) File {
	if m.Source == nil {
		return File{}
	}
	return File{filepath.Base(m.Source.Name), int64(len(m.Source.Bytes)), onnx.GraphSHA256(m)}
}

// ImageOf identifies a file that is about to be written under that name.
func ImageOf(name string, im *onnx.Image) File {
	return File{filepath.Base(name), im.Size, im.GraphSHA256()}
}

// OpName is a node's operator as plans spell it: Op, or domain::Op outside the
// standard domain.
func OpName(n *graph.Node) string {
	if n.Domain == "" {
		return n.Op
	}
	return n.Domain + "::" + n.Op
}
