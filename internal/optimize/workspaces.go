package optimize

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/plan"
)

// readWorkspaces reads what run --workspaces-out has written.
func readWorkspaces(path string) (*plan.Recording, error) {
	refuse := func(err error) (*plan.Recording, error) {
		return nil, &graph.Error{File: path, Offset: -1, Err: err}
	}
	f, err := readable.Open(path)
	if err != nil {
		return refuse(err)
	}
	defer f.Close()
	w, err := plan.ReadRecording(f)
	if err != nil {
		return refuse(err)
	}
	return w, nil
}
