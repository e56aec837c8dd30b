package report

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// CHeader writes a plan as a C99 header. It has macros for the pools' sizes and the
// alignment, and for the pool, the offset and the size of every tensor. It has tables of
// tensors and steps, which one file of a program defines (NAME_DEFINE_TABLES). NAME is made
// of the model's file name. Identifiers are the tensors' names with "_" for what C does not
// take, numbered where two would be the same. They differ within the 63 characters that C99
// promises to tell apart; a comment says which were cut to that. A plan for ranges of
// dimensions also gets functions that give the arena and the places at any point.
func CHeader(w io.Writer, p *plan.Plan) error { return CHeaderOf(w, p, nil, nil) }

// CHeaderOf is [CHeader] with what the plan alone does not know. m is the planned model: the
// table of steps then has the inputs and outputs of each; without it (nil), a comment says
// that they are missing. For each of some points of the ranges, their plans ([plan.Plan.At],
// smaller lengths first), the header has a constant table, and NAME_bucket finds the one to
// use. It fails if m has other nodes than the plan.
func CHeaderOf(w io.Writer, p *plan.Plan, m *graph.Model, points []*plan.Plan) error {
	h := &header{Writer: bufio.NewWriter(w), p: p}
	base := strings.TrimSuffix(filepath.Base(p.Model.File), ".onnx")
	h.name = identifier(base)
	if p.Model.File == "" {
		h.name = "plan"
	}
	if len(h.name) > longestPrefix {
		h.name, h.cut = h.name[:longestPrefix], base
	}
	if !isLetter(h.name[0]) {
		h.name = "m" + h.name
	}
	h.NAME = strings.ToUpper(h.name)
	h.names()
	if err := h.operandsOf(m); err != nil {
		return err
	}
	h.macros()
	h.tables()
	h.ranges()
	h.buckets(points)
	fmt.Fprintf(h, "\n#endif /* %s_PLAN_H */\n", h.NAME)
	return h.Flush()
}

// header is a header being written.
type header struct {
	*bufio.Writer
	p          *plan.Plan
	name, NAME string
	cut        string // the file's name, if NAME is only its beginning
	tensors    []headerTensor
	pools      []string // the identifier of each of the plan's pools
	operands   []stepOperands
}

type headerTensor struct {
	name, id string
	b        *plan.Buffer
	span     int  // of a tensor in several buffers: the index of its span; else -1
	cut      bool // id is not the whole name
}

const (
	longestIdentifier = 63 // significant characters of a macro in C99
	longestPrefix     = 16 // of those, what NAME may have
)

// names assigns an identifier to every tensor and every workspace.
func (h *header) names() {
	ids := unique{}
	most := longestIdentifier - len(h.NAME+"_OFFSET_")
	add := func(name string, b *plan.Buffer, span int) {
		whole := identifier(name)
		id := ids.name(whole, most)
		h.tensors = append(h.tensors, headerTensor{name, id, b, span, !strings.HasPrefix(id, whole)})
	}
	pools := unique{}
	for _, pool := range h.p.Pools {
		h.pools = append(h.pools, pools.name(strings.ToUpper(identifier(pool.Name)), most))
	}
	for i := range h.p.Buffers {
		b := &h.p.Buffers[i]
		for _, t := range b.Tensors {
			add(t, b, -1)
		}
		if len(b.Tensors) == 0 {
			add(bufferLabel(h.p, b), b, -1)
		}
	}
	for i := range h.p.Spans {
		b := h.p.Whole(i)
		for _, t := range b.Tensors {
			add(t, &b, i)
		}
	}
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// identifier is a name with "_" for each byte that an identifier cannot have. It
// may begin with a digit: there is always a prefix.
func identifier(name string) string {
	b := []byte(name)
	for i, c := range b {
		if !isLetter(c) && (c < '0' || c > '9') {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "_"
	}
	return string(b)
}

// inComment escapes a text for a C comment: printable ASCII, with stars and question
// marks (trigraphs) escaped, too. Three dots follow a text that is longer than most bytes.
func inComment(s string) string {
	const most = 2000
	q := strconv.QuoteToASCII(s[:min(len(s), most)])
	q = strings.NewReplacer("*", `\x2a`, "?", `\x3f`).Replace(q)
	if len(s) > most {
		q += "..."
	}
	return q
}

// inString is a C string: printable ASCII unchanged, other bytes in octal.
func inString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '?' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// literal is an unsigned constant that C99 accepts whatever the width of int.
func literal(n int64) string {
	if n > 1<<32-1 {
		return fmt.Sprintf("%dULL", n)
	}
	return fmt.Sprintf("%dUL", n)
}

// hostBytes is the size of the host memory for swapped tensors.
func (h *header) hostBytes() int64 {
	for _, pool := range h.p.Pools {
		if pool.Name == plan.Host {
			return pool.Bytes
		}
	}
	return 0
}

// macros writes everything that needs no memory.
func (h *header) macros() {
	s := &h.p.Summary
	fmt.Fprintf(h, "/* The memory plan of %s, by %s. Offsets and sizes are bytes;\n", inComment(h.p.Model.File), inComment(h.p.Tool))
	fmt.Fprintf(h, " * a tensor is live from its first step to its last.")
	if h.p.Sharing.Aliases {
		fmt.Fprintf(h, " Operands and results of Concat,\n * Split, Slice and Gather may lie in one another: copy with memmove, or not at all\n * where source and target are the same. A plan for copies: optimize --no-aliases.")
	}
	if h.cut != "" {
		fmt.Fprintf(h, "\n * %s is the beginning of %s.", h.NAME, inComment(h.cut))
	}
	fmt.Fprintf(h, " */\n")
	fmt.Fprintf(h, "#ifndef %s_PLAN_H\n#define %s_PLAN_H\n\n#include <stddef.h>\n\n", h.NAME, h.NAME)
	for _, m := range []struct {
		name  string
		value int64
	}{
		{"ARENA_BYTES", s.ArenaBytes},
		{"RESIDENT_BYTES", s.ResidentBytes},
		{"ALIGNMENT", h.p.Alignment},
		{"PEAK_BYTES", s.PeakBytes},
		{"STEPS", int64(len(h.p.Steps))},
		{"TENSORS", int64(len(h.tensors))},
		{"POOLS", int64(len(h.p.Pools))},
	} {
		fmt.Fprintf(h, "#define %s_%s %s\n", h.NAME, m.name, literal(max(m.value, 0)))
	}
	for i, pool := range h.p.Pools {
		fmt.Fprintf(h, "#define %s_POOL_%s_INDEX %dUL\n", h.NAME, h.pools[i], i)
		fmt.Fprintf(h, "#define %s_POOL_%s_BYTES %s\n", h.NAME, h.pools[i], literal(pool.Bytes))
		if pool.Tier != nil {
			fmt.Fprintf(h, "#define %s_POOL_%s_CAPACITY %s\n", h.NAME, h.pools[i], literal(pool.Capacity))
		}
	}
	if host := h.hostBytes(); host > 0 {
		fmt.Fprintf(h, "#define %s_HOST_BYTES %s\n", h.NAME, literal(host))
	}
	for _, t := range h.tensors {
		note := ""
		if t.cut {
			note = " (cut in the macros)"
		}
		pool := h.poolOf(&t)
		fmt.Fprintf(h, "\n/* %s%s: %s, %s, steps %d-%d */\n", inComment(t.name), note, t.b.Kind, inComment(t.b.Pool), t.b.First, t.b.Last)
		fmt.Fprintf(h, "#define %s_IN_%s %s_POOL_%s_INDEX\n", h.NAME, t.id, h.NAME, h.pools[pool])
		fmt.Fprintf(h, "#define %s_OFFSET_%s %s\n", h.NAME, t.id, literal(t.b.Offset))
		fmt.Fprintf(h, "#define %s_BYTES_%s %s\n", h.NAME, t.id, literal(t.b.Bytes))
	}
	for _, d := range h.p.Dynamic {
		fmt.Fprintf(h, "\n/* %s has no fixed size: left to the runtime */\n", inComment(d.Tensor))
	}
}
