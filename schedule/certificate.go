package schedule

// Certificate says what proves a lower bound. Whoever doubts it builds the
// network of [CutBound], [FirstBound] or [LastBound] from its definition for
// these nodes and computes a maximum flow. Precedence, sizes and pairs are
// those of the problem; nothing that the search did needs to be believed. Only
// a bound of kind search rests on a search that must be repeated to be checked.
type Certificate struct {
	Kind  string  // KindCut, KindFirst, KindLast or KindSearch
	Nodes []int32 // the node, or the set; none for a search
	Value int64   // bytes
}

// The kinds of certificates.
const (
	KindCut    = "cut"          // Value is CutBound of the node
	KindFirst  = "first-of-set" // FirstBound of the set
	KindLast   = "last-of-set"  // LastBound of the set
	KindSearch = "search"       // an exhausted exact search, or bounds under precedence forced by a budget
)
