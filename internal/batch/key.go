package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/onnx"
)

// Key is that of a model's contents and of what is made of it: its graph, the
// sizes and times of its external files, the options and this version. Where the
// files lie does not count. stat gives size and time of an external file by its
// name in the model; an error says that it is not there.
func Key(m *graph.Model, job optimize.Job, stat func(name string) (bytes int64, modified time.Time, err error)) string {
	job.In, job.Out, job.Plan, job.Params, job.Report, job.Sync = "", "", "", "", "", false
	options, err := json.Marshal(job)
	if err != nil {
		return "" // no worker can be told of it either
	}
	h := sha256.New()
	fmt.Fprintln(h, onnx.GraphSHA256(m), len(m.Source.Bytes))
	for _, name := range onnx.Locations(m) {
		if bytes, modified, err := stat(name); err == nil {
			fmt.Fprintf(h, "%q %d %d\n", name, bytes, modified.UnixNano())
		}
	}
	h.Write(options)
	return hex.EncodeToString(h.Sum(nil))
}
