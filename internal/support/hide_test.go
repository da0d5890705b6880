package support

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/pseudonym"
)

// Canaries in all forms in which secrets are met do not come through; what is no secret does.
func TestHide(t *testing.T) {
	h := &hider{}
	h.learn("CANARY-known", `CANARY"quoted`, "it's CANARY-single", "CANARY-first\nCANARY-second\n")
	for _, text := range []string{
		"password: CANARY-known", "a line with CANARY-known within", `{"x": "CANARY\"quoted"}`, "'it''s CANARY-single'", "CANARY-first", "  CANARY-second",
		"password: CANARYx", `"password": "CANARY x"`, "BGP_PASSWORD=CANARYx", "tokens = 'CANARY x'", "Authorization: Bearer CANARYCANARY", "api-key: CANARYx",
		"-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nCANARY cut off",
		"https://user:CANARYx@example.net/", "--token=CANARYx", "Client_Secret: CANARYx", "x\tsecret\t:\tCANARYx", `"private_key":"CANARY\"x"`, "Authorization: Basic CANARYCANARY",
	} {
		if got := h.text(text); strings.Contains(got, "CANARY") {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, kept := range []string{
		`"tokens": 5`, "passwordFile: /etc/selvage/pw", "port p0: token bucket", "the key of a map", "10.0.0.1", `{"secret":true}`, "https://example.net/a:b@c",
	} {
		if got := h.text(kept); got != kept {
			t.Errorf("%q became %q", kept, got)
		}
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(h.text(`{"password": "CANARY \"x", "n": 1}`)), &document); err != nil || document["password"] != hidden {
		t.Errorf("%v, %v", document, err)
	}
}

// With pseudonyms one address is one word everywhere.
func TestAnonymize(t *testing.T) {
	h := &hider{names: pseudonym.New(nil)}
	h.names.Name("host", "gw-berlin")
	got := h.text("gw-berlin has 10.1.2.3/24 and fd00::7 at 02:00:00:00:00:0a") + h.text(" as 10.1.2.3:179 [fd00::7]:179")
	if got != "host-1 has ipv4-1/24 and ipv6-1 at mac-1 as ipv4-1:179 [ipv6-1]:179" {
		t.Error(got)
	}
}
