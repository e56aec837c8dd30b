package store

import "golang.org/x/sys/unix"

// mostSmall is the size of a block, in bytes, from which huge pages are worth asking for.
const mostSmall = 2 << 20

// Huge lets the system put the block on huge pages, which are taken in one piece and need
// few entries of the tables of addresses. It is for blocks of which every page is used: a
// huge page takes memory as a whole. It returns the block.
func (b *Block) Huge() *Block {
	if len(b.Bytes) >= mostSmall && !b.Shared && b.pinned == nil && b.Name == "" {
		_ = unix.Madvise(b.Bytes, unix.MADV_HUGEPAGE) // without it, the block is slower
	}
	return b
}
