package cli

import (
	"strings"
	"testing"
)

// A command that top starts asks the same edge as the same client.
func TestFlagsFor(t *testing.T) {
	for want, of := range map[string]target{
		"--edge a --runtime-dir /run/selvage":          {runtimeDir: runtimeDir{RuntimeDir: "/run/selvage"}},
		"--address https://192.0.2.1:9470 --ca ca.pem": {remoteFlags: remoteFlags{Address: "https://192.0.2.1:9470", CA: "ca.pem"}},
		"--address https://192.0.2.1:9470 --cert c.pem --key c.key": {remoteFlags: remoteFlags{
			Address: "https://192.0.2.1:9470", Cert: "c.pem", Key: "c.key",
		}},
	} {
		if got := strings.Join(of.flagsFor("a"), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
