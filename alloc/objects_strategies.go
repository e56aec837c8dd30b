package alloc

// ObjectStrategy is a way to assign buffers to shared objects.
type ObjectStrategy struct {
	Name   string
	Doc    string // its rule, in a line
	Source string // the paper
	Func   func(Problem) Objects
	// MaxBuffers is how many it can take within a second or two; a table of all
	// strategies leaves it out beyond. 0: tens of thousands.
	MaxBuffers int
}

// ObjectStrategies lists them. Each takes a valid problem and returns an
// assignment that depends on it alone. Fixed offsets, hints and gaps do not
// matter to them.
var ObjectStrategies = []ObjectStrategy{
	{Name: "objects-by-size", Func: ObjectsBySize, Doc: "largest first, each into the smallest object that is free", Source: "Pisarchyk & Lee 2020, algorithm 2"},
	{Name: "objects-by-size-improved", Func: ObjectsBySizeImproved, Doc: "by positional maxima; of like sizes first what leaves an object idle least", Source: "Pisarchyk & Lee 2020, section 4.4", MaxBuffers: 8000},
	{Name: "objects-by-breadth", Func: ObjectsByBreadth, Doc: "busiest step first, its buffers largest first, each into the smallest object that is large enough, else the largest grows", Source: "Pisarchyk & Lee 2020, algorithm 1"},
	{Name: "objects-in-order", Func: ObjectsInOrder, Doc: "in the order of time, each into the free object of the closest size", Source: "Lee et al. 2019, greedy"},
	{Name: "objects-by-flow", Func: ObjectsByFlow, Doc: "who follows whom in an object as an assignment of least cost", Source: "Lee et al. 2019, min-cost flow", MaxBuffers: 1500},
}
