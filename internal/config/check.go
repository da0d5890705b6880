package config

import (
	"fmt"
	"net/netip"
)

// checkDocument compares the fields of a document with each other. A field that was
// missing or did not decode is zero, already reported, and not compared.
func checkDocument(file *fileErrors, doc *document, policies []policySource) *groupChecker {
	d := declared{file, doc, each(doc.Spec.Ports, port.members)}
	endpoints := underlayChecker{file, doc}
	endpoints.check()
	interfaceChecker{file, doc}.check()
	nameChecker{file, doc}.check()
	remoteChecker{file, doc}.check()
	endpoints.pins()
	tunnelChecker{file, doc}.check()
	segmentChecker{file, doc, d}.check()
	routerChecker{file, doc, d}.check()
	portChecker{file, doc, d}.check()
	portPatternChecker{file, doc, d}.check()
	limitChecker{file, doc, d}.check()
	members := newMemberChecker(d)
	groups := checkFirewall(d, members, policies)
	egressChecker{file, doc, d, members}.check()
	poolChecker{file, doc, d}.check()
	portForwardChecker{file, doc, d}.check()
	evpnChecker{file, doc}.check()
	bgpChecker{file, doc, d}.check()
	checkHTTP(file, doc.Spec.HTTP)
	return groups
}

// unique knows the path of every value and reports one that comes again.
type unique[T comparable] map[T]string

func (u unique[T]) add(file *fileErrors, value, zero T, path, message, hint string) {
	if value == zero {
		return
	}
	first, twice := u[value]
	if !twice {
		u[value] = path
		return
	}
	file.problem(path, fmt.Sprintf("%s (%s)", message, file.place(path, first)), hint)
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
