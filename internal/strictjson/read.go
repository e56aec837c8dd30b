package strictjson

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
)

// mostGrown limits the buffer that is allocated at once for the length of a file.
const mostGrown = 256 << 20

// ReadObject reads a text of at most most bytes that begins like an object. It
// refuses any other text, such as a model given instead of its plan, after the first
// 512 bytes. Errors about the text are of type *Error.
func ReadObject(r io.Reader, most int64) ([]byte, error) {
	var b bytes.Buffer
	if f, ok := r.(interface{ Stat() (fs.FileInfo, error) }); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			b.Grow(int(min(info.Size(), most, mostGrown)) + bytes.MinRead)
		}
	}
	if _, err := io.CopyN(&b, r, 512); err != nil && err != io.EOF {
		return nil, err
	}
	switch head := bytes.TrimLeft(b.Bytes(), " \t\r\n"); {
	case b.Len() == 0:
		return nil, &Error{What: "expected an object, found nothing"}
	case len(head) > 0 && head[0] != '{':
		s := scanner{text: b.Bytes()}
		at := b.Len() - len(head)
		return nil, s.fault(at, "expected an object, found %q", s.glimpse(at))
	}
	if _, err := b.ReadFrom(io.LimitReader(r, most-int64(b.Len())+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > most {
		return nil, &Error{Offset: most, What: fmt.Sprintf("expected at most %d bytes", most)}
	}
	return b.Bytes(), nil
}
