package schedule

// ILPSwitch is a named choice of [ILPOptions].
type ILPSwitch struct {
	Name string
	Doc  string // one line
	Set  func(*ILPOptions)
}

// ILPSwitches lists the choices: first those of OLLA (Steiner et al. 2022), then the
// reductions that can be left out, then what OLLA's model does not have.
var ILPSwitches = []ILPSwitch{
	{"offsets", "order and offsets at once (equations 1 to 9), rather than an order alone (13, 14)", func(o *ILPOptions) { o.Offsets = true }},
	{"control-edges", "updates run early (section 4.3); may exclude every optimal order", func(o *ILPOptions) { o.ControlEdges = true }},
	{"levels", "spans by OLLA's ASAP and ALAP (section 4.1), rather than by numbers of ancestors and descendants", func(o *ILPOptions) { o.Spans = SpansByLevel }},
	{"all-spans", "any node at any step: no equations 10 and 11", func(o *ILPOptions) { o.Spans = SpansAll }},
	{"no-preserved", "no equation 12: a column also where a tensor must be held", func(o *ILPOptions) { o.NoPreserved = true }},
	{"no-merging", "a column for each output of a node, with equation 5", func(o *ILPOptions) { o.NoMerging = true }},
	{"no-sequence", "several nodes at a step, as OLLA permits", func(o *ILPOptions) { o.NoSequence = true }},
	{"no-disjoint", "with offsets: rows also for tensors that are never live together (no section 4.2)", func(o *ILPOptions) { o.NoDisjoint = true }},
	{"no-loads", "with offsets: the loads are no bounds of the arena", func(o *ILPOptions) { o.NoLoads = true }},
	{"no-workspaces", "no workspaces, as in OLLA", func(o *ILPOptions) { o.NoWorkspaces = true }},
	{"no-pairs", "no in-place pairs, as in OLLA", func(o *ILPOptions) { o.NoPairs = true }},
}
