package plan

import (
	"cmp"
	"slices"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Password is what a node has of one of BGP.
type Password struct {
	File string // which the edge reads; "" where there is none
	// Problem is why the file is not what the Secret has, "" when it is.
	Problem string
}

// Passwords are what became of those that sessions of a plan need.
type Passwords struct {
	Files   []string // that the edge's file names
	Problem string   // of one of them, "" when there is none
	// Missing has the edge go on with the configuration that it has: a session without its password is no session of the plan.
	Missing bool
}

// PasswordsOf are the passwords that sessions of a node need.
func PasswordsOf(in Input) (list []v1alpha1.SecretKey, err error) {
	if !slices.ContainsFunc(in.Gateways, func(g v1alpha1.EgressGateway) bool { return NeedsPassword(&g) }) {
		return nil, nil // so that most nodes do not look at all others for it
	}
	m, err := newMaker(in)
	if err != nil {
		return nil, err
	}
	for i := range in.Gateways {
		g := &in.Gateways[i]
		if !m.isMember(g) {
			continue
		}
		sessions, _ := m.sessions(g)
		for _, s := range sessions {
			if s.PasswordSecret.Name != "" {
				list = append(list, s.PasswordSecret)
			}
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.SecretKey) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return slices.Compact(list), nil
}

// NeedsPassword reports whether a session of a gateway has a password.
func NeedsPassword(g *v1alpha1.EgressGateway) bool {
	b := g.Spec.Uplink.BGP
	return b != nil && slices.ContainsFunc(b.Neighbours, func(n v1alpha1.BGPNeighbour) bool { return n.PasswordSecret.Name != "" })
}

// password is the file with the one of a session.
func (m *maker) password(key v1alpha1.SecretKey) string {
	has, is := m.in.Passwords[key]
	if !is {
		has.Problem = "Secret " + key.String() + " has not been read yet"
	}
	m.passwords.Problem = cmp.Or(m.passwords.Problem, has.Problem)
	if has.File == "" {
		m.passwords.Missing = true
	} else if !slices.Contains(m.passwords.Files, has.File) {
		m.passwords.Files = append(m.passwords.Files, has.File)
	}
	return has.File
}
