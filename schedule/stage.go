package schedule

// stage is a set of things that a search does and could do without: a test
// leaves out each in turn and expects the same optimum. None is left out
// otherwise.
type stage uint

const (
	merging    stage = 1 << iota // of nodes that run next to each other: see merge.go
	siblings                     // that run next to each other: see sibling.go
	idleNodes                    // run before or after all others: see idle.go
	delaying                     // of nodes that gain nothing by an early run: see delay.go
	credits                      // for inputs that a merged node may free
	coarseNets                   // without the bytes of small tensors
	setBounds                    // of the first and the last of a set
	turning                      // of a node and those that cannot have run yet
	recursion                    // on minimum cuts
	precedence                   // forced by a limit
	bisection                    // of the gap, by attempts
	windowing                    // exact decisions around the peak
	climbing                     // exact decisions on the whole
	watching                     // nodes that an exact search may shut out
	allStages
)

func (s stage) has(x stage) bool { return s&x != 0 }
