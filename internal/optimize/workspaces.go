package optimize

import (
	"bufio"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/plan"
)

// readWorkspaces reads what run --workspaces-out has written, or a CSV of nodes and bytes.
func readWorkspaces(path string) (*plan.Recording, error) {
	refuse := func(err error) (*plan.Recording, error) {
		return nil, &graph.Error{File: path, Offset: -1, Err: err}
	}
	f, err := readable.Open(path)
	if err != nil {
		return refuse(err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	read := plan.ReadRecordingCSV
	if first, _ := in.Peek(1); len(first) == 0 || first[0] == '{' {
		read = plan.ReadRecording
	}
	w, err := read(in)
	if err != nil {
		return refuse(err)
	}
	return w, nil
}
