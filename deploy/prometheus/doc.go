// Package prometheus has alerts about edges and an example of a scrape, for Prometheus to load, and their tests.
//
// Its one invariant: every alert has a case in alerts_test.yaml in which it fires and one in which it does not, and a
// section of the run-book. It has no code.
package prometheus
