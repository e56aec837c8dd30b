package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// terms are what licences say, in one line with single spaces, and their SPDX identifiers.
var terms = []struct {
	says *regexp.Regexp
	id   string
}{
	{regexp.MustCompile(`Apache License,? Version 2\.0`), "Apache-2.0"},
	{regexp.MustCompile(`free and unencumbered software released into the public domain`), "Unlicense"},
	{regexp.MustCompile(`free of charge, to any person obtaining a copy .{1,80} to deal in the Software`), "MIT"},
	{regexp.MustCompile(`free of charge, to any person obtaining a copy .{1,80} to deal with the Software`), "NCSA"},
	{regexp.MustCompile(`free of charge, to any person or organization obtaining a copy of the software and accompanying documentation`), "BSL-1.0"},
	{regexp.MustCompile(`Permission to use, copy, modify, and(/or)? distribute this software for any purpose`), "ISC"},
	{regexp.MustCompile(`Permission to use, copy, modify, and distribute this software and its documentation for any purpose and without fee`), "HPND"},
	{regexp.MustCompile(`Permission is granted to anyone to use this software for any purpose, including commercial applications`), "Zlib"},
	{regexp.MustCompile(`Zope Public License \(ZPL\) Version 2\.1`), "ZPL-2.1"},
}

// The licences of BSD begin alike, and differ in the conditions before their disclaimers.
var (
	conditionsOfBSD = regexp.MustCompile(`Redistribution and use in source and binary forms.*?( IS PROVIDED |$)`)
	advertising     = regexp.MustCompile(`All advertising materials mentioning`)
	endorsement     = regexp.MustCompile(`to endorse or promote`)
	// margin is what lies between words: space, and the stars of a comment.
	margin = regexp.MustCompile(`(\s+\*)*\s+`)
)

// licenseOf returns the SPDX expression of the licences in a folder of the wheel's licences:
// AND joins all whose terms are there, of which each holds for a part.
func licenseOf(folder string, licenses []entry) (string, error) {
	var names, ids []string
	for _, l := range licenses {
		if path.Dir(l.name) == folder {
			names = append(names, l.name)
			ids = append(ids, licensesOfText(margin.ReplaceAllString(string(l.data), " "))...)
		}
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > 0 {
		return strings.Join(ids, " AND "), nil
	}
	slices.Sort(names)
	return "", fmt.Errorf("%s: licence %q: expected one that internal/wheels/terms.go knows", folder, names)
}

// licensesOfText lists the licences of a text in one line.
func licensesOfText(text string) (ids []string) {
	for _, t := range terms {
		if t.says.MatchString(text) {
			ids = append(ids, t.id)
		}
	}
	for _, conditions := range conditionsOfBSD.FindAllString(text, -1) {
		switch {
		case advertising.MatchString(conditions) && strings.Contains(text, "OpenSSL License"):
			ids = append(ids, "OpenSSL") // of two parts
		case advertising.MatchString(conditions):
			ids = append(ids, "BSD-4-Clause")
		case endorsement.MatchString(conditions):
			ids = append(ids, "BSD-3-Clause")
		default:
			ids = append(ids, "BSD-2-Clause")
		}
	}
	return ids
}
