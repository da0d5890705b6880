package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const testKey = "sixteen bytes are"

// withSecrets is an edge with a neighbour and a group.
func withSecrets(neighbour, replication string) string {
	return under + "  bgp: {as: 65000, neighbours: [{name: n, address: 192.0.2.10, " + neighbour + "}]}\n" +
		"  egress: {gateways: [{name: g, members: [a], replication: {" + replication + "}}]}\n"
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	written(t, dir, "bgp", "geheim\n", 0o600)
	written(t, dir, "key", testKey+"\r\n", 0o600)
	edge := written(t, dir, "edge.yaml", withSecrets("passwordFile: bgp", "keyFile: "+filepath.Join(dir, "key")), 0o644)
	got, err := Load(edge)
	if err != nil {
		t.Fatal(err)
	}
	if p, k := got.BGP.Neighbours[0].Password, string(got.Egress.Gateways[0].Replication.Key); p != "geheim" || k != testKey {
		t.Errorf("password %q, key %q", p, k)
	}
	if len(got.Warnings) > 0 {
		t.Errorf("it warns: %q", got.Warnings)
	}
	// A changed file is what the next look finds.
	written(t, dir, "bgp", "anders", 0o600)
	if got, err = Load(edge); err != nil || got.BGP.Neighbours[0].Password != "anders" {
		t.Errorf("after a change: %v", err)
	}
	// A service has credentials of its own, and the rest beside the configuration.
	t.Setenv(credentialsVariable, t.TempDir())
	written(t, os.Getenv(credentialsVariable), "bgp", "of systemd", 0o400)
	if got, err = Load(edge); err != nil || got.BGP.Neighbours[0].Password != "of systemd" || string(got.Egress.Gateways[0].Replication.Key) != testKey {
		t.Errorf("with credentials: %v", err)
	}
}

func TestSecretErrors(t *testing.T) {
	dir := t.TempDir()
	written(t, dir, "short", "geheim", 0o600)
	written(t, dir, "long", strings.Repeat("x", maxSecretFile+1), 0o600)
	written(t, dir, "lines", "geheim\ngeheim\n", 0o600)
	written(t, dir, "empty", "\n", 0o600)
	const noFile = "; give the path of a file that can be read, relative to the directory of this file or to $CREDENTIALS_DIRECTORY"
	for _, c := range []struct{ neighbour, replication, want string }{
		{"passwordFile: lines", "", `6:78: spec.bgp.neighbours[0].passwordFile: lines: the password has a control character or spans lines; write it in one line, in quotes`},
		{"passwordFile: empty", "", `6:78: spec.bgp.neighbours[0].passwordFile: empty: the password is empty; write a long random word, or remove the line`},
		{"passwordFile: nowhere", "", `6:78: spec.bgp.neighbours[0].passwordFile: open nowhere: no such file or directory` + noFile},
		{"passwordFile: .", "", `6:78: spec.bgp.neighbours[0].passwordFile: . is a directory, not a regular file` + noFile},
		{"passwordFile: short, password: geheim", "", `6:78: spec.bgp.neighbours[0].passwordFile: the secret is already in the configuration (spec.bgp.neighbours[0].password); keep one of both`},
		{`passwordFile: ""`, "", `6:78: spec.bgp.neighbours[0].passwordFile: the path is empty; give the path of a file that holds the secret alone`},
		{"", "keyFile: short", `7:70: spec.egress.gateways[0].replication.keyFile: short: the key has 6 bytes, not 16 to 1024; openssl rand -base64 32 makes one`},
		{"", "keyFile: long", `7:70: spec.egress.gateways[0].replication.keyFile: long has more than 4096 bytes; give a file that holds the secret alone`},
		{"", "key: geheim", `7:66: spec.egress.gateways[0].replication.key: the key has 6 bytes, not 16 to 1024; openssl rand -base64 32 makes one`},
		{"", "key: geheim, keyFile: short", `7:66: spec.egress.gateways[0].replication.key: the key has 6 bytes, not 16 to 1024; openssl rand -base64 32 makes one`},
	} {
		_, err := Load(written(t, dir, "edge.yaml", withSecrets(c.neighbour, c.replication), 0o600))
		if err == nil {
			t.Errorf("%s %s: it is taken", c.neighbour, c.replication)
			continue
		}
		lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(err.Error(), dir+"/", ""), dir, "."), "\n")
		if !slices.Contains(lines, "edge.yaml:"+c.want) {
			t.Errorf("got\n%s\nwant\nedge.yaml:%s", strings.Join(lines, "\n"), c.want)
		}
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("the secret is in %v", err)
		}
	}
	if _, err := Parse("edge.yaml", []byte(withSecrets("passwordFile: short", ""))); err == nil || !strings.Contains(err.Error(), "a file cannot be read here; write the secret itself") {
		t.Errorf("without a directory: %v", err)
	}
}

// A secret that others may read is no error, but said.
func TestSecretWarnings(t *testing.T) {
	dir := t.TempDir()
	bgp := written(t, dir, "bgp", "geheim\n", 0o644)
	for _, c := range []struct {
		neighbour string
		mode      os.FileMode
		want      []string
	}{
		{"passwordFile: bgp", 0o644, []string{bgp + " holds a secret, and other users may read it: chmod o-r " + bgp}},
		{"password: geheim", 0o600, nil},
		{"password: geheim", 0o640, nil},
		{"", 0o644, nil},
		{"password: geheim", 0o644, []string{fmt.Sprintf("%[1]s holds a secret (spec.bgp.neighbours[0].password), and other users may read it: chmod o-r %[1]s, or put the secret into a file of its own",
			filepath.Join(dir, "edge.yaml"))}},
	} {
		got, err := Load(written(t, dir, "edge.yaml", withSecrets(c.neighbour, ""), c.mode))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Warnings, c.want) {
			t.Errorf("%s %o: warns %q, want %q", c.neighbour, c.mode, got.Warnings, c.want)
		}
	}
}
