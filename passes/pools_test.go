package passes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
)

func TestPoolsThatAreRefused(t *testing.T) {
	many := make([]passes.Pool, 9)
	for _, c := range []struct {
		want string
		opt  passes.Options
	}{
		{"expected from 2 to 8", passes.Options{Pools: []passes.Pool{{Name: "a", Capacity: 1}}}},
		{"found 9", passes.Options{Pools: many}},
		{`pool ""`, passes.Options{Pools: []passes.Pool{{Capacity: 1}, {Name: "b"}}}},
		{`pool "a:b"`, passes.Options{Pools: []passes.Pool{{Name: "a:b"}, {Name: "b"}}}},
		{`pool "host"`, passes.Options{Pools: []passes.Pool{{Name: "a"}, {Name: "host"}}}},
		{"each name once", passes.Options{Pools: []passes.Pool{{Name: "a"}, {Name: "A"}}}},
		{"0 or more", passes.Options{Pools: []passes.Pool{{Name: "a", Capacity: -1}, {Name: "b"}}}},
		{"fastest pools first", passes.Options{Pools: []passes.Pool{{Name: "a", BytesPerSecond: 1}, {Name: "b"}, {Name: "c", BytesPerSecond: 2}}}},
		{"pools and a host", passes.Options{Pools: []passes.Pool{{Name: "a"}, {Name: "b"}}, Host: &passes.Host{Link: 1}}},
	} {
		var wrong *passes.OptionError
		if err := c.opt.Validate(); !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: expected %q", err, c.want)
		}
	}
}
