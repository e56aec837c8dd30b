package core

import "slices"

// Written is what a node writes over a parameter or state, or over what lies in its buffer.
type Written struct {
	Maker   int32
	Bytes   int64
	Others  []int32 // what else reads that
	Operand bool    // it may be written over an operand in the arena
	Waits   bool    // a reader of it must wait for all others, as the update does
}

// writtenOver lists what is written over parameters and states, but for the updated values, which
// stay in any plan, and for what may be written over another parameter, too.
func (b *Bounds) writtenOver() (list []Written) {
	p := b.p
	for _, u := range p.Chained {
		st := &p.Storages[u.New]
		if st.Update || st.Maker < 0 || p.overAnother(u) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(p.Storages[u.Old].Readers), func(r int32) bool { return r == st.Maker })
		waits := func(r int32) bool {
			return !slices.ContainsFunc(others, func(q int32) bool { return q == r || !slices.Contains(b.Before[r], q) })
		}
		list = append(list, Written{st.Maker, st.Bytes, others, p.overOperand(u), slices.ContainsFunc(st.Readers, waits)})
	}
	return list
}

// elsewhere adds the bytes of what nodes write over parameters and states in their buffers, in the
// states in which another reader of these has not run. Whatever the plan, no node can write it there
// then. It takes as many bytes of the arena or, if a plan writes it over the parameter further back
// in the buffer, the value between them does, which is live and as large. That holds at node id,
// which makes it, unless it may lie where an operand does, and behind its maker where a reader waits
// for all readers of the parameter: then it is live. The bytes that are added in all states are
// returned.
func (w *network) elsewhere(id int32) (constant int64) {
	for _, x := range w.b.Written {
		switch {
		case x.Maker == id && !x.Operand:
			constant += w.hold(None, x.Others, false, x.Bytes)
		case x.Maker != id && x.Waits && w.b.side[x.Maker] != due:
			constant += w.hold(x.Maker, x.Others, false, x.Bytes)
		}
	}
	return constant
}

// overOperand reports whether what is written over u.Old may be written over an operand in the
// arena.
func (p *Problem) overOperand(u Update) bool {
	n := &p.Nodes[p.Storages[u.New].Maker]
	return p.Inplace && slices.ContainsFunc(n.Over, func(x Pair) bool { return x.Result == u.New && p.Counts(x.Over) })
}

// overAnother reports whether what is written over u.Old may be written over another parameter or
// state.
func (p *Problem) overAnother(u Update) bool {
	n := &p.Nodes[p.Storages[u.New].Maker]
	return slices.ContainsFunc(n.Overwrite, func(i int32) bool { return i != u.Old && p.stays(i) })
}

// stays reports whether a storage is in the buffer of a parameter or state.
func (p *Problem) stays(i int32) bool {
	return p.Storages[i].Update || slices.ContainsFunc(p.Chained, func(u Update) bool { return u.Old == i || u.New == i })
}
