package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/onnxmem/onnxmem/plan"
)

// BuffersCSV writes the buffers of the arena in MiniMalloc's format: id, lower
// and upper (half-open lifetimes), size, and the plan's offset. An id is the
// buffer's first tensor, with "_" for surrounding spaces and for characters that
// would end a field or a line, and with a number as suffix if it is already in
// use.
func BuffersCSV(w io.Writer, p *plan.Plan) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "id,lower,upper,size,offset")
	ids := unique{}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Pool != plan.Arena || b.Bytes == 0 {
			continue
		}
		fmt.Fprintf(out, "%s,%d,%d,%d,%d\n", ids.name(fieldOf(bufferLabel(p, b)), maxField), b.First, b.Last+1, b.Bytes, b.Offset)
	}
	return out.Flush()
}

// maxField is the largest number of bytes of an id.
const maxField = 1 << 16

var fieldEnds = strings.NewReplacer(",", "_", "\n", "_", "\r", "_", `"`, "_")

// fieldOf returns a name that needs no quotes in a CSV.
func fieldOf(name string) string {
	name = fieldEnds.Replace(strings.ToValidUTF8(name, "_"))
	if trimmed := strings.TrimSpace(name); trimmed != name || name == "" {
		name = "_" + trimmed + "_"
	}
	return name
}

// unique returns each name only once.
type unique map[string]bool

// name returns an unused name of at most most bytes: the one asked for, or with
// the first free number as suffix.
func (u unique) name(want string, most int) string {
	if len(want) > most {
		want = strings.ToValidUTF8(want[:most], "")
	}
	name := want
	for k := 2; u[name]; k++ {
		tail := fmt.Sprintf("_%d", k)
		name = strings.ToValidUTF8(want[:min(len(want), most-len(tail))], "") + tail
	}
	u[name] = true
	return name
}
