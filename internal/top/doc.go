// Package top is a live view of an edge in a terminal: ports, remotes and their paths, flows by rate, drops and who has
// them, BGP, and egress with its failovers. From a line, keys lead to the commands that tell more: trace, monitor, capture.
//
// Its one invariant: it asks the edge for one page at a time, never again before the answer has come, and holds no more than
// that answer and the one before. It changes nothing. Programs should use the API instead.
package top
