package alloc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// jsonBuffer is a buffer in JSON, with the columns of the CSV. Lifetimes are
// half-open.
type jsonBuffer struct {
	ID        jsonID    `json:"id"`
	Lower     *int64    `json:"lower"`
	Upper     *int64    `json:"upper"`
	Size      *int64    `json:"size"`
	Alignment int64     `json:"alignment,omitempty"`
	Hint      *int64    `json:"hint,omitempty"`
	Gaps      []jsonGap `json:"gaps,omitempty"`
	Offset    *int64    `json:"offset,omitempty"`
}

type jsonGap struct {
	Lower int64 `json:"lower"`
	Upper int64 `json:"upper"`
	From  int64 `json:"from,omitempty"`
	To    int64 `json:"to,omitempty"`
}

// jsonID is a text. A number in its place is read as text.
type jsonID string

// UnmarshalJSON reads a text or a number.
func (id *jsonID) UnmarshalJSON(b []byte) error {
	var number json.Number
	if json.Unmarshal(b, (*string)(id)) == nil {
		return nil
	}
	if err := json.Unmarshal(b, &number); err != nil {
		return fmt.Errorf("id: expected a string or a number, found %.64s", b)
	}
	*id = jsonID(number)
	return nil
}

// ReadJSON reads the buffers of a JSON text in the form of [Problem.WriteJSON]:
//
//	{"alignment": 64,
//	 "buffers": [{"id": "a", "lower": 0, "upper": 2, "size": 4,
//	              "alignment": 8, "hint": 0, "offset": 16,
//	              "gaps": [{"lower": 1, "upper": 2, "from": 0, "to": 2}]}]}
//
// or the list alone. Lifetimes and gaps are half-open. The fields lower, upper and
// size are required; a hint below 0 means none; an offset is fixed. Unknown fields
// around the list are skipped, unknown fields of a buffer are an error, and so are
// duplicate keys and keys in another case. The problem is valid if the error is nil.
func ReadJSON(r io.Reader) (Problem, error) {
	d := &jsonReader{Decoder: json.NewDecoder(r)}
	p, err := readJSON(d)
	if err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
		return Problem{}, err
	}
	return p, p.Validate()
}

// readJSON decodes the text as a stream: it never holds the whole list as JSON.
func readJSON(d *jsonReader) (p Problem, err error) {
	start, err := d.Token()
	if err != nil {
		return p, err
	}
	found := false
	switch start {
	case json.Delim('['):
		found = true
		err = p.readList(d)
	case json.Delim('{'):
		seen := map[string]bool{}
		for err == nil && d.More() {
			if err = p.readField(d, seen); err != nil {
				break
			}
		}
		found = seen["buffers"]
		if err == nil {
			_, err = d.Token()
		}
	}
	if err == nil && !found {
		err = errors.New(`buffers: missing: expected {"buffers": [{"id", "lower", "upper", "size"}]}`)
	}
	if err != nil {
		return p, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, fmt.Errorf("byte %d: expected the end of the file", d.InputOffset())
	}
	return p, nil
}

// readField reads a key of the object around the list, and its value. seen holds the
// earlier keys.
func (p *Problem) readField(d *jsonReader, seen map[string]bool) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	key, _ := token.(string) // encoding/json accepts nothing else here
	if seen[key] {
		return fmt.Errorf("byte %d: key %.64q occurs twice", d.InputOffset(), key)
	}
	seen[key] = true
	for _, known := range []string{"alignment", "buffers"} {
		if key != known && strings.EqualFold(key, known) {
			return fmt.Errorf("byte %d: expected the key %q, found %q", d.InputOffset(), known, key)
		}
	}
	switch key {
	case "alignment":
		return d.decode(&p.Alignment, strictjson.Rules{})
	case "buffers":
		start, err := d.Token()
		if err != nil {
			return err
		}
		if start != json.Delim('[') {
			return fmt.Errorf("buffers: expected a list, found %v", start)
		}
		return p.readList(d)
	}
	var skipped json.RawMessage
	return d.decode(&skipped, strictjson.Rules{})
}

// jsonReader decodes values one by one, by the rules of package strictjson.
type jsonReader struct {
	*json.Decoder
	text json.RawMessage // of the previous value; its memory is reused
}

func (d *jsonReader) decode(v any, rules strictjson.Rules) error {
	if err := d.Decode(&d.text); err != nil {
		return err
	}
	err := rules.Unmarshal(d.text, v)
	if e := (*strictjson.Error)(nil); errors.As(err, &e) {
		e.Offset += d.InputOffset() - int64(len(d.text))
	}
	return err
}

// readList reads buffers up to the end of the list.
func (p *Problem) readList(d *jsonReader) error {
	for d.More() {
		n := len(p.Buffers)
		if n == maxBuffers {
			return fmt.Errorf("buffers: expected at most %d", maxBuffers)
		}
		var j jsonBuffer
		err := d.decode(&j, strictjson.Rules{Known: true})
		var b Buffer
		if err == nil {
			b, err = j.buffer()
		}
		if err != nil {
			return fmt.Errorf("buffers[%d]: %w", n, err)
		}
		p.Buffers = append(p.Buffers, b)
	}
	_, err := d.Token()
	return err
}

func (j *jsonBuffer) buffer() (Buffer, error) {
	if j.Lower == nil || j.Upper == nil || j.Size == nil {
		return Buffer{}, errors.New("expected lower, upper and size")
	}
	b := Buffer{ID: string(j.ID), Size: *j.Size, First: int(*j.Lower), Align: j.Alignment, Hint: j.Hint, Fixed: j.Offset}
	if *j.Upper <= *j.Lower {
		return b, fmt.Errorf("expected a lifetime of at least one step from %d on, found %d", *j.Lower, *j.Upper)
	}
	b.Last = int(*j.Upper - 1)
	if b.Hint != nil && *b.Hint < 0 {
		b.Hint = nil
	}
	for k, g := range j.Gaps {
		if g.Upper <= g.Lower {
			return b, fmt.Errorf("gap %d: expected at least one step from %d on, found %d", k, g.Lower, g.Upper)
		}
		b.Gaps = append(b.Gaps, Gap{First: int(g.Lower), Last: int(g.Upper - 1), From: g.From, To: g.To})
	}
	return b, nil
}

// WriteJSON writes buffers for [ReadJSON], one per line. With a placement, each has
// its offset, and "arena_bytes" precedes the list.
func (p Problem) WriteJSON(w io.Writer, a *Placement) error {
	if a != nil && len(a.Offsets) != len(p.Buffers) {
		return fmt.Errorf("offsets: expected one for each of %d buffers, found %d", len(p.Buffers), len(a.Offsets))
	}
	out := bufio.NewWriter(w)
	fmt.Fprint(out, "{\n")
	if p.Alignment > 0 {
		fmt.Fprintf(out, " \"alignment\": %d,\n", p.Alignment)
	}
	if a != nil {
		fmt.Fprintf(out, " \"arena_bytes\": %d,\n", a.Arena)
	}
	fmt.Fprint(out, " \"buffers\": [")
	for i := range p.Buffers {
		j, err := p.json(i)
		if err != nil {
			return err
		}
		if a != nil {
			j.Offset = &a.Offsets[i]
		}
		text, err := json.Marshal(j)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n  %s", text)
	}
	fmt.Fprint(out, "\n ]\n}\n")
	return out.Flush()
}

func (p Problem) json(i int) (jsonBuffer, error) {
	b := &p.Buffers[i]
	if b.Last == math.MaxInt {
		return jsonBuffer{}, fmt.Errorf("%s: lifetime: expected a last step below %d", p.name(i), math.MaxInt)
	}
	lower, upper := int64(b.First), int64(b.Last)+1
	j := jsonBuffer{
		ID: jsonID(b.ID), Lower: &lower, Upper: &upper, Size: &b.Size,
		Alignment: b.Align, Hint: b.Hint, Offset: b.Fixed,
	}
	if b.ID == "" {
		j.ID = jsonID(strconv.Itoa(i))
	}
	for _, g := range b.Gaps {
		j.Gaps = append(j.Gaps, jsonGap{int64(g.First), int64(g.Last) + 1, g.From, g.To})
	}
	return j, nil
}
