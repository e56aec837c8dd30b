package proof

// Limit sets the size of the largest proof and returns what it was.
func Limit(bytes int64) int64 {
	old := maxBytes
	maxBytes = bytes
	return old
}
