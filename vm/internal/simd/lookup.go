package simd

// LookUp writes table[x] for each x of src. dst may be src.
func LookUp(dst, src []byte, table *[256]byte) {
	const step = 128
	dst = dst[:len(src)]
	whole := 0
	if available && len(src) >= 2*step {
		whole = len(src) &^ (step - 1)
		rows := spread(table)
		lookUpAVX2(&dst[0], &src[0], whole, &rows[0])
	}
	for i, x := range src[whole:] {
		dst[whole+i] = table[x]
	}
}

// spread returns a table whose rows of 16 bytes are XORed with the rows before them, other
// than the first and the ninth.
func spread(table *[256]byte) (rows [256]byte) {
	rows = *table
	for i := range rows {
		if i%128 >= 16 {
			rows[i] ^= table[i-16]
		}
	}
	return rows
}
