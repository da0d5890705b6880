// Package grafana has the dashboards of an edge, as they are described here and as the JSON files beside it that
// Grafana imports.
//
// Its one invariant: the files are what Files makes of the descriptions; `go test ./deploy/grafana -update` writes
// them. Every panel says what it shows and what to do about it.
//
// It is built with Grafana's own types (grafana-foundation-sdk), of which it is the one importer. No program of
// Selvage links it.
package grafana
