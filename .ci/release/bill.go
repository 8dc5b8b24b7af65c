package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The parts of an SPDX 2.3 document that a list of modules needs.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"name"`
		Version   string         `json:"versionInfo"`
		Location  string         `json:"downloadLocation"`
		Analyzed  bool           `json:"filesAnalyzed"`
		License   string         `json:"licenseConcluded"`
		Copyright string         `json:"copyrightText"`
		Refs      []spdxExternal `json:"externalRefs,omitempty"`
		Comment   string         `json:"comment,omitempty"`
	}
	spdxExternal struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// bill writes the modules in the programs of the release, as the programs themselves
// list them.
func (r *release) bill(to string) ([]byte, error) {
	type module struct{ version, sum string }
	found := map[string]module{}
	err := filepath.WalkDir(r.path("bin"), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(at, ".hcl") {
			return err
		}
		info, err := buildinfo.ReadFile(at)
		if err != nil {
			return err
		}
		found["stdlib"] = module{version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			found[dep.Path] = module{version: dep.Version, sum: dep.Sum}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	const root = "SPDXRef-ferment"
	none := "NOASSERTION"
	doc := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "ferment-" + r.version,
		Namespace: fmt.Sprintf("urn:ferment:spdx:%s:%s:%d", r.version, r.arch, r.at.Unix()),
		Creation:  spdxCreation{r.at.Format(time.RFC3339), []string{"Tool: ferment-release"}},
		Packages: []spdxPackage{{ID: root, Name: "ferment", Version: r.version, Location: none, License: none, Copyright: none,
			Refs: []spdxExternal{{"PACKAGE-MANAGER", "purl", "pkg:golang/github.com/fermenthq/ferment@" + r.version}}}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root}},
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		m, id := found[name], fmt.Sprintf("SPDXRef-%d", i+1)
		p := spdxPackage{ID: id, Name: name, Version: m.version, Location: none, License: none, Copyright: none, Comment: m.sum,
			Refs: []spdxExternal{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + name + "@" + m.version}}}
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, spdxRelationship{root, "DEPENDS_ON", id})
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	return text, os.WriteFile(to, text, 0o644)
}
