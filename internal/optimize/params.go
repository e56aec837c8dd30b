package optimize

import (
	"path/filepath"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/onnx"
)

// mostInline is the largest size of values within a parameter file: writing zeros
// takes a few seconds per gigabyte, and protobuf allows 2 GiB.
const mostInline = 256 << 20

// zerosSuffix is the suffix of the file of zeros beside the parameters.
const zerosSuffix = ".zeros"

// stageParams writes the initial values of parameters and states beside path.
// Large states, which are zero, refer to one region of zeros in a file of their
// own.
func stageParams(path string, step *autodiff.Step) ([]*atomicfile.File, error) {
	im, err := onnx.Encode(step.Params)
	if err != nil {
		return nil, err
	}
	var files []*atomicfile.File
	if im.Size > mostInline {
		zeros, err := stageZeros(path+zerosSuffix, step.Params.Graph)
		if err != nil {
			return nil, err
		}
		files = append(files, zeros)
		if im, err = onnx.Encode(step.Params); err != nil {
			return files, err
		}
	}
	p, err := onnx.Stage(path, im)
	if err != nil {
		return files, err
	}
	return append(files, p), nil
}

// stageZeros makes all generated tensors, which are zeros, refer to one region of
// a file.
func stageZeros(path string, g *graph.Graph) (*atomicfile.File, error) {
	size := int64(0)
	for _, t := range g.Tensors {
		if t.Data.Generate != nil {
			t.Data.External = &graph.External{Location: filepath.Base(path), Length: t.Data.Bytes}
			t.Data.Generate = nil
			size = max(size, t.Data.Bytes)
		}
	}
	f, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}
