// Package metrics shows what is counted to scrapers, by prometheus/client_golang, which nothing else imports.
//
// Its one invariant: a scrape waits for nobody. It shows pages that were read before, and instruments that are counted
// where things happen; it walks no table and asks nothing.
//
// Do not use it to decide what is counted (package apiserver reads the pages of an edge), nor for documents of the API.
package metrics
