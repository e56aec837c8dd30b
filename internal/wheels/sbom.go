package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// bom is a software bill of materials: CycloneDX 1.6 in JSON. It has no time, and its serial
// number is made of its content: the same build has the same bytes.
type bom struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber,omitempty"`
	Version      int          `json:"version"`
	Metadata     bomMetadata  `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type bomMetadata struct {
	Component component `json:"component"`
}

// component is a package of software, or the file that was built.
type component struct {
	Type       string        `json:"type"`
	Ref        string        `json:"bom-ref"`
	Name       string        `json:"name"`
	Version    string        `json:"version"`
	Hashes     []bomHash     `json:"hashes,omitempty"`
	Licenses   []bomLicense  `json:"licenses"`
	URL        string        `json:"purl,omitempty"`
	Properties []bomProperty `json:"properties,omitempty"`
	Files      []component   `json:"components,omitempty"` // other binaries of the same parts
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// bomLicense has an SPDX expression.
type bomLicense struct {
	Expression string `json:"expression"`
}

type bomProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

// sbomName is the name of the file below the folder sboms of a wheel (PEP 770).
func (p pkg) sbomName() string { return p.name + ".cyclonedx.json" }

// sbom lists what a binary is made of: ours as the main component, and the components that it
// contains. version is of Python's kind. others are binaries that are made of the same, or of some.
func (p pkg) sbom(version string, binary []byte, parts []component, others ...entry) ([]byte, error) {
	main := component{
		Type: "application", Ref: "pkg:pypi/" + p.name + "@" + strings.ReplaceAll(version, "+", "%2B"), Name: p.name, Version: version,
		Hashes:   digest(binary),
		Licenses: []bomLicense{{"Apache-2.0"}},
	}
	main.URL = main.Ref
	for _, o := range others {
		main.Files = append(main.Files, component{Type: "file", Ref: o.name, Name: o.name, Version: version, Hashes: digest(o.data), Licenses: main.Licenses})
	}
	b := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: bomMetadata{main}, Components: parts, Dependencies: []dependency{{Ref: main.Ref}},
	}
	for _, c := range parts {
		b.Dependencies[0].On = append(b.Dependencies[0].On, c.Ref)
		b.Dependencies = append(b.Dependencies, dependency{Ref: c.Ref})
	}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	s := sha256.Sum256(text)
	s[6], s[8] = s[6]&0x0f|0x80, s[8]&0x3f|0x80 // version 8: of one's own making
	b.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", s[:4], s[4:6], s[6:8], s[8:10], s[10:16])
	text, err = json.MarshalIndent(b, "", " ")
	return append(text, '\n'), err
}

// digest is that of a file.
func digest(data []byte) []bomHash {
	return []bomHash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(data))}}
}

// contents returns the components of the command: Go's standard library and the modules, as
// the compiler wrote them into the binary, and the foreign files that it embeds. Each has the
// licence that is among those of the wheel.
func contents(binary []byte, licenses []entry) ([]component, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, err
	}
	std, err := library("std", "go", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/std", licenses)
	if err != nil {
		return nil, err
	}
	list := []component{std}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		c, err := library(d.Path, d.Path, d.Version, "pkg:golang/"+d.Path, licenses)
		if err != nil {
			return nil, err
		}
		c.Properties = []bomProperty{{"go:sum", d.Sum}}
		list = append(list, c)
	}
	for _, e := range embedded {
		c, err := e.component(licenses)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// component is the entry of foreign files.
func (f foreign) component(licenses []entry) (component, error) {
	version, err := f.version()
	if err != nil {
		return component{}, err
	}
	return library(f.name, path.Base(f.folder), version, "pkg:"+f.purl, licenses)
}

// library is the entry of what was compiled in. folder is that of its licence.
func library(name, folder, version, purl string, licenses []entry) (component, error) {
	id, err := licenseOf(folder, licenses)
	// The specification of package URLs asks for small letters, and for this escape.
	purl = strings.ToLower(purl) + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: "library", Ref: purl, Name: name, Version: version, Licenses: []bomLicense{{id}}, URL: purl}, err
}
