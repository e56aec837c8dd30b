package plan

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/onnx"
)

// Path is the default path of the plan of a model at path: with .onnx replaced by, or else
// followed by, .plan.json.
func Path(model string) string { return strings.TrimSuffix(model, ".onnx") + ".plan.json" }

// WriteModel writes a planned model to the file at path and its plan to [Path], and copies
// the external data, as [onnx.Write] does. It replaces all of them or none, so that no reader
// meets a model with the plan of another. The plan that it writes names the file
// (Plan.Model); p itself stays that of the model in memory. Both m and p are those of one
// result of package passes, and the file from which m was read must still be open. On
// Windows, it must be another than path. The error names the file that is in the way, or that
// cannot be written.
func WriteModel(path string, m *graph.Model, p *Plan, opt onnx.WriteOptions) (err error) {
	beside := Path(path)
	if path == "-" || path == "" {
		return fmt.Errorf("%q: expected the path of a file, since the plan lies beside it", path)
	}
	dir := filepath.Dir(path)
	for _, out := range []string{path, beside} {
		if onnx.HoldsExternal(m, dir, out) {
			return fmt.Errorf("%s: holds external data of the model: expected another path", out)
		}
	}
	im, err := onnx.Encode(m)
	if err != nil {
		return err
	}
	of := *p
	of.Model = ImageOf(path, im)
	var files []*atomicfile.File
	defer func() {
		for _, f := range files {
			f.Abort() // does nothing to what was committed
		}
	}()
	f, err := onnx.Stage(path, im)
	if err != nil {
		return err
	}
	files = append(files, f)
	external, err := onnx.StageExternal(m, dir, opt.External)
	files = append(files, external...)
	if err != nil {
		return err
	}
	if f, err = atomicfile.Create(beside, 0o666); err != nil {
		return err
	}
	files = append(files, f) // behind the files that it describes
	if err := of.Write(f); err != nil {
		return err
	}
	return atomicfile.Commit(opt.Sync, files...)
}
