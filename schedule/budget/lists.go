package budget

// lists holds many short lists in one slice, because a sweep reads them all in order.
type lists struct {
	start []int32
	items []int32
}

func newLists(of [][]int32) (l lists) {
	l.start = make([]int32, 1, len(of)+1)
	for _, list := range of {
		l.items = append(l.items, list...)
		l.start = append(l.start, int32(len(l.items)))
	}
	return l
}

func (l *lists) of(i int32) []int32 { return l.items[l.start[i]:l.start[i+1]] }
