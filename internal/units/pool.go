package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Pool is a memory as people write it: NAME=CAPACITY, or NAME=CAPACITY@RATE, such as
// sram=256KiB or psram=8MiB@100MB/s.
type Pool struct {
	Name     string
	Capacity Size
	Rate     Rate // 0: not given
}

// UnmarshalText reads a pool.
func (p *Pool) UnmarshalText(text []byte) error {
	name, rest, ok := strings.Cut(string(text), "=")
	size, rate, fast := strings.Cut(rest, "@")
	q := Pool{Name: strings.TrimSpace(name)}
	if !ok || q.Name == "" || q.Capacity.UnmarshalText([]byte(size)) != nil || fast && q.Rate.UnmarshalText([]byte(rate)) != nil {
		return fmt.Errorf("%q is not a pool: expected NAME=CAPACITY[@RATE], such as sram=256KiB or psram=8MiB@100MB/s", text)
	}
	*p = q
	return nil
}

// MarshalText writes a pool in a form that UnmarshalText reads back unchanged.
func (p Pool) MarshalText() ([]byte, error) {
	text := p.Name + "=" + strconv.FormatInt(int64(p.Capacity), 10)
	if p.Rate > 0 {
		text += "@" + strconv.FormatInt(int64(p.Rate), 10) + "B/s"
	}
	return []byte(text), nil
}
