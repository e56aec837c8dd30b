package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// RecordingFormat and RecordingVersion identify the JSON format of a [Recording].
const (
	RecordingFormat  = "onnxmem/workspaces"
	RecordingVersion = 1
)

// Recording says how much scratch the device kernels of a model's nodes took in a run of
// its plan. Planning takes it for the workspaces of the nodes.
type Recording struct {
	Format  string           `json:"format"`
	Version int              `json:"version"`
	Tool    string           `json:"tool"`
	Model   File             `json:"model"`  // the planned file that ran
	Source  File             `json:"source"` // the file that it was planned from
	Dims    map[string]int64 `json:"dims"`   // lengths of dimensions, which the sizes depend on
	Device  string           `json:"device"` // whose kernels took the scratch
	// Products is the library that computed products, with its version; "": none but the
	// kernels of onnxmem.
	Products string `json:"products"`
	// Convolutions is the library that computed convolutions, likewise.
	Convolutions string        `json:"convolutions,omitempty"`
	Nodes        []NodeScratch `json:"nodes"` // those that took any, in the order of the steps

	// OfAnyModel: nothing says of which model the recording is (see [ReadRecordingCSV]), so it
	// fits each that has the nodes.
	OfAnyModel bool `json:"-"`
}

// NodeScratch is the scratch of a node of the main graph, that of its bodies and functions
// included.
type NodeScratch struct {
	Node   string `json:"node"`   // its name
	Output string `json:"output"` // its first output, which tells nodes without a name apart
	Bytes  int64  `json:"bytes"`  // enough wherever they begin
}

// MaxScratch is the largest scratch of a node that a recording may have, in bytes, and
// MaxAllScratch that of all nodes together.
const (
	MaxScratch    = 1 << 40
	MaxAllScratch = 1 << 50
)

// maxRecording is the largest JSON text of a recording that is read.
const maxRecording = 1 << 30

// ReadRecording reads a recording, as strictly as [Read] reads a plan, and checks its
// figures. The caller adds the name of the file to the error.
func ReadRecording(r io.Reader) (*Recording, error) {
	text, err := strictjson.ReadObject(r, maxRecording)
	if err != nil {
		return nil, notARecording(err)
	}
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil || head.Format != RecordingFormat {
		return nil, fmt.Errorf("not a recording of workspaces: format is %q, expected %q", graph.Short(head.Format), RecordingFormat)
	}
	if head.Version != RecordingVersion {
		return nil, fmt.Errorf("recording of workspaces: version is %d, expected %d", head.Version, RecordingVersion)
	}
	w := &Recording{}
	if err := (strictjson.Rules{Complete: true}).Unmarshal(text, w); err != nil {
		return nil, notARecording(err)
	}
	return w, w.Check()
}

func notARecording(err error) error {
	if e := (*strictjson.Error)(nil); errors.As(err, &e) {
		return fmt.Errorf("not a recording of workspaces: %w", err)
	}
	return err
}

// Check fails on the first figure that no run can have recorded.
func (w *Recording) Check() error {
	var f faults
	f.file("model", &w.Model)
	f.file("source", &w.Source)
	if len(f) > 0 {
		return errors.New(f[0].Message)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Dims)) {
		if n := w.Dims[name]; n < 0 {
			return fmt.Errorf("dims: %q: expected a length >= 0, found %d", graph.Short(name), n)
		}
	}
	all := int64(0)
	for i, n := range w.Nodes {
		switch {
		case n.Node == "" && n.Output == "":
			return fmt.Errorf("nodes: entry %d has neither the name of a node nor that of its output", i)
		case n.Bytes < 1 || n.Bytes > MaxScratch:
			return fmt.Errorf("nodes: %s: expected from 1 to %d bytes, found %d", n.label(), int64(MaxScratch), n.Bytes)
		case n.Bytes > MaxAllScratch-all:
			return fmt.Errorf("nodes: expected at most %d bytes in all, found more by %s", int64(MaxAllScratch), n.label())
		}
		all += n.Bytes
	}
	return nil
}

// label names the node.
func (n *NodeScratch) label() string {
	if n.Node != "" {
		return fmt.Sprintf("node %q", graph.Short(n.Node))
	}
	return fmt.Sprintf("the node of %q", graph.Short(n.Output))
}

// Of fails unless the recording is of a run of a model: of the file itself, or of one that
// was planned from it. A model that was built in memory has no file, and any fits; so does
// a recording with OfAnyModel.
func (w *Recording) Of(m File) error {
	if h := m.GraphSHA256; !w.OfAnyModel && h != "" && h != w.Model.GraphSHA256 && h != w.Source.GraphSHA256 {
		return fmt.Errorf("the workspaces were recorded with another model: expected graph_sha256 %s, found %q, planned from %q (%s, from %s): run it again with --workspaces-out",
			h, graph.Short(w.Model.GraphSHA256), graph.Short(w.Source.GraphSHA256), graph.Short(w.Model.File), graph.Short(w.Source.File))
	}
	return nil
}

// Steps returns the scratch of each node of a graph, in bytes, 0 where none was recorded.
// It fails if a node of the recording is not in the graph, or twice in the recording.
func (w *Recording) Steps(g *graph.Graph) ([]int64, error) {
	named, made := map[string]int{}, map[string]int{}
	for i, n := range g.Nodes {
		if _, twice := named[n.Name]; twice {
			named[n.Name] = -1
		} else {
			named[n.Name] = i
		}
		if out := firstOutput(g, n); out != "" {
			made[out] = i
		}
	}
	delete(named, "")
	bytes := make([]int64, len(g.Nodes))
	for k := range w.Nodes {
		x := &w.Nodes[k]
		i, known := named[x.Node]
		if !known || i < 0 {
			if i, known = made[x.Output]; !known || x.Node != "" && !w.OfAnyModel && g.Nodes[i].Name != x.Node {
				return nil, fmt.Errorf("%s has a recorded workspace, but is not in the graph: record again, and plan with the same options", x.label())
			}
		}
		if bytes[i] != 0 {
			return nil, fmt.Errorf("%s has two recorded workspaces: expected one", x.label())
		}
		bytes[i] = x.Bytes
	}
	return bytes, nil
}

// firstOutput is the name of a node's first output that is not left out.
func firstOutput(g *graph.Graph, n *graph.Node) string {
	for _, t := range n.Outputs {
		if t >= 0 {
			return g.Tensors[t].Name
		}
	}
	return ""
}

// NewNodeScratch describes the scratch of a node.
func NewNodeScratch(g *graph.Graph, n graph.NodeID, bytes int64) NodeScratch {
	return NodeScratch{g.Nodes[n].Name, firstOutput(g, g.Nodes[n]), bytes}
}

// Write writes the recording as indented JSON.
func (w *Recording) Write(to io.Writer) error {
	b, err := json.MarshalIndent(w, "", " ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(b, '\n'))
	return err
}
