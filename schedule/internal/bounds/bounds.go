// Package bounds proves lower bounds on the peak of every order by minimum cuts.
//
// Let live(S) be the bytes to hold between steps when the nodes of the downset S
// have run: a downset contains the predecessors of its nodes. Each tensor is a
// directed hyperedge, live when its maker is inside S and a reader is outside, so
// live is submodular:
//
//	live(A ∩ B) + live(A ∪ B) <= live(A) + live(B)
//
// The least live(S), over the downsets with some nodes forced in and others forced
// out, is therefore a minimum cut ([Cutter]). Three kinds of certificates follow:
//
//	            what is inside S         what is outside       it proves
//	Cut         the ancestors of v       v, its descendants    every order runs v
//	First of A  the ancestors of v       A, its descendants    some v of A runs first
//	Last of A   A \ {v}, all ancestors   v, its descendants    some v of A runs last
//
// The load of v there, the least over v for a set, is a bound. [Cutter.Sets] and
// [Cutter.Conflicts] look for sets that prove more than single nodes do.
package bounds

// Certificate says what proves a lower bound on the peak of every order.
type Certificate struct {
	Kind  string  // Cut, First, Last or Search
	Nodes []int32 // the node, or the set; none for Search
	Value int64   // bytes

	ClaimedBy string // the solver that a Search rests on; empty: none
}

// The kinds of certificates.
const (
	Cut    = "cut"          // the least load of one node
	First  = "first-of-set" // the least load of the node of a set that runs first
	Last   = "last-of-set"  // the least load of the node of a set that runs last
	Search = "search"       // an exhausted exact search, or a bound on another problem
)
