package vm

import (
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// LimitError reports an allocation that would exceed Options.MemoryLimit, and that was
// therefore not made: of a new session, or, at run time, of a tensor or kernel whose
// size depends on data. The *graph.Error around it names the node and the tensor.
type LimitError struct {
	Bytes int64  // the size of the allocation
	Taken int64  // bytes in use before, by all sessions of the program, with Held
	Held  int64  // Options.Held
	Limit int64  // the largest sum of Bytes and Taken
	Free  bool   // Limit is the memory that was free (Options.MemoryLimit 0)
	Needs Memory // for a new session, its memory as far as it was laid out; else zero
	// Device is the GPU whose memory this is about, and Constants the bytes of constants
	// that Needs leaves out and that are there; "" and 0: the memory of the machine.
	Device    string
	Constants int64

	unpacked int64 // how much more of files would be resident if nothing were packed
}

func (e *LimitError) Error() string {
	var b strings.Builder
	if e.Needs == (Memory{}) {
		fmt.Fprintf(&b, "asks for %s with %s in use", units.Bytes(e.Bytes), units.Short(e.Taken))
	} else {
		fmt.Fprintf(&b, "needs %s: arena %s, parameters and states %s, scratch %s", units.Bytes(e.NeedsBytes()),
			units.Short(e.Needs.ArenaBytes), units.Short(e.Needs.StateBytes), units.Short(e.Needs.ScratchBytes))
		for _, part := range []struct {
			what  string
			bytes int64
		}{
			{"separate tensors", e.Needs.SeparateBytes},
			{"dynamic tensors", e.Needs.DynamicBytes},
			{"tables", e.Needs.TableBytes},
			{"host pool", e.Needs.HostBytes},
			{"decoded constants", e.Needs.DecodedBytes},
			{"packed weights", e.Needs.PackedBytes},
			{"weights in their files", e.inFile()},
			{"Go's heap", e.Needs.HeapBytes},
			{"constants", e.Constants},
			{"held by the caller", e.Held},
		} {
			if part.bytes > 0 {
				fmt.Fprintf(&b, ", %s %s", part.what, units.Short(part.bytes))
			}
		}
	}
	fmt.Fprintf(&b, ": expected at most %s", units.Bytes(e.Limit))
	switch {
	case e.Free && e.Device != "":
		fmt.Fprintf(&b, ", which is free on %s", e.Device)
	case e.Free:
		b.WriteString(", which is free")
	case e.Device != "":
		fmt.Fprintf(&b, " on %s", e.Device)
	}
	return b.String()
}

// NeedsBytes is what a new session needs, as far as it was laid out.
func (e *LimitError) NeedsBytes() int64 {
	asked := units.Add(e.Bytes, e.Taken)
	if e.Device == "" {
		return asked
	}
	return max(asked, units.Add(e.Needs.Bytes(), e.Constants)) // constants are asked for last
}

// inFile is Memory.FileBytes, if a limit was given: what is free holds them in any case.
func (e *LimitError) inFile() int64 {
	if e.Free {
		return 0
	}
	return e.Needs.FileBytes
}

// FitsUnpacked reports whether the session would fit with Options.NoPack.
func (e *LimitError) FitsUnpacked() bool {
	return e.Needs.PackedBytes > 0 && units.Add(e.Bytes, e.Taken)-e.Needs.PackedBytes+e.unpacked <= e.Limit
}

// limitError explains an allocation that an account refuses.
func limitError(r *store.Refusal) error {
	return &LimitError{
		Bytes: r.Bytes, Taken: r.Taken, Held: r.Held, Limit: r.Limit, Free: r.Free, Device: r.Device,
		Needs: Memory(r.Needs), Constants: r.Constants, unpacked: r.Unpacked,
	}
}
