package vm

// SetMostInline changes how many bytes of elements a file holds itself, and
// gives the former number.
func SetMostInline(n int64) int64 {
	was := mostInline
	mostInline = n
	return was
}
