package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// nameMost is how long an edge lets a name be.
const nameMost = 63

// edgeName is a name that an edge takes, for an object of Kubernetes: a letter that keeps kinds apart, then its words. Names
// are lower case there, with dots and hyphens, so that a "_" between words is unambiguous. A name that is too long
// ends in a part of its hash.
func edgeName(kind string, words ...string) string {
	name := kind + "_" + strings.Join(words, "_")
	if len(name) <= nameMost {
		return name
	}
	end := "_" + hashed(name)
	return name[:nameMost-len(end)] + end
}

// ShortKey is what of a policy's key a comment of nftables has room for.
func ShortKey(key string) string { return key[:min(len(key), 127)] }

// Kinds of names that the edge has for policies.
const (
	ofPolicy        = "p"
	ofClusterPolicy = "c"
)

// PolicyName is a policy's name at edges.
func PolicyName(namespace, name string) string {
	if namespace == "" {
		return edgeName(ofClusterPolicy, name)
	}
	return edgeName(ofPolicy, namespace, name)
}

// IsPolicy reports whether a name of the edge is one of a policy, and of its group.
func IsPolicy(name string) bool {
	kind, _, _ := strings.Cut(name, "_")
	return kind == ofPolicy || kind == ofClusterPolicy
}

// EdgeName is the name of a node's edge, and of the node as a remote of others: the node's own where that is a DNS label, as an
// edge's name has to be; else its first label and a part of its hash.
func EdgeName(node string) string {
	if label.MatchString(node) {
		return node
	}
	end := "-" + hashed(node)
	first, _, _ := strings.Cut(node, ".")
	return "n-" + strings.TrimRight(first[:min(len(first), nameMost-len(end)-2)], "-") + end
}

// word is what names of an edge consist of.
var word = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// label is a DNS label that begins with a letter, as names of an edge do.
var label = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

func hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])[:16]
}
