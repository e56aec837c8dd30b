package schedule

import "time"

// clock adds up the time that bounds take, where somebody asks: the two calls of
// it that a bound makes are all that a search has to do with time.
type clock struct {
	spent *time.Duration // nil: nobody asks
}

func (c clock) begin() time.Time {
	if c.spent == nil {
		return time.Time{}
	}
	return time.Now()
}

func (c clock) end(began time.Time) {
	if c.spent != nil {
		*c.spent += time.Since(began)
	}
}
