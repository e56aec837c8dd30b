package alloc

import "math/bits"

// failure is a subproblem that is proven to fail, and the sections that explain it.
type failure struct {
	key tableKey
	why hull
}

// tableKey is a hash of 128 bits. Proofs rely on it: with 64 bits, a billion
// states would collide by chance about once in forty searches.
type tableKey struct{ a, b uint64 }

// key hashes the subproblem of the sections: the capacity, their floors and their
// unplaced buffers. A failure does not depend on the search order, so the table
// serves later runs, too.
func (x *exact) key(in hull) tableKey {
	k := tableKey{mix(uint64(x.capacity)), mix(uint64(in.lo)<<32 | uint64(in.hi))}
	for c := in.lo; c < in.hi; c++ {
		if x.rem[c] == 0 {
			continue
		}
		h := mix(uint64(c)*0x9e3779b97f4a7c15 ^ uint64(x.floor[c])*0xd1342543de82ef95)
		k.a += h ^ x.starts[c]
		k.b ^= bits.RotateLeft64(h, 23)*0xc4ceb9fe1a85ec53 + x.starts[c]
		k.b *= 0xff51afd7ed558ccd
	}
	k.a = mix(k.a ^ k.b)
	return k
}

// known reports whether the table has the subproblem, and the sections that
// explain the failure. Other decisions may have led to the same floors now, so the
// explanation joins the current reasons of the sections that mattered then.
func (x *exact) known(k tableKey, in hull) (why hull, known bool) {
	f := &x.table[k.a&uint64(len(x.table)-1)]
	if f.key != k || f.why.hi == 0 {
		return hull{}, false
	}
	why = hull{max(f.why.lo, in.lo), min(f.why.hi, in.hi)}
	for c := max(f.why.lo, in.lo); c < min(f.why.hi, in.hi); c++ {
		why = why.join(x.why[c])
	}
	return why, true
}

// learn enters a failure into the table, in place of another with the same slot.
func (x *exact) learn(k tableKey, why hull) {
	x.table[k.a&uint64(len(x.table)-1)] = failure{k, why}
}

// hashOf is the hash of an unplaced buffer.
func hashOf(b int32) uint64 { return mix(uint64(b)*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019) }
