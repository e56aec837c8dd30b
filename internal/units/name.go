package units

import (
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// Name prints a name from a file without quotes: cut if it would fill the
// screen, and what would break the line or steer a terminal escaped.
func Name(s string) string {
	q := strconv.Quote(graph.Short(s))
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// OneLine keeps a message on one line, whatever names stand in it.
func OneLine(err error) string {
	return strings.NewReplacer("\n", "; ", "\r", " ").Replace(err.Error())
}
