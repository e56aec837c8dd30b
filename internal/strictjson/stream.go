package strictjson

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Stream reads an object without holding the whole text in memory: one value after
// another, and lists a few elements at a time.
type Stream struct {
	r     *bufio.Reader
	at    int64  // offset of the next byte
	most  int    // maximum bytes of a value
	batch int    // bytes of a list that are decoded at once
	kept  []byte // the bytes read since begin
	keep  bool
}

// NewStream returns a Stream that reads from r and refuses values of more than most
// bytes.
func NewStream(r io.Reader, most int) *Stream {
	return &Stream{r: bufio.NewReaderSize(r, 64<<10), most: most, batch: batchBytes}
}

// Offset returns the offset of the next byte.
func (s *Stream) Offset() int64 { return s.at }

// Object reads the text, which must be one object. For every key it calls read, which
// must call List or Decode once. It refuses a key that equals one of known but for
// case. An error is an *Error, an error of the reader, or the error of read.
func (s *Stream) Object(known []string, read func(key string) error) error {
	c, err := s.next()
	if err != nil {
		return err
	}
	if c != '{' {
		return s.unexpected("an object")
	}
	s.discard(1)
	var seen names
	for first := true; ; first = false {
		c, err := s.next()
		if err != nil {
			return err
		}
		if first && c == '}' {
			s.discard(1)
			return s.end()
		}
		if c != '"' {
			return s.unexpected("a key")
		}
		begin := s.at
		var key string
		if err := s.Decode(&key, "", Rules{}); err != nil {
			return err
		}
		if !seen.add(key) {
			return &Error{Offset: begin, What: fmt.Sprintf("key %q occurs twice", clip(key))}
		}
		for _, name := range known {
			if name != key && strings.EqualFold(name, key) {
				return &Error{Offset: begin, What: fmt.Sprintf("expected the key %q, found %q", name, clip(key))}
			}
		}
		if c, err = s.next(); err != nil {
			return err
		} else if c != ':' {
			return s.unexpected(`":"`)
		}
		s.discard(1)
		if err := read(key); err != nil {
			return err
		}
		switch c, err := s.next(); {
		case err != nil:
			return err
		case c == '}':
			s.discard(1)
			return s.end()
		case c != ',':
			return s.unexpected(`"," or "}"`)
		}
		s.discard(1)
	}
}

// batchBytes is how much of a list is decoded at once. The overhead of a call equals
// the cost of some hundred bytes.
const batchBytes = 64 << 10

// List reads a list, the value of a key. It decodes a few elements at a time into the
// slice that v points to, whose memory it reuses, and calls read with the index of
// the first of them. It reports whether there is a list: false for null.
func (s *Stream) List(key string, v any, read func(first int) error) (bool, error) {
	c, err := s.next()
	if err != nil {
		return false, err
	}
	if c != '[' {
		return false, s.Decode(v, key, Rules{}) // null, or an error
	}
	batch := reflect.ValueOf(v).Elem()
	for first, last := 0, false; !last; {
		begin, n := s.at, 0
		s.begin()
		s.discard(1) // the bracket, or the comma before these elements
		s.kept[0] = '['
		for {
			c, err := s.next()
			if err != nil {
				return true, err
			}
			if last = n == 0 && first == 0 && c == ']'; last {
				break
			}
			if err := s.value(c); err != nil {
				return true, err
			}
			n++
			if c, err = s.next(); err != nil {
				return true, err
			}
			if last = c == ']'; !last && c != ',' {
				s.kept = append(s.kept, ']')
				if err := s.decode(v, begin, Rules{}); err != nil { // the fault may be earlier
					return true, inList(err, key, first)
				}
				return true, s.unexpected(`"," or "]"`)
			}
			if last || len(s.kept) >= s.batch {
				break
			}
			s.discard(1)
		}
		s.keep, s.kept = false, append(s.kept, ']')
		batch.Clear()
		if err := s.decode(v, begin, Rules{}); err != nil {
			return true, inList(err, key, first)
		}
		if err := read(first); err != nil {
			return true, err
		}
		first += n
	}
	s.discard(1)
	return true, nil
}

// inList corrects the place in an error about a batch of elements: it adds the index
// of the batch's first element to the index in the error, and prepends the list's key.
func inList(err error, key string, first int) error {
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	if rest, ok := strings.CutPrefix(e.Where, "["); ok {
		index, rest, _ := strings.Cut(rest, "]")
		if i, err := strconv.Atoi(index); err == nil {
			e.Where = fmt.Sprintf("[%d]%s", first+i, rest)
		}
	}
	e.within(key)
	return err
}

// Decode decodes the next value into *v. Messages contain key.
func (s *Stream) Decode(v any, key string, rules Rules) error {
	c, err := s.next()
	if err != nil {
		return err
	}
	begin := s.at
	s.begin()
	if err = s.value(c); err == nil {
		s.keep = false
		err = s.decode(v, begin, rules)
	}
	if e := (*Error)(nil); errors.As(err, &e) && key != "" {
		e.within(key)
	}
	return err
}

// decode decodes the kept bytes, which begin at offset begin of the text.
func (s *Stream) decode(v any, begin int64, rules Rules) error {
	err := rules.Unmarshal(s.kept, v)
	if e := (*Error)(nil); errors.As(err, &e) {
		e.Offset += begin
	}
	return err
}

// value reads the value that begins with c. Decoding it tells later whether it is
// valid.
func (s *Stream) value(c byte) error {
	scalar, depth, quoted, escaped := c != '{' && c != '[' && c != '"', 0, false, false
	if scalar && ends[c] {
		return s.unexpected("a value")
	}
	for {
		b, err := s.peek()
		if err != nil {
			return s.ended(err)
		}
		for n, c := range b {
			switch {
			case scalar:
				if ends[c] {
					s.discard(n)
					return nil
				}
				continue
			case escaped:
				escaped = false
				continue
			case quoted && c == '\\':
				escaped = true
				continue
			case c == '"':
				quoted = !quoted
			case quoted:
				continue
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
			}
			if !quoted && depth == 0 {
				s.discard(n + 1)
				return nil
			}
		}
		s.discard(len(b))
	}
}

// next skips white space and returns the next byte without consuming it.
func (s *Stream) next() (byte, error) {
	for {
		b, err := s.peek()
		if err != nil {
			return 0, s.ended(err)
		}
		rest := bytes.TrimLeft(b, " \t\r\n")
		s.discard(len(b) - len(rest))
		if len(rest) > 0 {
			return rest[0], nil
		}
	}
}

// end returns an error if anything but white space follows the object.
func (s *Stream) end() error {
	for {
		b, err := s.peek()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if rest := bytes.TrimLeft(b, " \t\r\n"); len(rest) > 0 {
			s.discard(len(b) - len(rest))
			return s.unexpected("the end of the text")
		}
		s.discard(len(b))
	}
}

func (s *Stream) unexpected(want string) error {
	b, _ := s.r.Peek(8)
	return &Error{Offset: s.at, What: fmt.Sprintf("expected %s, found %q", want, strings.ToValidUTF8(string(b), "\uFFFD"))}
}

// ended returns the error for a text that ends too early or cannot be read.
func (s *Stream) ended(err error) error {
	if err == io.EOF {
		return &Error{Offset: s.at, What: "unexpected end of JSON input"}
	}
	return err
}

// begin starts keeping the bytes that are read.
func (s *Stream) begin() { s.keep, s.kept = true, s.kept[:0] }

// peek returns the buffered bytes, at least one.
func (s *Stream) peek() ([]byte, error) {
	if s.keep && len(s.kept) > s.most {
		return nil, &Error{Offset: s.at, What: fmt.Sprintf("expected at most %d bytes in a value, found more", s.most)}
	}
	if _, err := s.r.Peek(1); err != nil {
		return nil, err
	}
	return s.r.Peek(s.r.Buffered())
}

// discard consumes n bytes that peek has returned.
func (s *Stream) discard(n int) {
	if s.keep {
		b, _ := s.r.Peek(n)
		s.kept = append(s.kept, b...)
	}
	n, _ = s.r.Discard(n)
	s.at += int64(n)
}
