package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/onnx"
)

// Key is a digest of the model at path and the job: its graph, the sizes and
// times of its external files, the options and this version of the program. The
// place of the files does not matter. "" is the key of a model that cannot be
// read.
func Key(path string, job optimize.Job) string {
	key, err := keyOf(path, job)
	if err != nil {
		return "" // a worker reports why
	}
	return key
}

func keyOf(path string, job optimize.Job) (_ string, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	f, err := onnx.Open(path, onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		return "", err
	}
	defer f.Close()
	job.In, job.Out, job.Plan, job.Params, job.Report, job.Sync = "", "", "", "", "", false
	options, err := json.Marshal(job)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, onnx.GraphSHA256(f.Model), len(f.Source.Bytes))
	for _, name := range onnx.Locations(f.Model) {
		if info, err := os.Stat(filepath.Join(f.Source.Dir, filepath.FromSlash(name))); err == nil {
			fmt.Fprintf(h, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	h.Write(options)
	return hex.EncodeToString(h.Sum(nil)), f.Source.Unchanged()
}
