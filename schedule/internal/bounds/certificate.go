package bounds

// Certificate says what proves a lower bound on the peak of every order.
type Certificate struct {
	Kind  string  // Cut, First, Last or Search
	Nodes []int32 // the node, or the set; none for Search
	Value int64   // bytes
}

// The kinds of certificates.
const (
	Cut    = "cut"          // the least load of one node
	First  = "first-of-set" // the least load of the node of a set that runs first
	Last   = "last-of-set"  // the least load of the node of a set that runs last
	Search = "search"       // an exhausted exact search, or a bound on another problem
)
