// Package grafana describes the dashboards of an edge, and writes them as the JSON files that Grafana imports.
//
// Its one invariant: every panel says what it shows and what to do about it.
//
// It is built with Grafana's own types (grafana-foundation-sdk), of which it is the one importer. No program of
// Selvage but write links it.
package grafana
