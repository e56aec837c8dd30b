package plan

import (
	"path/filepath"
	"unicode/utf8"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/onnx"
)

// SourceOf identifies the file from which a model was read; the zero File for a
// model built in memory.
func SourceOf(m *graph.Model) File {
	if m.Source == nil {
		return File{}
	}
	return File{label(m.Source.Name), int64(len(m.Source.Bytes)), onnx.GraphSHA256(m)}
}

// ImageOf identifies a file that is about to be written under that name.
func ImageOf(name string, im *onnx.Image) File {
	return File{label(name), im.Size, im.GraphSHA256()}
}

// label is a file's name for a plan. JSON cannot hold bytes that are not UTF-8,
// so they are escaped: the label distinguishes files, but cannot be used to open
// them.
func label(path string) string {
	name := filepath.Base(path)
	if !utf8.ValidString(name) {
		return printable.Escape(name)
	}
	return name
}

// OpName is a node's operator as spelled in plans: Op, or domain::Op outside the
// standard domain.
func OpName(n *graph.Node) string {
	if n.Domain == "" {
		return n.Op
	}
	return n.Domain + "::" + n.Op
}
