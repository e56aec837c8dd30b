package core

import "slices"

// Buffer is bytes that some storages occupy one after the other, or the workspace of a node.
type Buffer struct {
	Known    bool    // the other fields are set: what is not known is left out of all sums
	Storages []int32 // in the order in which they are made; none for a workspace
	Stays    bool    // it belongs to a parameter or a state: live at every step

	Bytes          int64 // of the largest storage
	First, Last    int   // the steps at which any of them is live
	Resident, Host bool
}

// Reason says why a storage may not be written over another.
type Reason int8

// The reasons, in the order in which Hold looks for them.
const (
	NoMaker     Reason = iota // nobody makes the second one
	NotAllowed                // its maker may not write it over the first
	NotInplace                // no results are written over operands in this problem
	OverResides               // the first is resident
	OverOutput                // the first is an output, which nothing may overwrite
	ReadTwice                 // its maker reads the first through several storages
	ReadLater                 // another node reads the first later
)

// Fault is two storages of a buffer that may not follow one another.
type Fault struct {
	Reason       Reason
	Over, Result int32
	Count        int   // ReadTwice: the storages
	Reader       int32 // ReadLater: the last reader
}

// Hold checks that each storage of a buffer is written over the one before it by the last
// reader of that one, and sets what the buffer must be.
func (p *Problem) Hold(b *Buffer) (faults []Fault) {
	for j := 1; j < len(b.Storages); j++ {
		faults = p.follows(faults, b, b.Storages[j-1], b.Storages[j])
	}
	for n, i := range b.Storages {
		st := &p.Storages[i]
		first, last := p.Lifetime(i, nil)
		if n == 0 {
			b.Bytes, b.First, b.Last = st.Bytes, first, last
		}
		b.Bytes, b.First, b.Last = max(b.Bytes, st.Bytes), min(b.First, first), max(b.Last, last)
		b.Resident = b.Resident || st.Resident
		b.Host = b.Host || st.Host
	}
	if b.Stays {
		b.First, b.Last = 0, p.End()
	}
	return faults
}

// follows checks two storages one of which lies in a buffer behind the other.
func (p *Problem) follows(faults []Fault, b *Buffer, before, behind int32) []Fault {
	over, result := &p.Storages[before], &p.Storages[behind]
	fault := func(f Fault) {
		f.Over, f.Result = before, behind
		faults = append(faults, f)
	}
	if result.Maker < 0 {
		fault(Fault{Reason: NoMaker})
		return faults
	}
	n := &p.Nodes[result.Maker]
	switch {
	case !slices.Contains(n.Over, Pair{behind, before}):
		fault(Fault{Reason: NotAllowed})
		return faults
	case !p.Inplace && !b.Stays:
		fault(Fault{Reason: NotInplace})
	case over.Resident && !b.Stays:
		fault(Fault{Reason: OverResides})
	}
	if over.Output {
		fault(Fault{Reason: OverOutput})
	}
	if k := p.readings(n, before); k > 1 {
		fault(Fault{Reason: ReadTwice, Count: k})
	}
	if last := slices.Max(append(slices.Clip(over.Readers), result.Maker)); last != result.Maker {
		fault(Fault{Reason: ReadLater, Reader: last})
	}
	return faults
}

// readings is the number of storages, with parts or without, by which a node reads the bytes
// of a storage. It may need the second after it has written over the first.
func (p *Problem) readings(n *Node, of int32) (count int) {
	for k, i := range n.Reads {
		if (i == of && p.Storages[i].Parts == nil || slices.Contains(p.Storages[i].Parts, of)) && !slices.Contains(n.Reads[:k], i) {
			count++
		}
	}
	return count
}
