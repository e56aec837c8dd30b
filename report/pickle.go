package report

import (
	"bufio"
	"encoding/binary"
	"io"
	"strings"
)

// pickler writes Python's pickle format, protocol 2, with the opcodes that
// PyTorch's viewer supports. Values are dicts, lists, strings and integers.
type pickler struct{ w *bufio.Writer }

func newPickler(w io.Writer) *pickler {
	p := &pickler{bufio.NewWriter(w)}
	p.w.WriteString("\x80\x02")
	return p
}

// end ends the pickle.
func (p *pickler) end() error {
	p.w.WriteByte('.')
	return p.w.Flush()
}

// dict writes a dict; fill writes its entries, each by entry.
func (p *pickler) dict(fill func()) {
	p.w.WriteString("}(")
	fill()
	p.w.WriteByte('u')
}

// entry writes a key; the next value written belongs to it.
func (p *pickler) entry(key string) { p.text(key) }

// list writes a list of n items, in batches of a thousand, as Python does: the
// viewer passes each batch to one call.
func (p *pickler) list(n int, item func(i int)) {
	const batch = 1000
	p.w.WriteByte(']')
	for i := range n {
		if i%batch == 0 {
			p.w.WriteByte('(')
		}
		item(i)
		if i%batch == batch-1 || i == n-1 {
			p.w.WriteByte('e')
		}
	}
}

func (p *pickler) text(s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	p.w.WriteByte('X')
	p.w.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
	p.w.WriteString(s)
}

func (p *pickler) number(n int64) {
	p.w.WriteString("\x8a\x08")
	p.w.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func (p *pickler) no() { p.w.WriteByte('\x89') }

// textEntry and numberEntry write an entry of a dict.
func (p *pickler) textEntry(key, value string) {
	p.entry(key)
	p.text(value)
}

func (p *pickler) numberEntry(key string, value int64) {
	p.entry(key)
	p.number(value)
}
