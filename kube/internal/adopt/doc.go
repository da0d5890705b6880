// Package adopt has objects of EgressGateway (spidernet) be served as they are: it follows them, keeps objects of Selvage's kinds that say
// the same, with the same addresses, and writes the status of theirs.
//
// Its one invariant: it changes nothing that it has not made, but the status of theirs and their gateways' finalizer; and it does nothing
// while that project's own controller or agents run.
//
// Do not use it to move to Selvage's kinds for good: that is importing, which it uses.
package adopt
