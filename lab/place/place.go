// Package place says where an instrument runs, and opens a session with an agent there.
//
// Its one invariant: it leaves nothing at a place, however a session ends: the agent and the
// shell that started it remove what they made, and after a SIGKILL of both Restore does. What
// the agent does is lab/agent; do not measure or judge here.
package place

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Kind is how a place is reached.
type Kind string

// The kinds of places.
const (
	Namespace Kind = "ns"   // a network namespace of this machine, by its name for ip netns
	SSH       Kind = "ssh"  // another machine, by the user's own ssh program
	Process   Kind = "pid"  // the network namespace of a process: a container or pod
	Address   Kind = "addr" // a device that packets only pass through: it can run nothing
)

// Place is where an instrument runs: ns:NAME, ssh:[USER@]HOST[:PORT], pid:N or addr:ADDRESS.
type Place struct {
	Kind Kind
	Name string // of a namespace
	User string // of SSH; empty is what ssh's configuration says
	Host string // of SSH, without brackets; a name may be one of ssh's configuration
	Port int    // of SSH; 0 is what ssh's configuration says
	PID  int
	Addr netip.Addr
}

// forms are for messages.
const forms = "write ns:NAME, ssh:[USER@]HOST[:PORT], pid:N or addr:ADDRESS"

// Parse reads what String writes.
func Parse(text string) (Place, error) {
	kind, rest, found := strings.Cut(text, ":")
	if !found {
		return Place{}, fmt.Errorf("place %q has no kind: %s", text, forms)
	}
	var p Place
	var err error
	switch Kind(kind) {
	case Namespace:
		p, err = parseNamespace(rest)
	case SSH:
		p, err = parseSSH(rest)
	case Process:
		p, err = parseProcess(rest)
	case Address:
		p, err = parseAddress(rest)
	default:
		return Place{}, fmt.Errorf("place %q: there is no kind %q: %s", text, kind, forms)
	}
	if err != nil {
		return Place{}, fmt.Errorf("place %q: %w", text, err)
	}
	p.Kind = Kind(kind)
	return p, nil
}

func parseNamespace(name string) (Place, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return Place{}, errors.New("a namespace is named as ip netns lists it: ns:NAME")
	}
	return Place{Name: name}, nil
}

func parseProcess(text string) (Place, error) {
	const most = 1 << 22 // PID_MAX_LIMIT
	pid, err := strconv.Atoi(text)
	if err != nil || pid < 1 || pid > most {
		return Place{}, fmt.Errorf("a process is named by its number, from 1 to %d: pid:N", most)
	}
	return Place{PID: pid}, nil
}

func parseAddress(text string) (Place, error) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		return Place{}, errors.New("a device is named by its IPv4 or IPv6 address: addr:ADDRESS")
	}
	return Place{Addr: addr}, nil
}

// Names that ssh and the shells of its configuration take for nothing else: no option, no
// word of a shell.
var (
	userPattern = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.+@-]*$`)
	hostPattern = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*$`)
	zonePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]*$`)
)

func parseSSH(text string) (p Place, err error) {
	rest := text
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		p.User, rest = text[:at], text[at+1:]
		if !userPattern.MatchString(p.User) {
			return p, fmt.Errorf("%q is no user's name: ssh:USER@HOST", p.User)
		}
	}
	host := hostAndPort
	if strings.HasPrefix(rest, "[") {
		host = addressAndPort
	}
	var port string
	if p.Host, port, err = host(rest); err != nil || port == "" {
		return p, err
	}
	if p.Port, err = strconv.Atoi(port); err != nil || p.Port < 1 || p.Port > 65535 {
		return p, fmt.Errorf("%q is no port from 1 to 65535: ssh:HOST:PORT", port)
	}
	return p, nil
}

// addressAndPort cuts "[address]:port", of which the port may be missing.
func addressAndPort(text string) (address, port string, err error) {
	address, rest, closed := strings.Cut(text[1:], "]")
	if !closed {
		return "", "", errors.New("the bracket before the IPv6 address is not closed: ssh:[ADDRESS]:PORT")
	}
	if addr, err := netip.ParseAddr(address); err != nil || !zonePattern.MatchString(addr.Zone()) {
		return "", "", fmt.Errorf("%q is no IPv6 address: ssh:[ADDRESS]:PORT", address)
	}
	port, colon := strings.CutPrefix(rest, ":")
	if rest != "" && (!colon || port == "") {
		return "", "", fmt.Errorf("%q after the brackets is no port: ssh:[ADDRESS]:PORT", rest)
	}
	return address, port, nil
}

// hostAndPort cuts "host:port", of which the port may be missing.
func hostAndPort(text string) (host, port string, err error) {
	if strings.Count(text, ":") > 1 {
		return "", "", fmt.Errorf("an IPv6 address stands in brackets: ssh:[%s]", text)
	}
	host, port, colon := strings.Cut(text, ":")
	if colon && port == "" {
		return "", "", errors.New("there is no port after the colon: ssh:HOST:PORT, or ssh:HOST for ssh's own")
	}
	if !hostPattern.MatchString(host) {
		return "", "", fmt.Errorf("%q is no host: a name of ~/.ssh/config or DNS, or an address: ssh:[USER@]HOST[:PORT]", host)
	}
	return host, port, nil
}

// String is what Parse reads.
func (p Place) String() string {
	switch p.Kind {
	case Namespace:
		return "ns:" + p.Name
	case Process:
		return "pid:" + strconv.Itoa(p.PID)
	case Address:
		return "addr:" + p.Addr.String()
	case SSH:
		text := p.Host
		if strings.Contains(text, ":") {
			text = "[" + text + "]"
		}
		if p.User != "" {
			text = p.User + "@" + text
		}
		if p.Port != 0 {
			text += ":" + strconv.Itoa(p.Port)
		}
		return "ssh:" + text
	}
	return ""
}

// UnmarshalText reads what String writes.
func (p *Place) UnmarshalText(text []byte) (err error) {
	*p, err = Parse(string(text))
	return err
}

// MarshalText writes what UnmarshalText reads.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
