package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// kind is the type of a value of a pickle.
type kind uint8

const (
	none    kind = iota // None, a float, bytes, a number beyond 61 bits: nothing that is read
	boolean             // n: 0 or 1
	number              // n
	text                // n: index into texts
	list                // n: index into lists; a list, a tuple or a set
	dict                // n: index into lists, in which keys and values alternate
	marker              // on the stack: where a list of items begins
)

// value is a value of a pickle: its kind in the lowest three bits, and n above them. A
// list that occurs twice is there once. A number that does not fit into 61 bits is none.
type value int64

func valueOf(k kind, n int64) value {
	if n<<3>>3 != n {
		return value(none)
	}
	return value(n<<3 | int64(k))
}

func (v value) kind() kind { return kind(v & 7) }
func (v value) n() int64   { return int64(v) >> 3 }

// unpickler runs the opcodes of Python's pickle format that make plain data: None,
// booleans, numbers, strings, bytes, tuples, lists, sets and dicts. The opcodes that
// name a class or a function, call it, or set attributes are refused, so nothing in
// the file is ever run. All opcodes but those of strings take a fixed number of bytes
// of memory, and a string takes at most keptText, so memory is proportional to the
// file.
type unpickler struct {
	r     *bufio.Reader
	at    int64 // offset of the next byte
	stack []value
	memo  []value
	texts []string
	lists [][]value
	known map[string]int64 // the index of a text
}

// Opcodes of Python's Lib/pickle.py, protocols 0 to 5.
const (
	pickleProto      = 0x80
	pickleFrame      = 0x95
	pickleStop       = '.'
	pickleMark       = '('
	picklePop        = '0'
	picklePopMark    = '1'
	pickleDup        = '2'
	pickleNone       = 'N'
	pickleTrue       = 0x88
	pickleFalse      = 0x89
	pickleInt        = 'I'
	pickleLong       = 'L'
	pickleBinInt     = 'J'
	pickleBinInt1    = 'K'
	pickleBinInt2    = 'M'
	pickleLong1      = 0x8a
	pickleLong4      = 0x8b
	pickleFloat      = 'F'
	pickleBinFloat   = 'G'
	pickleString     = 'S'
	pickleBinString  = 'T'
	pickleBinString1 = 'U'
	pickleUnicode    = 'V'
	pickleText       = 'X'
	pickleText1      = 0x8c
	pickleText8      = 0x8d
	pickleBytes      = 'B'
	pickleBytes1     = 'C'
	pickleBytes8     = 0x8e
	pickleByteArray8 = 0x96
	pickleEmptyList  = ']'
	pickleAppend     = 'a'
	pickleAppends    = 'e'
	pickleList       = 'l'
	pickleEmptyTuple = ')'
	pickleTuple      = 't'
	pickleTuple1     = 0x85
	pickleTuple2     = 0x86
	pickleTuple3     = 0x87
	pickleEmptyDict  = '}'
	pickleSetItem    = 's'
	pickleSetItems   = 'u'
	pickleDict       = 'd'
	pickleEmptySet   = 0x8f
	pickleAddItems   = 0x90
	pickleFrozenSet  = 0x91
	picklePut        = 'p'
	pickleBinPut     = 'q'
	pickleLongPut    = 'r'
	pickleMemoize    = 0x94
	pickleGet        = 'g'
	pickleBinGet     = 'h'
	pickleLongGet    = 'j'
	pickleGlobal     = 'c'
	pickleStackGlob  = 0x93
	pickleInst       = 'i'
)

// codeOpcodes are the other opcodes that stand for code, with their names in pickle.py.
var codeOpcodes = map[byte]string{
	'o': "OBJ", 'R': "REDUCE", 'b': "BUILD", 0x81: "NEWOBJ", 0x92: "NEWOBJ_EX",
	'P': "PERSID", 'Q': "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
	0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}

// lengths is the number of bytes of the length of strings and bytes.
var lengths = [256]int{
	pickleText1: 1, pickleBinString1: 1, pickleText: 4, pickleBinString: 4, pickleText8: 8,
	pickleBytes1: 1, pickleBytes: 4, pickleBytes8: 8, pickleByteArray8: 8,
}

// keptText is the longest part of a string that is kept: keys are shorter, and file
// names of frames are not read.
const keptText = 64

// unpickle reads one pickle and returns its value.
func unpickle(r *bufio.Reader) (*unpickler, value, error) {
	p := &unpickler{r: r, known: map[string]int64{}}
	for {
		begin := p.at
		op, err := p.byte()
		if err == nil && op == pickleStop {
			if len(p.stack) == 1 && p.stack[0].kind() != marker {
				return p, p.stack[0], nil
			}
			err = faultf("expected one value at the end, found %d", len(p.stack))
		}
		if err == nil && op != pickleStop {
			err = p.run(op)
		}
		if err == nil && (len(p.stack) > mostEvents || len(p.lists) > mostEvents || len(p.memo) > 4*mostEvents) {
			err = faultf("expected at most %d values on the stack, %d lists and dicts, %d in the memo", mostEvents, mostEvents, 4*mostEvents)
		}
		var refused *Error
		switch {
		case err == nil:
		case errors.As(err, &refused):
			return nil, value(0), err
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, value(0), &Error{Offset: p.at, Err: errors.New("the pickle ends before its opcode STOP (truncated?)")}
		case errors.Is(err, errPickle):
			return nil, value(0), &Error{Offset: begin, Err: fmt.Errorf("pickle opcode 0x%02x: %w", op, err)}
		default:
			return nil, value(0), err // of the reader
		}
	}
}

// errPickle is wrapped by every fault of a pickle.
var errPickle = errors.New("not a pickle of plain data")

func faultf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errPickle}, args...)...)
}

// run runs one opcode.
func (p *unpickler) run(op byte) error {
	if name, code := codeOpcodes[op]; code {
		return faultf("opcode %s runs code: expected data only", name)
	}
	switch op {
	case pickleProto:
		v, err := p.byte()
		if err == nil && v > 5 {
			err = faultf("protocol %d: expected at most 5", v)
		}
		return err
	case pickleFrame:
		_, err := p.uint(8)
		return err
	case pickleMark:
		p.push(marker, 0)
	case picklePop:
		_, err := p.pop()
		return err
	case picklePopMark:
		_, err := p.items()
		return err
	case pickleDup:
		v, err := p.top()
		if err == nil {
			p.stack = append(p.stack, v)
		}
		return err
	case pickleNone:
		p.push(none, 0)
	case pickleTrue, pickleFalse:
		p.push(boolean, int64(pickleFalse-op))
	case pickleInt, pickleLong, pickleBinInt, pickleBinInt1, pickleBinInt2, pickleLong1, pickleLong4:
		return p.number(op)
	case pickleFloat:
		_, err := p.lineText()
		p.push(none, 0)
		return err
	case pickleBinFloat:
		p.push(none, 0)
		return p.skip(8)
	case pickleString, pickleUnicode, pickleText, pickleText1, pickleText8, pickleBinString, pickleBinString1:
		return p.text(op)
	case pickleBytes, pickleBytes1, pickleBytes8, pickleByteArray8:
		n, err := p.uint(lengths[op])
		if err != nil {
			return err
		}
		p.push(none, 0)
		return p.skip(n)
	case picklePut, pickleBinPut, pickleLongPut, pickleMemoize, pickleGet, pickleBinGet, pickleLongGet:
		return p.memoize(op)
	case pickleGlobal, pickleInst:
		module, err := p.lineText()
		if err != nil {
			return err
		}
		name, err := p.lineText()
		if err != nil {
			return err
		}
		return faultf("it names %q: expected data only", module+"."+name)
	case pickleStackGlob:
		var names []string
		for _, v := range p.stack[max(0, len(p.stack)-2):] {
			if v.kind() == text {
				names = append(names, p.texts[v.n()])
			}
		}
		return faultf("it names %q: expected data only", strings.Join(names, "."))
	default:
		return p.collect(op)
	}
	return nil
}

// collect runs an opcode that makes or fills a list, a tuple, a set or a dict.
func (p *unpickler) collect(op byte) error {
	switch op {
	case pickleEmptyList, pickleEmptyTuple, pickleEmptySet:
		p.make(list, nil)
	case pickleEmptyDict:
		p.make(dict, nil)
	case pickleTuple1, pickleTuple2, pickleTuple3:
		n := int(op) - pickleTuple1 + 1
		if len(p.stack) < n {
			return faultf("expected %d values on the stack, found %d", n, len(p.stack))
		}
		items := append([]value(nil), p.stack[len(p.stack)-n:]...)
		for _, v := range items {
			if v.kind() == marker {
				return faultf("expected a value on the stack, found a mark")
			}
		}
		p.stack = p.stack[:len(p.stack)-n]
		p.make(list, items)
	case pickleList, pickleTuple, pickleFrozenSet, pickleDict:
		items, err := p.items()
		if err != nil {
			return err
		}
		if op == pickleDict {
			if len(items)%2 != 0 {
				return faultf("expected keys and values, found %d items", len(items))
			}
			p.make(dict, append([]value(nil), items...))
			return nil
		}
		p.make(list, append([]value(nil), items...))
	case pickleAppend, pickleSetItem:
		n := 1
		if op == pickleSetItem {
			n = 2
		}
		if len(p.stack) <= n {
			return faultf("expected %d values on the stack, found %d", n+1, len(p.stack))
		}
		items := p.stack[len(p.stack)-n:]
		p.stack = p.stack[:len(p.stack)-n]
		return p.extend(items, n == 2)
	case pickleAppends, pickleAddItems, pickleSetItems:
		items, err := p.items()
		if err != nil {
			return err
		}
		return p.extend(items, op == pickleSetItems)
	default:
		return faultf("unknown opcode")
	}
	return nil
}

// extend appends items to the list or the dict on top of the stack.
func (p *unpickler) extend(items []value, pairs bool) error {
	to, err := p.top()
	if err != nil {
		return err
	}
	want := list
	if pairs {
		want = dict
	}
	if to.kind() != want || pairs && len(items)%2 != 0 {
		return faultf("expected a %s to extend", map[kind]string{list: "list", dict: "dict"}[want])
	}
	for _, v := range items {
		if v.kind() == marker {
			return faultf("expected a value on the stack, found a mark")
		}
	}
	p.lists[to.n()] = append(p.lists[to.n()], items...)
	return nil
}

// items returns the values above the last mark and removes both. They are valid until
// the next push.
func (p *unpickler) items() ([]value, error) {
	for i := len(p.stack) - 1; i >= 0; i-- {
		if p.stack[i].kind() == marker {
			items := p.stack[i+1:]
			p.stack = p.stack[:i]
			return items, nil
		}
	}
	return nil, faultf("expected a mark on the stack, found none")
}

func (p *unpickler) make(k kind, items []value) {
	p.push(k, int64(len(p.lists)))
	p.lists = append(p.lists, items)
}

func (p *unpickler) push(k kind, n int64) { p.stack = append(p.stack, valueOf(k, n)) }

func (p *unpickler) pop() (value, error) {
	if len(p.stack) == 0 {
		return value(0), faultf("expected a value on the stack, found none")
	}
	v := p.stack[len(p.stack)-1]
	p.stack = p.stack[:len(p.stack)-1]
	return v, nil
}

func (p *unpickler) top() (value, error) {
	if len(p.stack) == 0 || p.stack[len(p.stack)-1].kind() == marker {
		return value(0), faultf("expected a value on the stack, found none")
	}
	return p.stack[len(p.stack)-1], nil
}

// number reads a whole number. One beyond 61 bits is none.
func (p *unpickler) number(op byte) error {
	switch op {
	case pickleInt, pickleLong:
		line, err := p.lineText()
		if err != nil {
			return err
		}
		if op == pickleInt && (line == "00" || line == "01") {
			p.push(boolean, int64(line[1]-'0'))
			return nil
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(line, "L"), 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			p.push(none, 0)
		case err != nil:
			return faultf("expected a whole number, found %q", line)
		default:
			p.push(number, n)
		}
		return nil
	case pickleBinInt:
		n, err := p.uint(4)
		p.push(number, int64(int32(n)))
		return err
	case pickleBinInt1, pickleBinInt2:
		n, err := p.uint(int(op-pickleBinInt1)/2 + 1)
		p.push(number, n)
		return err
	}
	n, err := p.uint(1 + 3*int(op-pickleLong1))
	if err != nil {
		return err
	}
	if n > 8 {
		p.push(none, 0)
		return p.skip(n)
	}
	var b [8]byte
	if err := p.full(b[:n]); err != nil {
		return err
	}
	if n > 0 && b[n-1]&0x80 != 0 {
		for i := n; i < 8; i++ {
			b[i] = 0xff
		}
	}
	p.push(number, int64(binary.LittleEndian.Uint64(b[:])))
	return nil
}

// text reads a string, of which it keeps the beginning.
func (p *unpickler) text(op byte) error {
	var s string
	if op == pickleString || op == pickleUnicode {
		line, err := p.lineText()
		if err != nil {
			return err
		}
		if s = line; op == pickleString {
			s = strings.Trim(line, `'"`)
		}
	} else {
		n, err := p.uint(lengths[op])
		if err != nil {
			return err
		}
		var b [keptText]byte
		kept := min(n, keptText)
		if err := p.full(b[:kept]); err != nil {
			return err
		}
		if err := p.skip(n - kept); err != nil {
			return err
		}
		s = string(b[:kept])
	}
	at, known := p.known[s]
	if !known {
		at = int64(len(p.texts))
		p.texts = append(p.texts, s)
		p.known[s] = at
	}
	p.push(text, at)
	return nil
}

// memoize stores the top of the stack in the memo, or pushes a value of the memo.
// Writers number the memo consecutively.
func (p *unpickler) memoize(op byte) error {
	n := int64(len(p.memo))
	var err error
	switch op {
	case picklePut, pickleGet:
		var line string
		if line, err = p.lineText(); err == nil {
			if n, err = strconv.ParseInt(line, 10, 64); err != nil {
				return faultf("expected the number of a memo, found %q", line)
			}
		}
	case pickleBinPut, pickleBinGet:
		n, err = p.uint(1)
	case pickleLongPut, pickleLongGet:
		n, err = p.uint(4)
	}
	if err != nil {
		return err
	}
	if op == pickleGet || op == pickleBinGet || op == pickleLongGet {
		if n < 0 || n >= int64(len(p.memo)) {
			return faultf("memo %d: expected one below %d", n, len(p.memo))
		}
		p.stack = append(p.stack, p.memo[n])
		return nil
	}
	v, err := p.top()
	switch {
	case err != nil:
		return err
	case n < 0 || n > int64(len(p.memo)):
		return faultf("memo %d: expected at most %d", n, len(p.memo))
	case n == int64(len(p.memo)):
		p.memo = append(p.memo, v)
	default:
		p.memo[n] = v
	}
	return nil
}

func (p *unpickler) byte() (byte, error) {
	b, err := p.r.ReadByte()
	if err == nil {
		p.at++
	}
	return b, err
}

func (p *unpickler) full(b []byte) error {
	n, err := io.ReadFull(p.r, b)
	p.at += int64(n)
	return err
}

// uint reads a length or a number of some bytes, the lowest first.
func (p *unpickler) uint(width int) (int64, error) {
	var b [8]byte
	if err := p.full(b[:width]); err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint64(b[:])
	if n > math.MaxInt64 {
		return 0, faultf("length %d: expected less than 2^63", n)
	}
	return int64(n), nil
}

func (p *unpickler) skip(n int64) error {
	for n > 0 {
		k, err := p.r.Discard(int(min(n, 1<<20)))
		p.at += int64(k)
		n -= int64(k)
		if err != nil {
			return err
		}
	}
	return nil
}

// lineText reads the rest of a line, of which it keeps the beginning.
func (p *unpickler) lineText() (string, error) {
	var kept []byte
	for {
		c, err := p.byte()
		if err != nil {
			return "", err
		}
		if c == '\n' {
			return string(kept), nil
		}
		if len(kept) < keptText {
			kept = append(kept, c)
		}
	}
}
