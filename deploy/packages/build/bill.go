package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill adds what an image has of Debian to its program's SBOM, which there is already, and what is known here of Selvage's own module.
func (s source) bill(out, program, arch string) error {
	path := filepath.Join(out, fmt.Sprintf("%s_%s_%s.cdx.json", program, s.version, arch))
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	p, debs, err := s.debian(arch)
	if err != nil {
		return err
	}
	components := *bom.Components
	for i, c := range components {
		if c.Name == ours {
			components[i].Version, components[i].PackageURL = "v"+s.version, strings.Replace(c.PackageURL, "@"+c.Version, "@v"+url.QueryEscape(s.version), 1)
			components[i].Evidence = &cdx.Evidence{Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}
		}
	}
	for _, d := range debs {
		c, err := p.component(d)
		if err != nil {
			return err
		}
		components = append(components, c)
	}
	bom.Components = &components
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := cdx.NewBOMEncoder(to, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(&bom); err != nil {
		return err
	}
	return to.Close()
}

// component is a package in an SBOM, with where it and its source are forever.
func (p pins) component(d deb) (c cdx.Component, err error) {
	names, err := d.licenses()
	if err != nil {
		return c, err
	}
	var licenses cdx.Licenses
	for _, name := range names {
		licenses = append(licenses, cdx.LicenseChoice{License: &cdx.License{Name: name}})
	}
	purl := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", d.fields["Package"], url.QueryEscape(d.fields["Version"]), d.fields["Architecture"])
	return cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: d.fields["Package"], Version: d.fields["Version"], PackageURL: purl,
		Hashes:             &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: d.sum}},
		Evidence:           &cdx.Evidence{Licenses: &licenses},
		ExternalReferences: &[]cdx.ExternalReference{{Type: cdx.ERTypeDistribution, URL: p.urls(d.pin)[1], Comment: "Its source is beside it."}},
	}, nil
}
