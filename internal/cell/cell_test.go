package cell

import "testing"

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"conv1/weight":              "conv1/weight",
		"":                          "",
		`=HYPERLINK("http://x")`:    `'=HYPERLINK("http://x")`,
		"@SUM(A1)":                  "'@SUM(A1)",
		"+1+cmd|' /C calc'!A0":      "'+1+cmd|' /C calc'!A0",
		"-":                         "'-",
		"-a":                        "'-a",
		"\t=1":                      "'\t=1",
		"\r=1":                      "'\r=1",
		"-12":                       "-12",
		"+1.5e-3":                   "+1.5e-3",
		"-1-1":                      "'-1-1",
		"'quoted'":                  "'quoted'",
		"'=1":                       "''=1", // or the way back would take an apostrophe that was there
		"''=1":                      "'''=1",
		"'-1":                       "'-1",
		"a=b":                       "a=b",
		"\u00e9=":                   "\u00e9=",
		"=\xff":                     "'=\xff",
		"-0x10":                     "'-0x10",
		"+Inf":                      "'+Inf",
		"-1_000":                    "'-1_000",
		"\uff1dSUM(1)":              "'\uff1dSUM(1)",
		"--1":                       "'--1",
		"/model/layer.0/attn=query": "/model/layer.0/attn=query",
	} {
		got := Text(s)
		if got != want {
			t.Errorf("Text(%q) = %q, want %q", s, got, want)
		}
		if back := Name(got); back != s {
			t.Errorf("Name(%q) = %q, want %q", got, back, s)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"=1", "''=1", "-1", "\t", "a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cell := Text(s)
		if Name(cell) != s {
			t.Errorf("%q comes back from %q as %q", s, cell, Name(cell))
		}
		if cell != "" && cell[0] != '\'' && isFormula(cell) {
			t.Errorf("%q is a formula", cell)
		}
	})
}
