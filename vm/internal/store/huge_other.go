//go:build !linux

package store

// Huge lets the system put the block on huge pages where it can be told so.
func (b *Block) Huge() *Block { return b }
