// Package support makes one archive of what a support engineer asks for: what edges say of themselves, the host, the
// kernel, and what happened.
//
// Its one invariant: nothing in an archive is a secret of a configuration, and no item may hold up the others: each has
// bounds of time and size, and an item that could not be had says why. It changes nothing, and walks no large table.
//
// Do not use it to decide what is wrong: that is package doctor's and the edges' own.
package support
