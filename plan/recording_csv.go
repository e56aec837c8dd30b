package plan

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/graph"
)

// Where the figures of a CSV come from, as Recording.Device says it.
const (
	fromStatistics = "ONNX Runtime (node statistics)"
	fromList       = "a list of nodes"
)

// ReadRecordingCSV reads the scratch of nodes from a CSV. It takes the statistics that ONNX
// Runtime writes (session.collect_node_memory_stats_to_file; the columns #name and
// total_temp_allocations). It also takes a list with the columns node and bytes, in which a
// node is called by its name or by its first output. Such a file does not say of which model
// it is: it fits each that has the nodes. Rows of 0 bytes are left out.
func ReadRecordingCSV(r io.Reader) (*Recording, error) {
	rows := csv.NewReader(io.LimitReader(r, maxRecording))
	rows.ReuseRecord = true
	head, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("not a list of workspaces: the file is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("not a list of workspaces: %w", err)
	}
	w := &Recording{Format: RecordingFormat, Version: RecordingVersion, Device: fromList, OfAnyModel: true}
	name, bytes := slices.Index(head, "node"), slices.Index(head, "bytes")
	if k := slices.Index(head, "#name"); k >= 0 {
		w.Device = fromStatistics
		name, bytes = k, slices.Index(head, "total_temp_allocations")
	}
	if name < 0 || bytes < 0 {
		return nil, fmt.Errorf("not a list of workspaces: expected the columns node and bytes, or #name and total_temp_allocations, found %q", graph.Short(fmt.Sprint(head)))
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return w, w.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("list of workspaces: %w", err)
		}
		n, err := strconv.ParseInt(row[bytes], 10, 64)
		if line, _ := rows.FieldPos(bytes); err != nil || n < 0 {
			return nil, fmt.Errorf("list of workspaces: line %d: expected bytes, found %q", line, graph.Short(row[bytes]))
		}
		if n == 0 {
			continue
		}
		node := row[name]
		if w.Device == fromStatistics {
			node = hashed.ReplaceAllString(node, "")
		}
		w.Nodes = append(w.Nodes, NodeScratch{Node: node, Output: node, Bytes: n})
	}
}

// hashed is what ONNX Runtime adds to the name of a node.
var hashed = regexp.MustCompile(`_[0-9]+$`)
