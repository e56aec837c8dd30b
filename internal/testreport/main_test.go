package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		doc    string
		in     []string
		want   string
		passed bool
	}{
		{
			doc: "a package that passes, a test that is skipped",
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: no test data: set ONNXMEM_DATA\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want:   "ok  \tp\t0.1s\nskipped: no test data: set ONNXMEM_DATA (1): TestA\n",
			passed: true,
		},
		{
			doc: "a test that fails shows what it printed",
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: got 1, want 2\n"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:9: quiet\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestB"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: "    a_test.go:7: got 1, want 2\nFAIL\tp\t0.1s\n",
		},
		{
			doc: "a package that runs out of time says in which test",
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"panic: test timed out after 10m0s\n"}`,
				`{"Action":"output","Package":"q","Test":"TestC","Output":"=== RUN   TestC\n"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t600.1s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: "--- UNENDED: TestB\n=== RUN   TestB\npanic: test timed out after 10m0s\nFAIL\tp\t600.1s\n",
		},
		{
			doc:  "a package that does not build",
			in:   []string{`{"ImportPath":"p","Action":"build-output","Output":"p.go:1: no\n"}`, `{"ImportPath":"p","Action":"build-fail"}`, "FAIL p [build failed]"},
			want: "p.go:1: no\nFAIL p [build failed]\n",
		},
	} {
		var out strings.Builder
		if passed := report(strings.NewReader(strings.Join(c.in, "\n")), &out); passed != c.passed || out.String() != c.want {
			t.Errorf("%s: got %v\n%s\nwant %v\n%s", c.doc, passed, out.String(), c.passed, c.want)
		}
	}
}
