package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/onnxmem/onnxmem/plan"
)

// BuffersCSV writes the buffers of the arena as MiniMalloc reads them: id, lower
// and upper (half-open lifetimes), size, and offset, the plan's own. An id is the
// buffer's first tensor, with "_" for what would end a field or a line and for
// blanks around it, and a number behind it where that is taken.
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

// maxField bounds the bytes of an id.
const maxField = 1 << 16

var fieldEnds = strings.NewReplacer(",", "_", "\n", "_", "\r", "_", `"`, "_")

// fieldOf is a name that can stand in a CSV without quotes.
func fieldOf(name string) string {
	name = fieldEnds.Replace(strings.ToValidUTF8(name, "_"))
	if trimmed := strings.TrimSpace(name); trimmed != name || name == "" {
		name = "_" + trimmed + "_"
	}
	return name
}

// unique hands out each name once.
type unique map[string]bool

// name gives a name of at most most bytes that nobody has: the one that is
// asked for, or with the first number behind it that is free.
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
