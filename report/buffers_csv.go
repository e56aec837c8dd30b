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
// use. A plan with several pools has their buffers, and a last column pool.
func BuffersCSV(w io.Writer, p *plan.Plan) error {
	out := bufio.NewWriter(w)
	tier := map[string]bool{}
	for _, t := range p.Tiers() {
		tier[t.Name] = true
	}
	head := "id,lower,upper,size,offset"
	if len(tier) > 0 {
		head += ",pool"
	}
	fmt.Fprintln(out, head)
	ids := unique{}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Pool != plan.Arena && !tier[b.Pool] || b.Bytes == 0 {
			continue
		}
		fmt.Fprintf(out, "%s,%d,%d,%d,%d", ids.name(fieldOf(bufferLabel(p, b)), maxField), b.First, b.Last+1, b.Bytes, b.Offset)
		if tier[b.Pool] {
			fmt.Fprintf(out, ",%s", b.Pool)
		}
		fmt.Fprintln(out)
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
