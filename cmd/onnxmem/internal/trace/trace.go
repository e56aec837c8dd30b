package trace

import (
	"fmt"
	"math"
)

// Trace is a recorded stream of allocations and frees.
type Trace struct {
	Format    string // what was read, in words
	Alignment int64  // bytes to which the allocator of the recording aligns
	Blocks    []Block
	Events    []Event
	Marks     []int // the events before which a run begins, ascending; empty: none was recorded

	// Offsets says where blocks lay in the arena of the recording, by block; nil if that is
	// not known. A block that is not listed lay elsewhere.
	Offsets map[int32]int64

	Before int // blocks that are freed here and were allocated before the recording
	Lost   int // blocks whose address was given out again before their free was seen
}

// Block is one allocation.
type Block struct {
	Size   int64 // bytes
	Stream int64 // such as a CUDA stream: blocks of one stream are reused in its order
	Alloc  int   // the event that allocates it; -1: before the recording
	Free   int   // the event that frees it; -1: none
}

// Event is an allocation or a free.
type Event struct {
	Block int32 // index into Trace.Blocks
	Free  bool
}

// A recording of a few minutes has some million events. More than mostEvents are
// refused, so that a small compressed file cannot take all memory.
const mostEvents = 1 << 24

// Error is a fault in a recording, with its place.
type Error struct {
	Line   int   // from 1; 0: see Offset
	Offset int64 // byte, if Line is 0; -1: the whole file
	Err    error
}

func (e *Error) Error() string {
	switch {
	case e.Line > 0:
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	case e.Offset >= 0:
		return fmt.Sprintf("byte %d: %v", e.Offset, e.Err)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// builder collects the events of a recording. K is what identifies a live block: a
// text, or an address.
type builder[K comparable] struct {
	trace  Trace
	live   map[K]int32 // the block of each key, live or, with dead, freed
	total  int64       // the sum of all sizes
	strict bool        // refuse what a complete recording cannot contain
}

// newBuilder returns a builder. A strict one refuses an allocation of a live block
// and a free of one that is not live; others take them for gaps in the recording.
func newBuilder[K comparable](strict bool) *builder[K] {
	return &builder[K]{live: map[K]int32{}, strict: strict}
}

// alloc adds an allocation.
func (b *builder[K]) alloc(id K, size, stream int64) error {
	if err := b.room(size); err != nil {
		return err
	}
	if at, known := b.live[id]; known && b.trace.Blocks[at].Free < 0 {
		if b.strict {
			return fmt.Errorf("alloc of %v: expected an id that is not live, found one that event %d allocates", shown(id), b.trace.Blocks[at].Alloc)
		}
		b.trace.Lost++
	}
	b.live[id] = int32(len(b.trace.Blocks))
	b.trace.Events = append(b.trace.Events, Event{Block: int32(len(b.trace.Blocks))})
	b.trace.Blocks = append(b.trace.Blocks, Block{Size: size, Stream: stream, Alloc: len(b.trace.Events) - 1, Free: -1})
	return nil
}

// free adds a free. A block that is not known has the given size, at least 0.
func (b *builder[K]) free(id K, size, stream int64) error {
	at, known := b.live[id]
	switch {
	case known && b.trace.Blocks[at].Free < 0:
	case b.strict && known:
		return fmt.Errorf("free of %v: expected an id that is live, found one that event %d frees", shown(id), b.trace.Blocks[at].Free)
	case b.strict:
		return fmt.Errorf("free of %v: expected an id that was allocated, found none", shown(id))
	default:
		if err := b.room(size); err != nil {
			return err
		}
		b.trace.Before++
		at = int32(len(b.trace.Blocks))
		b.trace.Blocks = append(b.trace.Blocks, Block{Size: size, Stream: stream, Alloc: -1})
	}
	if len(b.trace.Events) == mostEvents {
		return tooMany()
	}
	b.trace.Blocks[at].Free = len(b.trace.Events)
	b.trace.Events = append(b.trace.Events, Event{Block: at, Free: true})
	if !b.strict {
		delete(b.live, id)
	}
	return nil
}

// room fails if there is no room for one more block of size bytes.
func (b *builder[K]) room(size int64) error {
	switch {
	case size < 0:
		return fmt.Errorf("size: expected 0 or more bytes, found %d", size)
	case len(b.trace.Events) >= mostEvents || len(b.trace.Blocks) >= mostEvents:
		return tooMany()
	case size > math.MaxInt64/4-b.total:
		return fmt.Errorf("size: %d bytes: all sizes together exceed %d", size, int64(math.MaxInt64/4))
	}
	b.total += size
	return nil
}

func tooMany() error { return fmt.Errorf("expected at most %d events", mostEvents) }

// mark notes that a run begins.
func (b *builder[K]) mark() {
	if n := len(b.trace.Marks); n == 0 || b.trace.Marks[n-1] < len(b.trace.Events) {
		b.trace.Marks = append(b.trace.Marks, len(b.trace.Events))
	}
}

// shown is an id in a message.
func shown(id any) string {
	if s, ok := id.(string); ok && len(s) > 64 {
		return s[:64] + "…"
	}
	return fmt.Sprint(id)
}
