// Package event keeps what happened to an edge: a bounded number of typed events that anybody may add to, read
// and follow.
//
// Its one invariant: to add an event is never to wait, and events have numbers without gaps, so whoever follows them
// knows how many were missed. One call makes the event and the log line of it: a line of a slog.Logger with the
// attribute Is, by a Handler.
//
// Do not use it for what lasts (package problem), for what is counted, nor for what happens with each packet.
package event
