// Package packages tests what users install: manual pages and completion, versions, packages, images, the
// notes of a release and go install.
//
// Its one invariant: the tools of distributions judge (mandoc, dpkg, apt, rpm, lintian, skopeo, the Go
// command), not code of ours. What systemd does with an installed package is in test/boot.
package packages
