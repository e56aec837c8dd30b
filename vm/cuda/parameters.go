package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/edsrzf/mmap-go"
)

// parameters is memory outside of Go's heap for the parameters of launches: it holds
// addresses of itself, and the driver reads it at every launch.
type parameters struct {
	chunks []mmap.MMap
	used   int // bytes of the last chunk
}

// chunkBytes is the least size of a chunk.
const chunkBytes = 1 << 18

// take returns zeroed memory that is aligned to 8 bytes.
func (p *parameters) take(bytes int) (unsafe.Pointer, error) {
	bytes = (bytes + 7) &^ 7
	if len(p.chunks) == 0 || p.used+bytes > len(p.chunks[len(p.chunks)-1]) {
		m, err := mmap.MapRegion(nil, max(bytes, chunkBytes), mmap.RDWR, mmap.ANON, 0)
		if err != nil {
			return nil, fmt.Errorf("memory for parameters: %w", err)
		}
		p.chunks, p.used = append(p.chunks, m), 0
	}
	at := unsafe.Pointer(&p.chunks[len(p.chunks)-1][p.used])
	p.used += bytes
	return at, nil
}

// free returns the memory to the system.
func (p *parameters) free() error {
	var list []error
	for _, m := range p.chunks {
		list = append(list, m.Unmap())
	}
	p.chunks = nil
	return errors.Join(list...)
}
