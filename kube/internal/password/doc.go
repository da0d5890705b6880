// Package password has passwords of BGP be where the edge of a node reads them. It watches the Secrets that sessions of the node need, and
// keeps a file of each password.
//
// Its one invariant: a password is in such a file, and nowhere else; no message has one in it. It is not for other secrets: what a
// password may be is the rule of BGP's.
package password
