package listeners

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	// maxFile bounds what is read of a file, in bytes.
	maxFile = 1 << 20
	// leastToken is the least length of a token: shorter ones are guessed.
	leastToken = 16
	// maxTokens bounds those of one client.
	maxTokens = 16
)

// read reads a regular file. Opening anything else could wait for ever.
func read(path string) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, info.Mode(), err
}

// pair is a certificate with its key, and whose client certificates are accepted. It is never changed.
type pair struct {
	hash  [sha256.Size]byte // of the files
	leaf  *x509.Certificate
	roots *x509.CertPool // nil: clients have no certificates
	tls   *tls.Config
}

// sum is that of files, one after the other.
func sum(texts ...[]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, text := range texts {
		one := sha256.Sum256(text)
		h.Write(one[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// readFiles reads those of a listener.
func readFiles(t overlay.ServerTLS) (certificate, key, ca []byte, err error) {
	certificate, _, err = read(t.Certificate)
	if err != nil {
		return nil, nil, nil, err
	}
	if key, _, err = read(t.Key); err != nil {
		return nil, nil, nil, err
	}
	if t.ClientCA != "" {
		ca, _, err = read(t.ClientCA)
	}
	return certificate, key, ca, err
}

// loadPair refuses what clients would refuse.
func loadPair(t overlay.ServerTLS, now time.Time) (*pair, error) {
	certificate, key, ca, err := readFiles(t)
	if err != nil {
		return nil, err
	}
	return newPair(t, certificate, key, ca, now)
}

func newPair(t overlay.ServerTLS, certificate, key, ca []byte, now time.Time) (*pair, error) {
	cert, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", t.Certificate, t.Key, err)
	}
	p := &pair{hash: sum(certificate, key, ca), leaf: cert.Leaf}
	if p.leaf == nil {
		return nil, fmt.Errorf("%s has no certificate", t.Certificate)
	}
	if now.After(p.leaf.NotAfter) {
		return nil, fmt.Errorf("%s: the certificate ended at %s: get another one", t.Certificate, p.leaf.NotAfter.UTC().Format(time.DateTime))
	}
	p.tls = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if t.ClientCA == "" {
		return p, nil
	}
	p.roots = x509.NewCertPool()
	if !p.roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", t.ClientCA)
	}
	p.tls.ClientCAs, p.tls.ClientAuth = p.roots, tls.VerifyClientCertIfGiven
	return p, nil
}

// tokens are those of one client, as hashes. They are never changed.
type tokens struct {
	hash   [sha256.Size]byte // of the file
	sums   [][sha256.Size]byte
	public bool // other users may read the file
}

func loadTokens(path string) (*tokens, error) {
	text, mode, err := read(path)
	if err != nil {
		return nil, err
	}
	t := &tokens{hash: sum(text), public: mode&0o004 != 0}
	for line := range bytes.Lines(text) {
		token := bytes.TrimSpace(line)
		switch {
		case len(token) == 0:
			continue
		case len(token) < leastToken:
			return nil, fmt.Errorf("%s: a token has %d bytes, and is to have %d or more: openssl rand -hex 32 makes one", path, len(token), leastToken)
		}
		t.sums = append(t.sums, sha256.Sum256(token))
	}
	switch {
	case len(t.sums) == 0:
		return nil, errors.New(path + " has no token: openssl rand -hex 32 makes one")
	case len(t.sums) > maxTokens:
		return nil, fmt.Errorf("%s has %d tokens, at most %d", path, len(t.sums), maxTokens)
	}
	return t, nil
}
