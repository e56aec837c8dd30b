package exec

// watch is what looks at the runs of a session.
type watch struct {
	poison   *watcher  // of Options.Poison
	comparer *comparer // of CheckReference; else nil
	record   *Profile  // in which the steps record their times; nil: none
}
