package kernel

import (
	"strconv"
	"strings"
)

// by says which algorithm computes the node (form.Call.Way): its name, the lengths of its kernel
// of weights, if any, and what else it does; empty texts are left out. A kernel that is prepared
// at every step, which may allocate nothing, says nothing.
func (c *Invocation) by(name string, kernel []int, also ...string) {
	if c.Runtime != nil && c.Runtime.Live() {
		return
	}
	var b strings.Builder
	b.WriteString(name)
	for i, n := range kernel {
		b.WriteByte(" x"[min(i, 1)])
		b.WriteString(strconv.Itoa(n))
	}
	for _, part := range also {
		if part != "" {
			b.WriteString(", ")
			b.WriteString(part)
		}
	}
	c.Way = b.String()
}

// noted is text if a condition holds, else "".
func noted(is bool, text string) string {
	if is {
		return text
	}
	return ""
}
