package alloc

// Strategy is a way to place buffers.
type Strategy struct {
	Name   string
	Doc    string // its rule, in a line
	Source string // the paper
	Func   func(Problem) Placement
}

// Strategies lists them in the order in which [Solve] tries them. Each takes a
// valid problem and returns a placement that depends on it alone; ties fall to
// the smaller index everywhere.
var Strategies = []Strategy{
	{"greedy-by-size", "largest first, each into the smallest gap that it fits", "Pisarchyk & Lee 2020, algorithm 3", GreedyBySize},
	{"best-fit", "lowest plateau first, with the longest lifetime that fits into it", "Burke et al. 2004; Sekiyama et al. 2018", BestFit},
	{"greedy-by-breadth", "busiest step first, its buffers largest first", "Pisarchyk & Lee 2020, section 5.3", GreedyByBreadth},
	{"greedy-by-start", "in the order of time, each at the lowest offset that is free", "first fit: Knuth, volume 1, section 2.5", GreedyByStart},
}
