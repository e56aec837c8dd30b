package alloc

import "math/bits"

// failure is a state that is proven to fail.
type failure struct {
	key tableKey
	why hull
}

// tableKey is 128 bits of hash: a proof stands on it, and with 64 bits a
// billion states would meet by chance about once in forty searches.
type tableKey struct{ a, b uint64 }

// key hashes what remains to be solved in the sections: their floors, and which
// buffers are unplaced. A failure does not depend on the order of trying, so
// the table outlives a run; the capacity is part of the key.
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

// known says that the state fails, and why. The floors are those of the state
// that was remembered, but what led to them may be something else: the reasons
// are those of today, for the sections that mattered then.
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

func (x *exact) learn(k tableKey, why hull) {
	x.table[k.a&uint64(len(x.table)-1)] = failure{k, why}
}

// hashOf is the hash of an unplaced buffer.
func hashOf(b int32) uint64 { return mix(uint64(b)*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019) }

// mix is the finalizer of splitmix64 (Steele, Lea & Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
