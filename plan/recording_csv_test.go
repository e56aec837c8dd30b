package plan_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
)

// TestReadRecordingCSV: both forms, and what is wrong with others.
func TestReadRecordingCSV(t *testing.T) {
	for _, c := range []struct {
		name, text, want string // the nodes, or the error
	}{
		{"a list", "node,bytes\na,64\nb,0\n\"c,d\",7\n", "a 64 c,d 7"},
		{"columns in another order", "bytes,op,node\n5,Conv,a\n", "a 5"},
		{"node statistics of ONNX Runtime", "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\nconv_1_5966553454430483726,49152,0,200704,131072\nrelu_5766,0,0,0,0\n", "conv_1 131072"},
		{"nothing", "", "the file is empty"},
		{"other columns", "name,size\na,1\n", "expected the columns node and bytes"},
		{"no number", "node,bytes\na,1\nb,many\n", `line 3: expected bytes, found "many"`},
		{"less than nothing", "node,bytes\na,-1\n", "line 2: expected bytes"},
		{"too much", "node,bytes\na,9000000000000000000\n", "expected from 1 to 1099511627776 bytes"},
		{"a row too short", "node,bytes\na\n", "wrong number of fields"},
		{"a node without a name", "node,bytes\n,5\n", "neither the name of a node nor that of its output"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := plan.ReadRecordingCSV(strings.NewReader(c.text))
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("expected %q, found %v", c.want, err)
				}
				return
			}
			var words []string
			for _, n := range w.Nodes {
				words = append(words, n.Node, strconv.FormatInt(n.Bytes, 10))
			}
			if got := strings.Join(words, " "); got != c.want {
				t.Errorf("expected %q, found %q", c.want, got)
			}
		})
	}
}
