package replica

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"time"
)

// protocol names in TLS (ALPN, RFC 7301) what is spoken inside. Another number is another
// protocol; a build that speaks several offers them all.
const protocol = "selvage-replication/2"

// oldMagic begins all that builds sent that did not use TLS. oldAnswer is a header of theirs
// with the version 2, which they refuse with the advice to run the same release.
const (
	oldMagic  = "SLVR"
	oldAnswer = oldMagic + "\x02\x01\x00\x00\x00\x00\x00\x00"
)

// identity is the key pair of one end of a link. It is derived from the key of the configuration, from
// which end it is, and from the addresses: what one end proves cannot be used as the other's, nor between others.
func identity(key []byte, from, to netip.Addr, port uint16, listens bool) (ed25519.PrivateKey, error) {
	end := "dialer"
	if listens {
		end = "listener"
	}
	seed, err := hkdf.Key(sha256.New, key, nil, fmt.Sprintf("%s %s %s %s %d", protocol, end, from, to, port), ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive the key of the %s: %w", end, err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// certificate holds a public key, and nothing that anybody looks at.
func certificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// tlsConfig is that of this end of l. Each end knows which public key the other one has: there is no authority, and
// no name or date counts. Without a key in the configuration anybody can derive both, and TLS keeps out only who listens.
func tlsConfig(l Link) (*tls.Config, error) {
	listens := !l.dials()
	mine, err := identity(l.Key, l.Local, l.Remote, l.Port, listens)
	if err != nil {
		return nil, err
	}
	theirs, err := identity(l.Key, l.Remote, l.Local, l.Port, !listens)
	if err != nil {
		return nil, err
	}
	keyless, err := identity(nil, l.Remote, l.Local, l.Port, !listens)
	if err != nil {
		return nil, err
	}
	own, err := certificate(mine)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocol}, Certificates: []tls.Certificate{own},
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does, by the key alone
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			switch {
			case s.NegotiatedProtocol != protocol:
				return errOtherVersion
			case isKey(s, theirs):
				return nil
			case isKey(s, keyless) || len(l.Key) == 0:
				return &refused{OtherKey, "only one of both has a key" + sameKey}
			}
			return &refused{OtherKey, "it has another key" + sameKey}
		},
	}, nil
}

// isKey reports whether the other end has proven that it has the key.
func isKey(s tls.ConnectionState, key ed25519.PrivateKey) bool {
	if len(s.PeerCertificates) == 0 {
		return false
	}
	got, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	want, _ := key.Public().(ed25519.PublicKey)
	return ok && subtle.ConstantTimeCompare(got, want) == 1
}

// secured is a connection in TLS. Close says no farewell, which would wait for an end that takes nothing.
type secured struct{ *tls.Conn }

func (s secured) Close() error { return s.NetConn().Close() }

// shake is the handshake: TLS, then each end says which records it has. What is refused is a *refused.
func shake(c net.Conn, config *tls.Config, format Format, listens bool) (net.Conn, error) {
	if err := c.SetDeadline(time.Now().Add(shakeTimeout)); err != nil {
		return nil, err
	}
	conn := tls.Client(c, config)
	if listens {
		conn = tls.Server(c, config)
	}
	err := conn.Handshake()
	if err == nil {
		err = greet(conn, format)
	}
	if err == nil {
		return secured{conn}, nil
	}
	err = explain(err)
	if listens && errors.Is(err, errOldBuild) {
		_, _ = io.WriteString(c, oldAnswer) // it is refused anyway
	}
	return nil, err
}
