package alloc

// Strategy is a way to place buffers.
type Strategy struct {
	Name      string
	Doc       string // its rule, in a line
	Source    string // the paper
	Func      func(Problem) Placement
	OnRequest bool // [Solve] runs it only if it is asked for: the searches are better
	Large     bool // near-linear for all lifetimes: on 100,000 buffers, [Solve] runs only these
	// MaxBuffers is the number of buffers that it can place within a few seconds;
	// tables of all strategies leave it out beyond. 0: tens of thousands.
	MaxBuffers int
}

// Strategies lists the strategies in the order in which [Solve] runs them. Each takes
// a valid problem and returns a placement that depends on the problem alone. The last
// tie-break is always the smaller index.
var Strategies = []Strategy{
	{Name: "greedy-by-size", Func: GreedyBySize, Doc: "largest first, each into the smallest gap where it fits", Source: "Pisarchyk & Lee 2020, algorithm 3; SmartPool (Zhang et al. 2019), section III-C; onnxsim"},
	{Name: "best-fit", Func: BestFit, Doc: "bottom up: on the lowest plateau the longest lifetime that fits, the largest of equal ones", Source: "Burke et al. 2004", Large: true},
	{Name: "boxing", Func: Boxing, Doc: "rows of similar sizes; bottom up: on the lowest plateau the buffer of the lowest row that fits", Source: "idealloc (Lamprakos et al. 2025); Buchsbaum et al. 2003", OnRequest: true, Large: true},
	{Name: "greedy-by-breadth", Func: GreedyByBreadth, Doc: "busiest step first, its buffers largest first", Source: "Pisarchyk & Lee 2020, section 5.3"},
	{Name: "greedy-by-start", Func: GreedyByStart, Doc: "in the order of time, each at the lowest free offset", Source: "first fit: Knuth, volume 1, section 2.5"},
	{Name: "strip-packing", Func: StripPacking, Doc: "bottom up: on the lowest plateau the longest lifetime that fits, the first of equal ones", Source: "Sekiyama et al. 2018, section 3.2", OnRequest: true},
	{Name: "greedy-in-order", Func: GreedyInOrder, Doc: "in the order of time, each into the smallest gap where it fits", Source: "Lee et al. 2019, greedy", OnRequest: true},
	{Name: "first-fit-by-duration", Func: FirstFitByDuration, Doc: "longest lifetime first, each at the lowest free offset", Source: "first fit, decreasing", OnRequest: true},
	{Name: "hill-climb", Func: HillClimb, Doc: "largest first, each at the lowest free offset, then 500 swaps in that order", Source: "TVM, USMP hill_climb", OnRequest: true, MaxBuffers: 2000},
}
