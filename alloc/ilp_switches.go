package alloc

// ILPSwitch is a named choice of [ILPOptions].
type ILPSwitch struct {
	Name string
	Doc  string // one line
	Set  func(*ILPOptions)
}

// ILPSwitches lists the choices.
var ILPSwitches = []ILPSwitch{
	{"pyramid", "offsets of buffers whose lifetimes lie in one another are fixed (OLLA, section 4.5); may exclude every optimum", func(o *ILPOptions) { o.Pyramid = true }},
	{"no-disjoint", "rows also for buffers that are never live together (no section 4.2)", func(o *ILPOptions) { o.NoDisjoint = true }},
	{"no-merging", "two columns for each pair of buffers, as in OLLA, rather than one", func(o *ILPOptions) { o.NoMerging = true }},
	{"no-loads", "the largest load is no bound of the arena", func(o *ILPOptions) { o.NoLoads = true }},
}
