// Package store is the memory of a session: blocks outside of Go's heap, the side pool of
// tensors without a planned place, pages with walls between them, and the account against
// which all of it is taken before it is allocated. It knows bytes and addresses, and neither
// graphs nor kernels.
package store

// Store is what a session allocates outside of the program's constants, but for scratch.
type Store struct {
	*Share // counts it

	Arena, Resident    *Block
	Host               *Block   // the host pool; nil: there is none
	Own                []*Block // one for each graph whose tensors have storages of their own
	Side               SidePool // tensors without a planned place
	Guard              *Guard   // nil: tensors have no walls
	Heap               int64    // bytes of Go's heap, as estimated
	Tables, SideTables int64    // bytes of lists that kernels keep; of those in the side pool
}
