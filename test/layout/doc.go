// Package layout tests which packages are linked into which, and how much a type does: what a linter
// cannot see, as it looks at one file at a time.
//
// Its one invariant: it reads the module's own import graph and types, and nothing else.
//
// Do not use it for rules about direct imports: those are in .golangci.yml.
package layout
