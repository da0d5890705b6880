package place

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Place{
		"ns:blue":                  {Kind: Namespace, Name: "blue"},
		"ssh:lab1":                 {Kind: SSH, Host: "lab1"},
		"ssh:root@lab1:2222":       {Kind: SSH, User: "root", Host: "lab1", Port: 2222},
		"ssh:me@corp@lab1":         {Kind: SSH, User: "me@corp", Host: "lab1"},
		"ssh:[fd00::1]":            {Kind: SSH, Host: "fd00::1"},
		"ssh:root@[fe80::1%e0]:22": {Kind: SSH, User: "root", Host: "fe80::1%e0", Port: 22},
		"pid:4711":                 {Kind: Process, PID: 4711},
		"addr:192.0.2.1":           {Kind: Address, Addr: netip.MustParseAddr("192.0.2.1")},
		"addr:2001:db8::1":         {Kind: Address, Addr: netip.MustParseAddr("2001:db8::1")},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
}

// An error names the place and says what to write.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "write ns:NAME",
		"lab1":                   "has no kind",
		"tcp:lab1":               `no kind "tcp"`,
		"ns:":                    "ns:NAME",
		"ns:../1":                "ns:NAME",
		"ssh:":                   "ssh:[USER@]HOST[:PORT]",
		"ssh:-oProxyCommand=x":   "is no host",
		"ssh:a b":                "is no host",
		"ssh:$(id)":              "is no host",
		"ssh:-l@lab1":            "is no user's name",
		"ssh:lab1:":              "no port after the colon",
		"ssh:lab1:ssh":           "from 1 to 65535",
		"ssh:lab1:70000":         "from 1 to 65535",
		"ssh:fd00::1":            "ssh:[fd00::1]",
		"ssh:[fd00::1":           "is not closed",
		"ssh:[lab1]":             "is no IPv6 address",
		"ssh:[fd00::1]22":        "is no port",
		"ssh:[fe80::1%$(id)]:22": "is no IPv6 address",
		"pid:0":                  "by its number",
		"pid:self":               "by its number",
		"addr:lab1":              "by its IPv4 or IPv6 address",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Whose password is asked for is what the user named. What the far end calls itself is quoted.
func TestPasswordPrompt(t *testing.T) {
	ssh := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(ssh, []byte("#!/bin/sh\nprintf 'selvage-place x86_64 root@prod-db\\033[2J\\n'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	prompt, enough := "", errors.New("enough")
	_, err := Open(t.Context(), Place{Kind: SSH, Host: "lab1"}, Options{SSH: []string{ssh}, Sudo: SudoPassword, Password: func(text string) (string, error) {
		prompt = text
		return "", enough
	}})
	if want := `password for sudo at ssh:lab1, which calls itself "root@prod-db�[2J": `; prompt != want || !errors.Is(err, enough) {
		t.Errorf("%q, %v", prompt, err)
	}
}

// What is read is written as what reads as the same, and never begins with what ssh takes for
// an option.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"ns:a", "ssh:u@[::1]:22", "ssh:a:1", "pid:1", "addr:[::1]", "addr:1.2.3.4", "ssh:@", ":"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(p.String())
		if err != nil || again != p {
			t.Errorf("%q is %+v, and %q %+v, %v", text, p, p, again, err)
		}
		if strings.HasPrefix(p.Host, "-") || strings.HasPrefix(p.User, "-") || strings.ContainsAny(p.Host+p.User, " \t\n$`'\"\\;|&<>()") {
			t.Errorf("%q: user %q, host %q", text, p.User, p.Host)
		}
	})
}
